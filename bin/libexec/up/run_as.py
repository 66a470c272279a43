"""Runs the portal's programs under their own account when bin/up is root, so that they can access only their own
folder.

Such a command is started by setpriv, which drops every capability permanently. If the account cannot reach the
checkout, Python or the data folder (below /root, in a home directory), the command gets a mount namespace. In it, the
inaccessible folder is replaced by a folder that contains only the checkout, Python and the data folder, with their
usual paths.
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
"""Environment variable with the name of a different account; with ``root``, the programs run as root."""
STAGE = Path("/run/novella")
"""An empty folder. In the command's mount namespace, folders are mounted below it before they are mounted at their
usual paths.
"""
WRITTEN = (
    "NOVELLA_IMAGE_DIR",
    "NOVELLA_BACKUP_DIR",
    "NOVELLA_STATIC_ROOT",
    "NOVELLA_TOKEN_KEYS_DIR",
    "NOVELLA_CREDENTIAL_KEYS_DIR",
)
READ = ("NOVELLA_POLICY_FILE",)
"""Settings that name folders (``WRITTEN``) or files (``READ``) outside the data folder."""
LOWEST_PORT = 1024
"""The lowest port that does not require a capability."""
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
    """Programs cannot run under the account. The message is printed within a sentence, so it starts in lower case and
    has no full stop.
    """


@dataclass(frozen=True)
class RunAs:
    """The account of programs. If ``uid`` is None, they run under the caller's account."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None
    home: Path = Path("/nonexistent")
    shown: tuple[Path, ...] = ()
    """Folders that the account must be able to reach."""
    covers: tuple[Path, ...] = ()
    """The outermost folders on the paths to ``shown`` that the account cannot enter."""

    def command(self, command: list[str], port: int | None = None) -> list[str]:
        """Return the command, preceded by a command that drops privileges. ``port`` is the port that the command
        listens on.
        """
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
        """Return a shell script that replaces the inaccessible folders, mounts ``shown`` in their replacements, and
        executes its arguments.
        """
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
        """Start Python once under the account. Raises RunAsError if it does not start, or cannot reach a folder that it
        needs.
        """
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
    """Return the account's name; empty if programs run under the caller's account."""
    if os.geteuid() != 0:
        return ""
    name = os.environ.get(SETTING, "").strip() or ACCOUNT
    return "" if name == "root" else name


def owner(home: Path) -> RunAs:
    """Return the account for a command on a folder: if root runs it, the folder's owner, otherwise the caller."""
    uid = home.stat().st_uid
    if os.geteuid() != 0 or uid == 0:
        return RunAs()
    return of(pwd.getpwuid(uid), home)


def of(user: pwd.struct_passwd, home: Path) -> RunAs:
    """Return the account of a user. According to the current permissions, it includes the folders to show and to
    replace.
    """
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
    """Return the first folder above ``path`` that the user cannot enter."""
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
    """``python bin/libexec up.run_as FOLDER COMMAND…``: run a command as the owner of the folder."""
    folder, *command = sys.argv[1:]
    run_as = owner(Path(folder).resolve())
    command = run_as.command(command)
    os.execvpe(command[0], command, run_as.environment(dict(os.environ)))  # noqa: S606 - it is the command


if __name__ == "__main__":
    main()
