"""Clients that do not read what they asked for cost the web processes a bounded amount of memory."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from portal.web.slow_readers import LEAST_READ, SlowReaders, place_of
from tests.jobs.conftest import eventually
from tests.web.conftest import Several
from tests.web.reading import WITHIN, hung_up, read_on

MIB = 1 << 20
LARGE = 16 * MIB


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A folder with one large file."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "large.bin").write_bytes(bytes(LARGE))
    return folder


def asks(web: Several, clients: ExitStack, path: str = "/static/large.bin") -> socket.socket:
    """Ask for something of which nothing is read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(WITHIN)
    clients.enter_context(client)
    client.connect(("127.0.0.1", web.port))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return client


def memory(web: Several) -> int:
    """Bytes that the web processes have of their own."""
    lines = "\n".join(Path(f"/proc/{pid}/status").read_text() for pid in web.pids).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


@pytest.mark.slow
@pytest.mark.deep
def test_static_files_that_nobody_reads_take_no_memory(
    several: Callable[..., Several], clients: ExitStack, static: Path
) -> None:
    web = several(NOVELLA_STATIC_ROOT=str(static))
    assert read_on(asks(web, clients), LARGE) >= LARGE
    before = memory(web)
    for _ in range(16):
        assert asks(web, clients).recv(8) == b"HTTP/1.1"
    assert memory(web) - before < 4 * LARGE


@pytest.mark.slow
def test_who_stops_reading_is_dropped_and_who_reads_slowly_is_served(
    several: Callable[..., Several], clients: ExitStack, static: Path
) -> None:
    web = several(NOVELLA_STATIC_ROOT=str(static), NOVELLA_READ_TIMEOUT="5")
    still, slow = asks(web, clients), asks(web, clients)
    read = 0
    while not hung_up(still, within=0.1):
        read += len(slow.recv(1 << 15))
        assert read < LARGE
    assert read + read_on(slow, LARGE - read) >= LARGE
    assert read_on(still, LARGE) < LARGE


@pytest.mark.slow
@pytest.mark.deep
def test_an_address_has_a_share_of_the_connections(several: Callable[..., Several]) -> None:
    web = several(NOVELLA_CONNECTIONS_PER_ADDRESS="3")
    with ExitStack() as clients:
        answers = []
        for _ in range(12):
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                answers.append(asks(web, clients, "/healthz").recv(8))
        assert 3 <= answers.count(b"HTTP/1.1") <= 6

    def answers_again() -> bool:
        with ExitStack() as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            return asks(web, client, "/healthz").recv(8) == b"HTTP/1.1"
        return False

    eventually(answers_again, "the share is given back")


class Connection:
    """A connection for which so much waits."""

    connected, offset, protocol, taken = 1, 0, None, 0

    def __init__(self, size: int, place: str = "192.0.2.1") -> None:
        self.dataBuffer, self._tempDataLen, self.place = bytes(size), 0, place
        self.aborted = False

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.aborted = True


def dropped(most: int, connections: list[Connection]) -> list[bool]:
    SlowReaders(most, 60.0).look(connections, 0.0)
    return [each.aborted for each in connections]


def test_the_largest_of_too_much_for_one_address_is_dropped() -> None:
    connections = [Connection(300), Connection(700), Connection(200), Connection(0), Connection(900, "192.0.2.2")]
    assert dropped(1000, connections) == [False, True, False, False, False]
    assert dropped(1200, connections[2:]) == [False, False, False]


def test_all_addresses_together_have_a_bound_too() -> None:
    connections = [Connection(900 + number, f"192.0.2.{number}") for number in range(6)]
    assert dropped(1000, connections) == [False] * 4 + [True] * 2


def test_who_takes_enough_is_waited_for() -> None:
    reader, still, late = Connection(100), Connection(100), Connection(100)
    readers = SlowReaders(1000, 60.0)
    for number in range(4):
        reader.taken += LEAST_READ
        readers.look([reader, still, *([late] if number else [])], number * 30.0)
    assert [each.aborted for each in (reader, still, late)] == [False, True, True]


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_as_one_address(host: str, place: str) -> None:
    assert place_of(host) == place
