"""Databases of a cloud of bin/up that are copied and put back by the commands of the operators' guide."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

import psycopg

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, wait_for
from tools.postgresql import Server, programs

GUIDE = (CHECKOUT / "docs/operator-guide.md").read_text()
PAGE = GUIDE[GUIDE.index("\n## Backup and restore") : GUIDE.index("\n## Upgrading")]
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
LAST = "manage.py after_restore"


def commands_of(*words: str) -> str:
    """Return the one block of commands of the page that has all of these words."""
    (result,) = [block for block in BLOCKS if all(word in block for word in words)]
    return str(result)


class Kept(ABC):
    """A database, the copy of it, and how one goes back to that."""

    def __init__(self, cloud: OneMachine, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.start()

    def run(self, commands: str) -> str:
        """Run commands of the page as an operator does."""
        named = {"DATA": str(self.cloud.data), "COPY": str(self.folder / "copy")}
        done = subprocess.run(
            ["sh", "-e", "-c", commands],
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
            env=ENVIRONMENT | self.cloud.settings | named,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @abstractmethod
    def start(self) -> None:
        """Make the database ready before the cloud starts."""

    @abstractmethod
    def copy(self) -> None: ...

    @abstractmethod
    def put_back(self) -> str:
        """Go back, while nothing of the portal runs; return what ``after_restore`` says."""

    @abstractmethod
    def stop(self) -> None:
        """End what was started."""


class Sqlite(Kept):
    """The file in the data folder."""

    def start(self) -> None:
        """The cloud makes it."""

    def stop(self) -> None:
        """It goes with the data folder."""

    def copy(self) -> None:
        self.run(commands_of(".backup"))

    def put_back(self) -> str:
        return self.run(commands_of("db.sqlite3-wal", LAST))


class Postgresql(Kept):
    """A server of its own."""

    def start(self) -> None:
        self.server = Server(self.folder / "pg", durable=False)
        self.server.start()
        self.cloud.settings["NOVELLA_DATABASE_URL"] = self.server.url

    def copy(self) -> None:
        self.run(commands_of("pg_dump"))

    def put_back(self) -> str:
        return self.run(commands_of("pg_restore", LAST))

    def stop(self) -> None:
        self.server.stop(keep=False)


class Failover(Postgresql):
    """A server and an asynchronous standby, which is behind when it takes over."""

    def copy(self) -> None:
        """Make the standby, let it catch up, and keep everything later from it."""
        self.standby = Server(self.folder / "standby", durable=False)
        owner = (self.folder / "pg").stat()
        (self.folder / "standby").mkdir(mode=0o711)
        os.chown(self.folder / "standby", owner.st_uid, owner.st_gid)
        command = [programs() / "pg_basebackup", "-D", self.folder / "standby/data", "-R", "-X", "stream", "-c", "fast"]
        command += ["-h", self.folder / "pg", "-U", "novella", "--no-sync"]
        who = {"user": owner.st_uid, "group": owner.st_gid} if os.geteuid() == 0 else {}
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder / "standby", **who)  # type: ignore[call-overload]
        self.standby.run()
        with self._connect(self.server) as primary, self._connect(self.standby) as standby:
            (here,) = primary.execute("SELECT pg_current_wal_lsn()").fetchone()  # type: ignore[misc]
            reached = f"SELECT pg_last_wal_replay_lsn() >= '{here}'::pg_lsn"
            wait_for("the standby has caught up", lambda: standby.execute(reached).fetchone() == (True,))
        self.standby.stop(keep=True)

    def put_back(self) -> str:
        """The primary is lost, and the standby promoted."""
        self.server.signal(signal.SIGKILL)
        self.standby.run()
        with self._connect(self.standby) as standby:
            assert standby.execute("SELECT pg_promote()").fetchone() == (True,)
        self.cloud.settings["NOVELLA_DATABASE_URL"] = self.standby.url
        return self.run(commands_of("pg_restore", LAST).splitlines()[-1])

    def stop(self) -> None:
        self.standby.stop(keep=False)
        self.server.stop(keep=False)

    @staticmethod
    def _connect(server: Server) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(server.url.replace("postgres:", "postgresql:"), autocommit=True)
