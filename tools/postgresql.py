"""A PostgreSQL server of its own on a UNIX socket, without TCP, that ends with the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from up.processes import children

START_WITHIN = 60.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class PostgresqlError(Exception):
    """The server cannot be started; the text gives the reason."""


class Server:
    """A server whose files are in one folder; its only role, ``novella``, needs no password there."""

    in_main: Callable[[Callable[[], None]], None] = staticmethod(lambda work: work())
    """Does something in the main thread; another function once that thread runs something else."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        """Choose a new folder that the server's user may reach; without ``durable`` nothing is forced to the disk."""
        self._folder = folder
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgres://novella@/postgres?host={folder}"

    @property
    def pid(self) -> int | None:
        """The first process of the server; the others are its children."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Create the files, start the server and wait until it answers. Raises PostgresqlError."""
        self._fill("initdb", "-U", "novella", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.run()

    def start_as_standby(self, primary: Server) -> None:
        """Copy a running server, start the copy as its asynchronous standby, and wait until it answers.

        Raises PostgresqlError.
        """
        self._fill(
            "pg_basebackup", "-h", str(primary._folder), "-U", "novella", "-R", "-X", "stream", "-c", "fast",
            "--no-sync",
        )  # fmt: skip
        self.run()

    def _fill(self, program: str, *options: str) -> None:
        """Create the folder and let a program create the server's files in it."""
        folder_of_programs, user = programs(), _server_user()
        self._folder.mkdir(mode=0o711, exist_ok=True)  # its socket is for every account
        if user:
            os.chown(self._folder, user["user"], user["group"])
        subprocess.run(
            [str(folder_of_programs / program), "-D", str(self._folder / "data"), *options],
            check=True,
            capture_output=True,
            env=_environment(),
            cwd=self._folder,
            **user,
        )

    def run(self) -> None:
        """Start the server from the main thread, whose end the kernel reports to it, and wait until it answers."""
        self.in_main(self._spawn)
        deadline = time.monotonic() + START_WITHIN
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.Error):
                psycopg.connect(self.url.replace("postgres://", "postgresql://"), connect_timeout=20).close()
                return
            time.sleep(0.1)
        raise PostgresqlError(f"PostgreSQL did not start; {self._folder}/server.log has more.")

    def _spawn(self) -> None:
        user = _server_user()
        command = [str(programs() / "postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-h", "", "-N", "300", *([] if self._durable else ["-F"])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                **user,
            )

    def stop(self, *, keep: bool) -> None:
        """End it without waiting for its clients; with ``keep`` its files stay."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None
        if not keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def break_off(self) -> None:
        """Shut it down immediately, so that it recovers at its next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)

    def kill(self) -> None:
        """SIGKILL all its processes at one moment, as when its machine is lost."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and its children, each of which has a session of its own."""
        if self._process is None:
            return
        for pid in [self._process.pid, *children(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _end_with_parent() -> None:
    """Between fork and exec: a fast shutdown when the run is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C"}


def programs() -> Path:
    """Return the folder of the newest server's programs, which Debian keeps out of PATH.  Raises PostgresqlError."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if found:
        return found[-1]
    postgres = shutil.which("postgres")
    if postgres is None:
        raise PostgresqlError("PostgreSQL is not installed (apt install postgresql).")
    return Path(postgres).parent


def _server_user() -> dict[str, Any]:
    """Return the user to run the server as, which refuses to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid}
