"""A client that reads nothing, or writes without end, costs the server a bounded amount of memory."""

from __future__ import annotations

import base64
import os
import socket

import pytest

from portal.web import websockets
from provisioning.events.services import record
from tests.support.cast import People

pytestmark = pytest.mark.slow


def open_raw(port: int, token: str) -> socket.socket:
    """A WebSocket of which nothing is read but the handshake."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(10)
    client.connect(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET /ws/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nX-Auth-Token: {token}\r\n\r\n".encode()
    )
    answer = b""
    while b'"hello"' not in answer:
        answer += client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101")
    return client


def is_dropped(client: socket.socket) -> bool:
    """Read on; whether the server hung up before it had sent everything."""
    read = 0
    try:
        while piece := client.recv(1 << 16):
            read += len(piece)
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return read < 2 * websockets.MOST_UNSENT


def write_frames(client: socket.socket, count: int) -> None:
    """Send empty texts."""
    frame = b"\x81\x80\0\0\0\0"
    for _ in range(count // 5000):
        client.sendall(frame * 5000)


def test_a_client_that_reads_nothing_is_dropped(port: int, people: People) -> None:
    client = open_raw(port, people.alice.token)
    for _ in range(3 * websockets.MOST_UNSENT // 200_000):
        record(f"project:{people.alice.project_id}", "note", {"text": "x" * 200_000})
    assert is_dropped(client)
    client.close()


def test_a_client_that_writes_without_end_is_dropped(port: int, people: People) -> None:
    client = open_raw(port, people.alice.token)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        write_frames(client, 2_000_000)
    client.close()
