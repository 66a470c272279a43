"""Requests that are created once and sent many times over persistent connections, so that the client needs less
processor time than the measured cloud.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tools.bench.cloud import BenchError

TIMEOUT = 60.0
IDLE = 2.0
"""Seconds after which an idle connection is opened again, because servers close idle connections."""
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)

Origin = tuple[str, str, int]
"""Scheme, host and port."""


@dataclass(frozen=True)
class Request:
    """A request in its wire format, and its destination."""

    method: str
    url: str
    origin: Origin
    wire: bytes


@dataclass(frozen=True)
class Answer:
    """An answer, read to its end."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """Return a header's value; empty if the answer does not have the header."""
        found = re.search(rb"\r\n" + name.encode() + rb":[ \t]*([^\r]*)", self.head, re.IGNORECASE)
        return found[1].decode("latin-1") if found else ""


def request(method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Request:
    """Create a request for an absolute URL; a body is JSON."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = {"Host": parts.netloc, "Accept": "application/json", "User-Agent": "bin/bench"} | dict(headers)
    if body is not None:
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    origin = (parts.scheme, parts.hostname or "", port)
    return Request(method, url, origin, head.encode() + b"\r\n" + (body or b""))


class Caller:
    """A client with one persistent connection to each origin. Threads must not share it."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._connections: dict[Origin, _Connection] = {}

    def send(self, what: Request) -> Answer:
        """Send a request and read its complete answer. A GET is repeated once if the server has closed the connection.

        Raises BenchError if there is no answer.
        """
        connection = self._connections.get(what.origin)
        if connection is None:
            connection = self._connections[what.origin] = _Connection(what.origin, self._tls)
        try:
            try:
                return connection.exchange(what.wire)
            except _ClosedError:
                if what.method != "GET":
                    raise
                return connection.exchange(what.wire)
        except (OSError, _ClosedError) as error:
            connection.close()
            raise BenchError(f"{what.method} {what.url}: {type(error).__name__} {error}") from error

    def ask(self, what: Request) -> Answer:
        """Send a request that must be accepted. Raises BenchError with the cloud's message."""
        answer = self.send(what)
        if answer.status >= 400:
            raise BenchError(f"{what.method} {what.url}: {answer.status} {answer.body[:300].decode(errors='replace')}")
        return answer

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class _ClosedError(Exception):
    """The server closed the connection instead of answering."""


class _Connection:
    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._tls = tls
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._used = 0.0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer = b""

    def exchange(self, wire: bytes) -> Answer:
        if self._socket is None or time.monotonic() - self._used > IDLE:
            self.close()
            self._socket = self._open()
        try:
            self._socket.sendall(wire)
            answer = self._read()
        except (ConnectionResetError, BrokenPipeError) as error:
            self.close()
            raise _ClosedError("the connection was closed") from error
        except _ClosedError:
            self.close()
            raise
        self._used = time.monotonic()
        if _CLOSE.search(answer.head):
            self.close()
        return answer

    def _open(self) -> socket.socket:
        scheme, host, port = self._origin
        made = socket.create_connection((host, port), TIMEOUT)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if scheme == "https":
            return (self._tls or ssl.create_default_context()).wrap_socket(made, server_hostname=host)
        return made

    def _read(self) -> Answer:
        head = self._until(b"\r\n\r\n")
        status = int(head[9:12])
        if status in {204, 304}:
            return Answer(status, head, b"")
        if _CHUNKED.search(head):
            return Answer(status, head, self._chunks())
        length = _LENGTH.search(head)
        if length is None:
            raise _ClosedError("an answer without a length")
        return Answer(status, head, self._exactly(int(length[1])))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._until(b"\r\n").partition(b";")[0], 16):
            body += self._exactly(size)
            self._exactly(2)
        while self._until(b"\r\n") != b"\r\n":
            pass
        return body

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(end)
        return found + end

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _more(self) -> None:
        assert self._socket is not None  # noqa: S101 - it was opened for this exchange
        piece = self._socket.recv(262_144)
        if not piece:
            raise _ClosedError("the connection was closed")
        self._buffer += piece
