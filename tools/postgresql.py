"""A separate PostgreSQL server on a UNIX socket, without TCP, that ends with the process that has started it."""

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
    """The server cannot be started. The message gives the reason."""


class Server:
    """A server with its files in one folder. Its only role, ``novella``, needs no password."""

    in_main: Callable[[Callable[[], None]], None] = staticmethod(lambda work: work())
    """Calls a function in the main thread; it must be replaced if the server is started from another thread."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        """Use a new folder, which the server's user must be able to access. Without ``durable``, writes are not flushed
        to disk.
        """
        self._folder = folder
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgres://novella@/postgres?host={folder}"

    @property
    def pid(self) -> int | None:
        """The id of the server's main process; the other processes are its children."""
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
        """Create the folder, and run a program that creates the server's files in it."""
        folder_of_programs, user = programs(), _server_user()
        self._folder.mkdir(mode=0o711, exist_ok=True)  # all accounts may connect to its socket
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
        """Start the server, and wait until it answers. It is started from the main thread, because it ends with the
        thread that has started it.
        """
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
        """End the server without waiting for its clients; with ``keep`` its files are not removed."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None
        if not keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def crash(self) -> None:
        """Shut the server down immediately, so that it must recover at its next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the server at the same time, as if its machine failed."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and to its children, each of which has its own session."""
        if self._process is None:
            return
        for pid in [self._process.pid, *children(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _end_with_parent() -> None:
    """Called between fork and exec: requests a fast shutdown when the parent is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C"}


def programs() -> Path:
    """Return the folder with the programs of the newest server; Debian does not put them into PATH. Raises
    PostgresqlError.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if found:
        return found[-1]
    postgres = shutil.which("postgres")
    if postgres is None:
        raise PostgresqlError("PostgreSQL is not installed (apt install postgresql).")
    return Path(postgres).parent


def _server_user() -> dict[str, Any]:
    """Return the arguments of Popen for the server's user; empty if this process is not root. The server refuses to run
    as root.
    """
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid}
