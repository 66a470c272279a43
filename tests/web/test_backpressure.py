"""A client that reads nothing, or writes without end, costs the server a bounded amount of memory."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import struct
import time

import pytest

from portal.web import websockets
from provisioning.events.services import record
from tests.support.cast import People
from tests.web.conftest import Serve
from tests.web.reading import WITHIN, hung_up, read_on

pytestmark = pytest.mark.slow


PIECE = 200_000
PIECES = 3 * websockets.MOST_UNSENT // PIECE


def open_raw(port: int, token: str = "", path: str = "/ws/v1/events") -> socket.socket:
    """A WebSocket of which nothing is read but the handshake, and the hello that follows events' handshakes."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(WITHIN)
    client.connect(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nX-Auth-Token: {token}\r\n\r\n".encode()
    )
    answer, requested = b"", b'"hello"' if token else b"\r\n\r\n"
    while requested not in answer:
        answer += (piece := client.recv(4096))
        assert piece, answer
    assert answer.startswith(b"HTTP/1.1 101")
    return client


def write_frames(client: socket.socket, count: int) -> None:
    """Send empty texts."""
    frame = b"\x81\x80\0\0\0\0"
    for _ in range(count // 5000):
        client.sendall(frame * 5000)


def begin_message(client: socket.socket, size: int, *, whole: bool) -> None:
    """Send so many bytes of one message, as one frame or as many."""
    piece = b"x" * (1 << 20)
    for number in range(size // len(piece)):
        if not number or not whole:
            kind = 0x82 if whole else 0x00 if number else 0x02
            client.sendall(bytes([kind, 0xFF]) + struct.pack("!Q", size if whole else len(piece)) + b"\0\0\0\0")
        client.sendall(piece)


def happen(people: People) -> int:
    """Make more events than are kept for a slow reader; returns how many bytes they are."""
    for _ in range(PIECES):
        record(f"project:{people.alice.project_id}", "note", {"text": "x" * PIECE})
    return PIECES * PIECE


def test_a_client_that_reads_nothing_is_dropped(serve: Serve, people: People) -> None:
    client = open_raw(serve(TESTS_STALLED="0.3"), people.alice.token)
    whole = happen(people)
    assert hung_up(client)
    assert read_on(client, whole) < whole
    client.close()


@pytest.mark.deep
def test_a_program_with_a_bad_token_of_a_console_gets_no_byte(port: int) -> None:
    client = open_raw(port, path="/ws/console?token=guess")
    assert client.recv(1) == b""
    client.close()


@pytest.mark.deep
def test_a_client_that_pauses_is_waited_for_and_gets_everything(port: int, people: People) -> None:
    client = open_raw(port, people.alice.token)
    whole = happen(people)
    time.sleep(1.5)  # what is sent without waiting is sent by now
    assert read_on(client, whole) >= whole
    client.close()


@pytest.mark.parametrize("whole", [True, False], ids=["one frame", "many frames"])
@pytest.mark.parametrize("path", ["/ws/agent", "/ws/v1/events"])
def test_a_message_without_end_is_refused_before_it_is_kept(port: int, people: People, path: str, whole: bool) -> None:
    """Who has shown no credential yet can begin one, too."""
    client = open_raw(port, "" if path == "/ws/agent" else people.alice.token, path)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        begin_message(client, 64 << 20, whole=whole)
    client.close()


def test_a_link_without_a_credential_may_send_little(port: int) -> None:
    client = open_raw(port, path="/ws/agent")
    ended = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        begin_message(client, 1 << 20, whole=True)
        ended = client.recv(1)
    assert ended == b""
    client.close()


def test_a_client_that_writes_without_end_is_dropped(port: int, people: People) -> None:
    client = open_raw(port, people.alice.token)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        write_frames(client, 2_000_000)
    client.close()
