"""Asks the portal whether launching works."""

from __future__ import annotations

import json
import random
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 65_536
LOWEST_FREE = 10_240
MOST_TRIED = 20
GIVEN_BY_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class PortError(Exception):
    """The port cannot be used. The message is printed after ``bin/up:``."""


@dataclass(frozen=True)
class Health:
    """The answer of ``GET /healthz``."""

    ok: bool
    workers: int
    hosts_up: int


def ask(port: int, timeout: float = 2.0) -> Health | None:
    """Ask once over plain HTTP. Returns None if there is no valid answer within ``timeout`` seconds."""
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
    """Return a port of the loopback address without a listener.

    It is outside the range from which the kernel assigns ports: otherwise another program could get it before a server
    listens.
    """
    first_given = int(GIVEN_BY_KERNEL.read_text().split()[0])
    ports = range(LOWEST_FREE, first_given) or range(1024, 65_536)
    for port in random.sample(ports, min(MOST_TRIED, len(ports))):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    message = f"none of {MOST_TRIED} ports between {ports[0]} and {ports[-1]} is free."
    raise PortError(message)


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
