"""A client that reads what it has asked for, in its own time."""

from __future__ import annotations

import contextlib
import select
import socket

WITHIN = 120
"""Seconds for what a server does."""


def hung_up(client: socket.socket, within: float = WITHIN) -> bool:
    """Whether the server hangs up in time, while nothing is read."""
    ended = select.poll()
    ended.register(client, select.POLLRDHUP)
    return bool(ended.poll(1000 * within))


def read_on(client: socket.socket, enough: int) -> int:
    """Read until there is enough; returns how many bytes came before the server hung up."""
    read = 0
    with contextlib.suppress(ConnectionResetError):
        while read < enough and (piece := client.recv(1 << 16)):
            read += len(piece)
    return read
