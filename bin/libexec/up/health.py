"""Asks the portal whether launching works."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

MOST_BYTES = 65_536


class PortError(Exception):
    """The port cannot be used; the text is a sentence for the person at the terminal."""


@dataclass(frozen=True)
class Health:
    """The answer of ``GET /healthz``."""

    ok: bool
    workers: int
    hosts_up: int


def ask(port: int, timeout: float = 2.0) -> Health | None:
    """Ask once over plain HTTP; return None when no proper answer comes within ``timeout`` seconds."""
    request = f"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            connection.sendall(request)
            while len(answer) < MOST_BYTES and (part := connection.recv(MOST_BYTES)):
                answer += part
        document = json.loads(answer.partition(b"\r\n\r\n")[2])
        return Health(document["status"] == "ok", int(document["workers"]), int(document["hosts_up"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def free_port() -> int:
    """Return a port of the loopback address on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int) -> None:
    """Raise PortError unless a server may listen on this port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError as error:
            message = f"port {port} needs root; choose one above 1023 with --port."
            raise PortError(message) from error
        except OSError as error:
            message = f"port {port} is in use by another program; choose another one with --port."
            raise PortError(message) from error
