"""Runs the portal's programs under an account of their own when bin/up is root: it has access only to its own folder.

Such a command is started by setpriv, which drops every capability permanently. If the account cannot reach the
checkout, Python or the data folder (below /root, in a home directory), the command gets a mount namespace in which the
closed folder is replaced by an empty one that has only these in it, under their own names.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
ACCOUNT = "novella"
SETTING = "NOVELLA_USER"
"""Names another account; ``root`` for none."""
STAGE = Path("/run/novella")
"""An empty folder: in a namespace of its own, folders that are shown elsewhere are mounted below it for a moment."""
WRITTEN = (
    "NOVELLA_IMAGE_DIR",
    "NOVELLA_BACKUP_DIR",
    "NOVELLA_STATIC_ROOT",
    "NOVELLA_TOKEN_KEYS_DIR",
    "NOVELLA_CREDENTIAL_KEYS_DIR",
)
READ = ("NOVELLA_POLICY_FILE",)
"""Settings that name a folder or file outside the data folder."""
LOWEST_PORT = 1024
"""A port below this one needs a capability."""
PROBE = """
import os, sys
for word in sys.argv[1:]:
    right, path = int(word[0]), word[1:]
    if os.path.exists(path) and not os.access(path, right):
        sys.exit(f"it may not {'write' if right & os.W_OK else 'read'} {path}")
    if not os.path.exists(path):
        sys.exit(f"it does not get through to {path}")
import django, portal.environment
"""


class RunAsError(Exception):
    """Programs cannot run under the account; the text is a clause for the person at the terminal."""


@dataclass(frozen=True)
class RunAs:
    """An account; the caller's own where ``uid`` is None."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None
    home: Path = Path("/nonexistent")
    shown: tuple[Path, ...] = ()
    """Folders that the account must get through to."""
    covers: tuple[Path, ...] = ()
    """Folders that it does not get through, the outermost of each path."""

    def command(self, command: list[str], port: int | None = None) -> list[str]:
        """Return the command with what gives up rights before it; ``port`` is one that it listens on."""
        if self.uid is None:
            return command
        capabilities = "-all,+net_bind_service" if port is not None and port < LOWEST_PORT else "-all"
        drop = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups", "--no-new-privs"]
        drop += [f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}"]
        drop += ["--pdeathsig=TERM", "--", *command]
        if not self.covers:
            return drop
        return ["unshare", "--mount", "--propagation=slave", "sh", "-euc", self._mounts(), "sh", *drop]

    def environment(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment with the account's home and name."""
        if self.uid is None:
            return environment
        return environment | {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}

    def _mounts(self) -> str:
        """Return a shell script that shows the folders below the covers, then runs its arguments."""
        lines = [f"mount -t tmpfs -o mode=0700,size=64k novella {STAGE}"]
        covered = [path for path in self.shown if any(path.is_relative_to(cover) for cover in self.covers)]
        outermost = [
            path for path in covered if not any(path != other and path.is_relative_to(other) for other in covered)
        ]
        for number, path in enumerate(outermost):
            lines += [f"mkdir {STAGE}/{number}", f"mount --rbind {shlex.quote(str(path.resolve()))} {STAGE}/{number}"]
        lines += [f"mount -t tmpfs -o mode=0755,size=64k novella {shlex.quote(str(cover))}" for cover in self.covers]
        for number, path in enumerate(outermost):
            target = shlex.quote(str(path))
            lines += [f"mkdir -p {target}", f"mount --rbind {STAGE}/{number} {target}"]
        lines += [f"mount -o remount,ro {shlex.quote(str(cover))}" for cover in self.covers]
        lines += [f"umount -R -l {STAGE}", f"cd {shlex.quote(str(CHECKOUT))}", 'exec "$@"']
        return "\n".join(lines)

    def probe(self) -> None:
        """Start Python under the account once.  Raises RunAsError where that, or a folder it needs, is out of reach."""
        if self.uid is None:
            return
        words = [f"{os.R_OK | os.X_OK}{CHECKOUT}", f"{os.R_OK}{CHECKOUT / 'manage.py'}"]
        words += [f"{os.R_OK | os.W_OK | os.X_OK}{self.home}"]
        words += [f"{os.R_OK | os.W_OK | os.X_OK}{os.environ[name]}" for name in WRITTEN if os.environ.get(name)]
        words += [f"{os.R_OK}{os.environ[name]}" for name in READ if os.environ.get(name)]
        command = self.command([sys.executable, "-c", PROBE, *words])
        environment = self.environment(os.environ | {"PYTHONPATH": str(CHECKOUT)})
        try:
            done = subprocess.run(
                command, env=environment, cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            raise RunAsError(f"{command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            raise RunAsError(done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")


def wanted() -> str:
    """Return the account's name, or nothing where programs run as who calls."""
    if os.geteuid() != 0:
        return ""
    name = os.environ.get(SETTING, "").strip() or ACCOUNT
    return "" if name == "root" else name


def owner(home: Path) -> RunAs:
    """Return whom the folder belongs to, for a command that root gives; the caller where that is root, too."""
    uid = home.stat().st_uid
    if os.geteuid() != 0 or uid == 0:
        return RunAs()
    return of(pwd.getpwuid(uid), home)


def of(user: pwd.struct_passwd, home: Path) -> RunAs:
    """Return the user with a way to the checkout, to Python and to ``home``, as their folders are now."""
    if user.pw_uid == 0:
        return RunAs()
    named = [Path(os.environ[name]).absolute() for name in (*WRITTEN, *READ) if os.environ.get(name)]
    base = Path(sys.base_prefix)
    shown = [CHECKOUT, Path(sys.prefix), base, base.resolve(), home.parent]
    shown += [path if path.is_dir() else path.parent for path in named]
    shown = [path for path in dict.fromkeys(shown) if path.is_dir()]
    groups = set(os.getgrouplist(user.pw_name, user.pw_gid))
    covers = _outermost(filter(None, (_closed(path, user.pw_uid, groups) for path in shown)))
    if covers:
        STAGE.mkdir(mode=0o755, exist_ok=True)
    return RunAs(user.pw_name, user.pw_uid, user.pw_gid, home, tuple(shown), tuple(covers))


def _closed(path: Path, uid: int, groups: set[int]) -> Path | None:
    """Return the first folder above ``path`` that the user does not get through."""
    for folder in reversed(path.parents):
        if not _gets_through(folder.stat(), uid, groups):
            return folder
    return None


def _gets_through(found: os.stat_result, uid: int, groups: set[int]) -> bool:
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in groups:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    different = sorted(set(folders))
    return [path for path in different if not any(path != other and path.is_relative_to(other) for other in different)]


def main() -> None:
    """``python bin/libexec up.run_as FOLDER COMMAND…``: run a command as whom the folder belongs to."""
    folder, *command = sys.argv[1:]
    run_as = owner(Path(folder).resolve())
    command = run_as.command(command)
    os.execvpe(command[0], command, run_as.environment(dict(os.environ)))  # noqa: S606 - it is the command


if __name__ == "__main__":
    main()
