"""Uploads and downloads through the real web server: constant memory, and clients that go away."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.one_machine import CHECKOUT
from tests.support.tables import each_row
from up.health import free_port

OCTETS = {"Content-Type": "application/octet-stream"}
MIB = 1 << 20
LARGE = 300 * MIB
WITHIN = 240.0
"""Seconds that a busy machine may take for a start, an answer or an end."""
ROOM = 24 * 1024
"""KiB that the server may grow by, whatever goes through it."""


@dataclass
class Server:
    port: int
    log: Path

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def state(self) -> dict[str, int]:
        return dict(json.loads(self.ask("GET", "/state")[1]))


def wait_for(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port, log = free_port(), tmp_path_factory.mktemp("streams") / "log"
    log.touch()
    command = [sys.executable, "-m", "daphne", "-v0", "-p", str(port), "tests.image.stream_app:application"]
    process = subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "STREAM_LOG": str(log)})
    try:
        wait_for(lambda: process.poll() is not None or _answers(port))
        yield Server(port, log)
    finally:
        process.terminate()
        process.wait(WITHIN)


def pieces(total: int) -> Iterator[bytes]:
    piece = bytes(MIB)
    return (piece for _ in range(total // MIB))


@pytest.mark.slow
@pytest.mark.parametrize(
    "announced", [pytest.param(True, marks=pytest.mark.deep), False], ids=["with length", "chunked"]
)
def test_a_large_upload_takes_constant_memory(server: Server, announced: bool) -> None:
    before = server.state()
    headers = OCTETS | ({"Content-Length": str(LARGE)} if announced else {})
    status, body = server.ask("PUT", "/count", pieces(LARGE), headers)
    assert (status, json.loads(body)["total"]) == (200, LARGE)
    after = server.state()
    assert after["peak"] - before["peak"] < ROOM
    assert after["exchanges"] == before["exchanges"]


@pytest.mark.slow
def test_a_large_download_to_a_slow_client_takes_constant_memory(server: Server) -> None:
    before = server.state()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WITHIN)
    connection.request("GET", f"/send?size={LARGE}")
    answer = connection.getresponse()
    answer.read(MIB)
    during = server.state()
    total = MIB
    while piece := answer.read(4 * MIB):
        total += len(piece)
    assert total == LARGE
    assert max(during["peak"], server.state()["peak"]) - before["peak"] < ROOM
    connection.close()


def test_a_client_that_goes_away_while_sending(server: Server) -> None:
    before = server.log.read_text().count("counting") if server.log.exists() else 0
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WITHIN)
    connection.putrequest("PUT", "/count")
    for name, value in (OCTETS | {"Content-Length": str(10 * MIB)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(bytes(MIB))
    # A request whose client is gone before its view began has no view.
    wait_for(lambda: server.log.exists() and server.log.read_text().count("counting") > before)
    connection.close()
    wait_for(lambda: "interrupted after" in server.log.read_text())
    assert server.state()["exchanges"] == 1


def test_a_client_that_goes_away_while_receiving(server: Server) -> None:
    before = server.state()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WITHIN)
    connection.request("GET", f"/send?size={LARGE}")
    connection.getresponse().read(MIB)
    assert server.state()["files"] > before["files"]
    connection.close()
    wait_for(lambda: server.state()["files"] <= before["files"])


def test_an_answer_without_reading_reaches_the_client_and_the_connection_lives_on(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WITHIN)
    for _ in range(2):
        connection.request("PUT", "/refuse", bytes(20 * MIB), OCTETS)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == (409, {"refused": True})
    connection.close()


def test_any_other_body_is_bounded(server: Server) -> None:
    before = server.state()
    for headers in ({"Content-Length": str(LARGE)}, {"Transfer-Encoding": "chunked"}):
        with socket.create_connection(("127.0.0.1", server.port), WITHIN) as client:
            lines = [f"{name}: {value}" for name, value in {"Host": "127.0.0.1", **headers}.items()]
            client.sendall("\r\n".join(["POST /count HTTP/1.1", *lines, "", ""]).encode())
            if "Transfer-Encoding" in headers:
                for _ in range(2):
                    client.sendall(b"100000\r\n" + bytes(MIB) + b"\r\n")
            assert client.recv(64).startswith(b"HTTP/1.1 413")
    assert server.state()["peak"] - before["peak"] < ROOM


@each_row(
    ("headers", "size", "status"),
    [
        ({}, 65_536, 200),
        ({}, 65_537, 413),
        ({"X-Auth-Token": "x"}, MIB, 200),
        ({"Cookie": "x=y"}, MIB + 1, 413),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 10, 415),
        ({"Content-Type": "Multipart/Form-Data", "Cookie": "x=y"}, MIB, 415),
    ],
)
def test_bodies_are_refused_before_they_are_read(
    server: Server, headers: dict[str, str], size: int, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), WITHIN) as client:
        lines = [f"{name}: {value}" for name, value in {"Host": "127.0.0.1", **headers}.items()]
        client.sendall("\r\n".join(["POST /count HTTP/1.1", *lines, f"Content-Length: {size}", "", ""]).encode())
        client.sendall(bytes(size))  # who is refused reads the answer when it has sent all
        assert client.recv(12) == f"HTTP/1.1 {status}".encode()


def test_answers_that_nobody_reads_take_no_memory(server: Server) -> None:
    """Each is 16 MiB."""
    before = server.state()
    with ExitStack() as clients:
        for _ in range(8):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN))
            client.sendall(b"GET /make HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(8) == b"HTTP/1.1"
        during = server.state()
    assert during["peak"] - before["peak"] < ROOM


def test_an_answer_arrives_whole_at_a_client_that_pauses(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN) as client:
        client.sendall(b"GET /make HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2)
        time.sleep(0.2)
        left = 32 * MIB
        while left > 0:
            piece = client.recv(MIB)
            assert piece
            left -= len(piece)


@pytest.mark.slow
def test_a_client_cannot_name_an_exchange(server: Server) -> None:
    status, body = server.ask("PUT", "/count", b"12345", OCTETS | {"X-Novella-Exchange": "0" * 32})
    assert (status, json.loads(body)["total"]) == (200, 5)
