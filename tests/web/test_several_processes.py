"""Several web processes behind one port: who gets a connection, and what the end of one means to clients."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from provisioning.identity.lockout import throttle
from tests.jobs.conftest import PATIENCE, ROOT, eventually
from tests.web.conftest import Several, one_alone

pytestmark = pytest.mark.slow

Start = Callable[..., Several]
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def ask(connection: socket.socket) -> bytes:
    """Put a request to a connection that stays open; returns the beginning of the answer."""
    connection.sendall(REQUEST)
    return connection.recv(8)


def opened(several: Several, connections: ExitStack) -> socket.socket:
    return connections.enter_context(socket.create_connection(("127.0.0.1", several.port), timeout=120))


def all_answer(several: Several, connections: ExitStack) -> None:
    """Ask once over a connection of its own until no process is still starting."""
    eventually(lambda: Counter(where(several, connections, 4)).keys() == set(several.pids), "both processes answer")


def where(several: Several, connections: ExitStack, count: int) -> list[int]:
    """Open connections one after the other, with a request on each; returns the processes that hold them."""
    made = [opened(several, connections) for _ in range(count)]
    assert {ask(each) for each in made} == {b"HTTP/1.1"}
    return [several.holder(each) for each in made]


@pytest.mark.deep
def test_connections_that_last_are_spread_evenly(several: Start, connections: ExitStack) -> None:
    web = several()
    with ExitStack() as first:
        all_answer(web, first)
    held = Counter(where(web, connections, 16))
    assert held.keys() == set(web.pids)
    assert min(held.values()) >= 6


@pytest.mark.deep
def test_a_process_that_stands_still_holds_nobody_up(several: Start, connections: ExitStack) -> None:
    web = several()
    all_answer(web, connections)
    still, lively = web.pids
    os.kill(still, signal.SIGSTOP)
    try:
        assert set(where(web, connections, 8)) == {lively}
    finally:
        os.kill(still, signal.SIGCONT)


def test_a_killed_process_is_replaced_and_nobody_is_refused(several: Start, connections: ExitStack) -> None:
    web = several()
    all_answer(web, connections)
    before = set(web.pids)
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    where(web, connections, 8)
    eventually(lambda: len(web.pids) == 2 and killed not in web.pids, "another one")
    assert before - set(web.pids) == {killed}
    all_answer(web, connections)


def holds_the_application(pid: int) -> bool:
    return "site-packages" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.deep
def test_the_master_has_nothing_of_the_application_in_memory(several: Start, connections: ExitStack) -> None:
    web = several()
    all_answer(web, connections)
    eventually(lambda: not holds_the_application(web.master.pid), "the loader gives its place to the master")
    assert all(holds_the_application(pid) for pid in web.pids)
    killed, stays = web.pids
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: len(web.pids) == 2 and killed not in web.pids, "another one")
    eventually(lambda: not holds_the_application(web.master.pid), "and again")
    assert stays in web.pids
    all_answer(web, connections)


@pytest.mark.deep
def test_a_process_that_answers_no_more_is_ended(several: Start, connections: ExitStack) -> None:
    web = several(TESTS_SILENT="10")
    all_answer(web, connections)
    still = web.pids[0]
    os.kill(still, signal.SIGSTOP)
    eventually(lambda: still not in web.pids, "its end")
    eventually(lambda: len(web.pids) == 2, "another one")
    all_answer(web, connections)


@pytest.mark.deep
def test_all_stop_when_asked(several: Start, connections: ExitStack) -> None:
    web = several()
    all_answer(web, connections)
    web.master.send_signal(signal.SIGTERM)
    assert web.master.wait(PATIENCE) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", web.port)) != 0


@pytest.mark.deep
def test_a_process_stops_though_requests_wait_for_ever(transactional_db: None, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    with (
        one_alone(tmp_path / "web.log", TESTS_STUCK=str(stuck)) as (port, process),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        connection.sendall(REQUEST.replace(b"/healthz", b"/stuck"))
        eventually(stuck.exists, "the request")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def wrong_password(several: Several, name: str) -> int:
    """Try to sign in over a connection of its own; returns the status."""
    request = {"auth": {"identity": {"methods": ["password"], "password": {"user": {
        "name": name, "password": "wrong", "domain": {"id": "default"}}}}}}  # fmt: skip
    client = http.client.HTTPConnection("127.0.0.1", several.port, timeout=120)
    try:
        client.request("POST", "/identity/v3/auth/tokens", json.dumps(request), {"Content-Type": "application/json"})
        return client.getresponse().status
    finally:
        client.close()


@pytest.mark.deep
def test_wrong_passwords_are_counted_together(several: Start, connections: ExitStack) -> None:
    web = several()
    all_answer(web, connections)
    statuses = []
    for number in range(throttle.FREE + 1):
        turn = web.pids[number % 2]
        os.kill(turn, signal.SIGSTOP)  # the other one gets it
        statuses.append(wrong_password(web, "alice"))
        os.kill(turn, signal.SIGCONT)
    assert statuses == [*[401] * throttle.FREE, 429]


@pytest.mark.parametrize(
    ("role", "application"),
    [
        ("worker", "portal.asgi:application"),
        pytest.param("web", "portal.asgi:no", marks=pytest.mark.deep),
    ],
)
def test_what_cannot_start_ends(role: str, application: str, tmp_path: object) -> None:
    """The supervisor sees it, and says so."""
    environment = {**os.environ, "NOVELLA_ROLE": role, "NOVELLA_DATA": str(tmp_path)}
    command = [sys.executable, "manage.py", "web", "-p", "0", "--processes", "2", "--application", application]
    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 1
