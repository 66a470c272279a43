"""Streaming of large bodies: views read uploads as they arrive, and pass files to the web server to send.

The web server (``portal.web.http_requests``) opens an ``Exchange`` for a request and names it in a private header.
Without that server (tests, WSGI) the same functions use Django's own request and response.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from provisioning.common.database.connections import release
from provisioning.common.values.transfers import seconds_for

HEADER = "X-Novella-Exchange"
"""Internal header with the exchange; the web server removes it from clients' requests."""
HIGH_WATER = 4 << 20
"""Bytes of an upload buffered in memory before the sender is paused."""
PIECE = 256 << 10
MOST_FROM_STRANGERS = 65_536
"""Maximum bytes of the body of a request without credentials. The largest valid body of this kind contains a token and
a password.
"""
WINDOW = 30.0
"""Seconds of waiting over which a client's rate is measured."""


class BodyInterruptedError(Exception):
    """The body of a request ended early: the client disconnected or was too slow."""

    def __init__(self, message: str = "The upload was interrupted: not all of the data arrived.") -> None:
        super().__init__(message)


class Exchange:
    """A request's body and a response's file. The server's thread creates the exchange, and a view's thread uses it."""

    def __init__(self, resume: Callable[[], None], *, streamed: bool) -> None:
        self.token = secrets.token_hex(16)
        self.streamed = streamed
        """Whether the body is passed through this exchange instead of Django."""
        self.complete = False
        self._resume = resume
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._failed = self._discarding = False
        self._changed = threading.Condition()
        self._file: tuple[IO[bytes], int] | None = None
        _open[self.token] = self

    def feed(self, data: bytes) -> bool:
        """Add received bytes; False asks the server to pause reading until ``resume`` is called."""
        with self._changed:
            if self._discarding:
                return True
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify()
            return self._size < HIGH_WATER

    def end(self) -> None:
        """Mark the body as complete."""
        with self._changed:
            self.complete = True
            self._changed.notify()

    def discard(self) -> None:
        """Discard the rest of the body as it arrives."""
        with self._changed:
            self._discarding = True
            self._waiting.clear()
            self._size = 0

    def close(self) -> None:
        """End the exchange: a waiting reader gets BodyInterruptedError, and a file that was not sent is closed."""
        _open.pop(self.token, None)
        with self._changed:
            self._failed = not self.complete
            self._changed.notify()
        held = self.pop_file()
        if held is not None:
            held[0].close()

    def read(self, timeout: float | None = None) -> bytes:
        """Return the next bytes, waiting for them; empty at the end.

        Raises BodyInterruptedError, and TimeoutError if none arrived in ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self.complete or self._failed, timeout):
                raise TimeoutError
            if self._failed:
                raise BodyInterruptedError
            if not self._waiting:
                return b""
            data = self._waiting.popleft()
            held_back = self._size >= HIGH_WATER
            self._size -= len(data)
            free = held_back and self._size < HIGH_WATER
        if free:
            self._resume()
        return data

    def hand_over(self, file: IO[bytes], length: int) -> None:
        """Let the server send ``length`` bytes of an open file after the response's headers, and close it."""
        with self._changed:
            self._file = (file, length)

    def pop_file(self) -> tuple[IO[bytes], int] | None:
        """Return the response's file and length; None if there is none, or if they were returned before."""
        with self._changed:
            held, self._file = self._file, None
            return held


_open: dict[str, Exchange] = {}


class _Patience:
    """The limits of an upload's duration and rate. The rate is measured only over the time spent waiting for the
    client.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._waited = 0.0
        self._came = self._total = 0

    @property
    def _end(self) -> float:
        return self._began + seconds_for(settings.UPLOAD_TIMEOUT, self._total)

    def read(self, exchange: Exchange) -> bytes:
        """Return the next bytes; raises BodyInterruptedError for a client that is too slow."""
        began = time.monotonic()
        release()
        try:
            data = exchange.read(max(min(WINDOW - self._waited, self._end - began), 0.0))
        except TimeoutError:
            data = None
        now = time.monotonic()
        self._waited += now - began
        self._came += len(data or b"")
        self._total += len(data or b"")
        if now >= self._end:
            text = f"The upload took more than {settings.UPLOAD_TIMEOUT} seconds, and was slow."
            raise BodyInterruptedError(text)
        if self._waited >= WINDOW:
            if data != b"" and self._came < settings.UPLOAD_LEAST_RATE * WINDOW:
                text = f"The upload was ended: fewer than {settings.UPLOAD_LEAST_RATE} bytes a second arrived."
                raise BodyInterruptedError(text)
            self._waited, self._came = 0.0, 0
        return self.read(exchange) if data is None else data


def body_of(request: HttpRequest) -> Iterator[bytes]:
    """Yield a request's body as it arrives.

    While it waits, the thread uses no database connection. Raises BodyInterruptedError if the body ends before its
    declared length, if the client sends fewer than ``UPLOAD_LEAST_RATE`` bytes per second, or if the body takes longer
    than ``UPLOAD_TIMEOUT`` plus a time in proportion to the received bytes (``seconds_for``).
    """
    token = request.headers.get(HEADER)
    exchange = _open.get(token) if token else None
    if token and exchange is None:
        raise BodyInterruptedError
    announced = request.headers.get("Content-Length", "")
    total = 0
    patience = _Patience()
    streamed = exchange if exchange is not None and exchange.streamed else None
    for data in iter(lambda: patience.read(streamed) if streamed else _plain(request), b""):
        total += len(data)
        yield data
    if announced.isdigit() and total != int(announced):
        raise BodyInterruptedError


def _plain(request: HttpRequest) -> bytes:
    """Return the next piece of the body of a request without an exchange. Raises BodyInterruptedError."""
    try:
        return request.read(PIECE)
    except OSError as error:
        raise BodyInterruptedError from error


def file_response(request: HttpRequest, file: IO[bytes], length: int) -> HttpResponseBase:
    """Return a response that sends ``length`` bytes of an open file from its current position, with constant memory.

    The caller sets status and headers; ``Content-Length`` is set here.
    """
    token = request.headers.get(HEADER)
    exchange = _open.get(token) if token else None
    response: HttpResponseBase
    if exchange is not None:
        exchange.hand_over(file, length)
        response = HttpResponse(b"")
    else:
        response = FileResponse(_Part(file, length))
    response["Content-Length"] = str(length)
    response["Content-Type"] = "application/octet-stream"
    return response


class _Part:
    """The next ``length`` bytes of a file, for a server that iterates over the response."""

    def __init__(self, file: IO[bytes], length: int) -> None:
        self._file, self._left = file, length

    def read(self, size: int = PIECE) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()
