"""A real web server on the tests' database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.db import connection

from tests.jobs.conftest import ROOT, eventually

Serve = Callable[..., int]


@pytest.fixture
def serve(transactional_db: None, tmp_path: Path) -> Iterator[Serve]:
    """Start a web server with settings of the environment; returns its port."""
    with ExitStack() as servers:
        yield lambda **settings: servers.enter_context(_server(tmp_path / "web.log", settings))


@pytest.fixture
def port(serve: Serve) -> int:
    """The port of a web server with the usual settings."""
    return serve()


@contextmanager
def _server(output: Path, settings: dict[str, str]) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(number), "--verbosity", "0"]
    environment = {**os.environ, "TESTS_DATABASE": str(connection.settings_dict["NAME"]), "NOVELLA_ROLE": "web"}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, "tests.web.server:application"],
            cwd=ROOT,
            env={**environment, "DJANGO_SETTINGS_MODULE": "portal.settings", **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: process.poll() is not None or _listens(number), "the server listens")
        assert process.poll() is None, output.read_text()
        yield number
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
