"""Daphne's HTTP request with streaming: views read uploads as they arrive, and files are sent at the client's pace.

Daphne itself reads a whole body into memory before the application is called, and buffers a response as fast as it is
generated. All other behaviour is Daphne's.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from typing import IO, Any

from daphne import http_protocol
from daphne.server import reactor
from django.conf import settings
from twisted.internet.interfaces import IPullProducer, IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from portal.web.streams import HEADER, MOST_FROM_STRANGERS, PIECE, Exchange

STREAMED_TYPE = b"application/octet-stream"
"""Content type of a PUT that is streamed to its view."""
REFUSED_TYPE = b"multipart/form-data"
"""Content type of bodies that are rejected: no view accepts files in a form, and parsing them would take a second of
CPU time for every 3 MB.
"""

PASSED_OVER, PASSED_OVER_FOR = 32 << 20, 5.0
"""Limits in bytes and seconds for discarding the rest of a rejected body."""

Refusal = Callable[[str, int], tuple[str, bytes]]
"""Path and status (413, 414, 415 or 431) → content type and body of the response."""


def refuse_line(channel: Any, line: bytes) -> None:
    """Answer a request line longer than Twisted's limit with 414 and a longer header with 431, and close the
    connection.

    Twisted itself would close it without a response. ``line`` is the received part.
    """
    of_address = bool(channel._HTTPChannel__first_line)
    if len(channel.requests) == (0 if of_address else 1):  # no other response is being sent
        status = HTTPStatus.REQUEST_URI_TOO_LONG if of_address else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        path = (line.split(b" ", 2)[1:2] or [b""])[0] if of_address else channel._path
        kind, body = StreamingRequest.refusal(path[:1024].decode("ascii", "replace"), status)
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        channel.transport.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    channel.transport.loseConnection()


class StreamingRequest(http_protocol.WebRequest):
    """An HTTP request; its body can be passed to the application while it arrives."""

    chunked: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchange: Exchange | None = None
        self._finish_waits = self._refused = False
        self._passed_over = 0
        self._hangs_up: Any = None

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """Start the application immediately if the body is to be streamed; the headers are complete here."""
        super().gotLength(length)
        if length != 0 and self._kind() == REFUSED_TYPE:
            self._refuse(415)
        elif length is not None and not self._is_streamed() and length > self._most():
            self._refuse(413)
        elif self._is_streamed():
            self.content = BytesIO()
            self._exchange = Exchange(self._resume_from_thread, streamed=True)
            super().requestReceived(self.channel._command, self.channel._path, self.channel._version)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Pass a piece of the body to the view's exchange, or let Daphne buffer it; discard it after a refusal."""
        if self._refused:
            self._passed_over += len(data)
            if self._passed_over > PASSED_OVER:
                self._hang_up()
        elif self._exchange is None:
            super().handleContentChunk(data)
            if self.content.tell() > self._most():
                self._refuse(413)
        elif not self._exchange.feed(data):
            self.channel.setTimeout(None)  # the delay is not the client's
            self.channel.transport.pauseProducing()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802 - Twisted's name
        """Handle the end of the body."""
        if self._refused:
            self._hang_up()
            return
        if self._exchange is None:
            super().requestReceived(command, path, version)
            return
        self._exchange.end()
        if self._finish_waits:
            self.finish()

    def process(self) -> Any:
        """Set the exchange header to the token of this request's exchange. A header that the client has sent is
        removed.
        """
        self.requestHeaders.removeHeader(HEADER)
        if self._exchange is None and self.method == b"GET" and not self._is_websocket():
            self._exchange = Exchange(self._resume_from_thread, streamed=False)
            self._exchange.end()
        if self._exchange is not None:
            self.requestHeaders.setRawHeaders(HEADER, [self._exchange.token])
        return super().process()

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Send a part of the response. The end of the body is replaced by the file of the exchange, if it has one."""
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        held = self._exchange.pop_file() if last and self._exchange else None
        if held is None:
            super().handle_reply(message)
        elif self.finished or self.channel is None:
            held[0].close()
        else:
            super().handle_reply({**message, "more_body": True})
            self.registerProducer(_FileProducer(self, *held), False)  # noqa: FBT003 - a pull producer

    async def drained(self) -> None:
        """Wait until the client has read enough of the response, or has disconnected."""
        if self.producer is None and self.channel is not None and self.channel._waitingForTransport:
            room = _Room()
            self.registerProducer(room, True)  # noqa: FBT003 - a push producer
            await room.made.wait()
            if self.channel is not None:
                self.unregisterProducer()

    @property
    def unwritten(self) -> int:
        """Bytes of the response's body in memory that are not written yet."""
        announced = self.responseHeaders.getRawHeaders(b"Content-Length")
        in_memory = self.startedWriting and announced and not isinstance(self.producer, _FileProducer)
        return max(int(announced[0]) - self.sentLength, 0) if in_memory else 0

    def finish(self) -> None:
        """End the response. The request ends only after its body was received; the rest of the body is discarded."""
        if self._exchange is not None and not self._exchange.complete:
            if not self.startedWriting:
                self.write(b"")
            if self.chunked:
                self.channel.write(b"0\r\n\r\n")  # a client may stop sending after the complete response
                self.chunked = 0
            self._finish_waits = True
            self._exchange.discard()
            self._resume()
            return
        super().finish()
        if self._exchange is not None:
            self._exchange.close()

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802 - Twisted's name
        """Handle the disconnection of the client."""
        if self._exchange is not None:
            self._exchange.close()
        if self._hangs_up is not None and self._hangs_up.active():
            self._hangs_up.cancel()
        super().connectionLost(reason)

    def _is_streamed(self) -> bool:
        """Whether this is an upload."""
        return bool(self.channel._command == b"PUT" and self._kind() == STREAMED_TYPE)

    def _kind(self) -> bytes:
        """Return the content type of the body."""
        kinds: list[bytes] = self.requestHeaders.getRawHeaders(b"Content-Type") or [b""]
        return kinds[0].split(b";")[0].strip().lower()

    def _most(self) -> int:
        """Return the maximum bytes of a body that is not streamed. It is lower for requests without any credentials."""
        known = any(map(self.requestHeaders.hasHeader, (b"X-Auth-Token", b"Authorization", b"Cookie")))
        most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE if known else MOST_FROM_STRANGERS
        return most

    def _is_websocket(self) -> bool:
        """Whether the connection is to be upgraded to a WebSocket."""
        kinds = self.requestHeaders.getRawHeaders(b"Upgrade") or [b""]
        return bool(kinds[0].lower() == b"websocket")

    @staticmethod
    def refusal(path: str, status: int) -> tuple[str, bytes]:
        """Return content type and body of a refusal; replaced by ``daphne_internals.install``."""
        return "text/plain", b"The request is refused."

    def _refuse(self, status: int) -> None:
        """Reject a body. The connection is closed only after the body has ended: a client whose connection is reset
        while it sends does not see the response.

        Only a limited number of bytes is discarded, for a limited time.
        """
        self._refused = True
        self.method = self.channel._command
        self.uri = self.path = self.channel._path
        self.clientproto = self.channel._version
        self.channel.persistent = False
        kind, body = self.refusal(self.path.decode("ascii", "replace"), status)
        headers = [(b"Content-Type", kind.encode()), (b"Content-Length", str(len(body)).encode())]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": body, "more_body": True})
        self._hangs_up = reactor.callLater(PASSED_OVER_FOR, self._hang_up)

    def _hang_up(self) -> None:
        """Close the connection of a rejected request, once."""
        if self._hangs_up is not None and self.channel is not None:
            if self._hangs_up.active():
                self._hangs_up.cancel()
            self._hangs_up = None
            self.finish()

    def _resume(self) -> None:
        if self.channel is not None and not self._disconnected:
            self.channel.setTimeout(self.channel.timeOut)
            self.channel.transport.resumeProducing()

    def _resume_from_thread(self) -> None:
        """Resume reading; called by a view's thread."""
        reactor.callFromThread(self._resume)


@implementer(IPushProducer)
class _Room:
    """Notified by the channel when the client has caught up."""

    def __init__(self) -> None:
        self.made = asyncio.Event()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: no data is written in the meantime."""

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.made.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Handle the disconnection of the client."""
        self.made.set()


@implementer(IPullProducer)
class _FileProducer:
    """Reads a file at the client's pace."""

    def __init__(self, request: StreamingRequest, file: IO[bytes], length: int) -> None:
        self._request, self._file, self._left = request, file, length

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Write the next piece, or finish."""
        data = self._file.read(min(PIECE, self._left))
        self._left -= len(data)
        if data:
            self._request.write(data)
            return
        self._file.close()
        self._request.unregisterProducer()
        if self._left:
            self._request.loseConnection()  # the file was truncated: the response must not appear complete
        else:
            self._request.finish()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Handle the disconnection of the client."""
        self._file.close()
