"""A real web server on the tests' database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection

from provisioning.jobs.queue.worker_groups import process_mark
from tests.jobs.conftest import ROOT, eventually
from up.health import free_port
from up.processes import children

Serve = Callable[..., int]


@pytest.fixture
def serve(transactional_db: None, tmp_path: Path) -> Iterator[Serve]:
    """Start a web server with settings of the environment; returns its port."""
    with ExitStack() as servers:
        yield lambda **settings: servers.enter_context(_server(tmp_path / "web.log", settings))


@pytest.fixture(scope="module")
def usual_server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A web server with the usual settings for all tests of a module, over the emptying of the database in between."""
    with _server(tmp_path_factory.mktemp("web") / "web.log", {}) as port:
        yield port


@pytest.fixture
def port(transactional_db: None, usual_server: int) -> int:
    """The port of a web server with the usual settings."""
    return usual_server


@dataclass
class Several:
    """Web processes behind one port, with the process that forks them."""

    port: int
    master: subprocess.Popen[bytes]
    output: Path

    @property
    def pids(self) -> list[int]:
        return children(self.master.pid)

    def holder(self, connection: socket.socket) -> int:
        """Return the process that holds the other end of a connection; 0 while it waits for one."""
        ends = (connection.getpeername()[1], connection.getsockname()[1])
        for pid in self.pids:
            with suppress(OSError):
                if ends in _connections(pid):
                    return pid
        return 0


@pytest.fixture
def several(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Several]]:
    """Start two web processes with settings of the environment."""
    output = tmp_path / "several.log"

    def start(**settings: str) -> Several:
        port, master = servers.enter_context(_process(output, settings, _two))
        result = Several(port, master, output)
        eventually(lambda: len(result.pids) == 2, "two processes")
        return result

    with ExitStack() as servers:
        yield start


def _one(port: str) -> list[str]:
    listens = ["-b", "127.0.0.1", "-p", port, "--verbosity", "0", "--websocket_connect_timeout", "60"]
    return ["-m", "daphne", *listens, "tests.web.server:application"]


def one_alone(output: Path, **settings: str) -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    """Start one web process without a master; gives its port and the process."""
    words = ["manage.py", "web", "--processes", "1", "--application", "tests.web.server:application", "-p"]
    return _process(output, settings, lambda port: [*words, port])


def _two(port: str) -> list[str]:
    return ["manage.py", "web", "-p", port, "--processes", "2", "--application", "tests.web.server:application"]


@contextmanager
def _server(output: Path, settings: dict[str, str]) -> Iterator[int]:
    with _process(output, settings, _one) as (port, _):
        yield port


@contextmanager
def _process(
    output: Path, settings: dict[str, str], command: Callable[[str], list[str]]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    number = free_port()
    environment = {**os.environ, "TESTS_DATABASE": str(connection.settings_dict["NAME"]), "NOVELLA_ROLE": "web"}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command(str(number))],
            cwd=ROOT,
            env={**environment, "DJANGO_SETTINGS_MODULE": "portal.settings", **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: process.poll() is not None or _listens(number), "the server listens")
        assert process.poll() is None, output.read_text()
        yield number, process
    finally:
        left = children(process.pid)
        process.kill()
        process.wait()
        eventually(lambda: not any(process_mark(pid) for pid in left), "the processes follow")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _connections(pid: int) -> set[tuple[int, int]]:
    """Return the local and the remote port of each TCP connection over IPv4 that a process holds."""
    held = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            held.add(link.readlink().name)
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        (int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16))
        for row in rows
        if f"socket:[{row[9]}]" in held
    }
