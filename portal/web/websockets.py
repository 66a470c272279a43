"""Daphne's WebSocket with limits: a peer that reads slowly, or sends faster than messages are handled, is disconnected.

Daphne itself buffers unsent and unhandled data without limit. Browsers reconnect and catch up; agents get their
commands again. Except for agents' links, senders wait until the peer has read, so that only one frame is buffered.
Consoles are paced in the other direction as well: no data is read from the peer while enough of its frames are waiting
for the application.
"""

import asyncio
import logging
from collections import deque
from typing import Any

from daphne import server, ws_protocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

MOST_UNSENT = 4 << 20
"""Maximum bytes buffered for a slow reader."""
LINK = b"/ws/agent"
"""The path of agents' links, on which senders do not wait until the host has read."""
MOST_UNHANDLED = 400
"""Maximum number of frames of a peer that wait for the application."""
MOST_UNHANDLED_BYTES = 8 << 20
"""Maximum bytes of these frames, and of a single message, however it is fragmented."""
MOST_SAID = 64 << 10
"""Maximum bytes of a message from a page or a program (they normally send none), and of all data that waits on an
unauthenticated agent's link.
"""

PATIENT = (b"/ws/servers/", b"/ws/agent/tunnels/")
"""Path prefixes of tunnels to guests' ports, whose ends may read as slowly as they like."""
PACED = (b"/ws/console", b"/ws/agent/consoles/", *PATIENT)
"""Path prefixes of sockets on which each end waits until the other end has read its data."""
ENOUGH, FEW = 16, 4
"""Numbers of frames waiting for the application at which reading from a paced peer is paused and resumed."""
LOOK_AGAIN = 0.01
STALLED = 60.0
"""Seconds in which a peer must have read the sent data, except for tunnels, which have an inactivity timeout."""
MOST_PACED = 1 << 20
"""Maximum bytes of a message of a paced peer."""
NO_FRAME = 1006
"""The code of RFC 6455 (7.4.1) for a connection that ended without a close frame."""

logger = logging.getLogger(__name__)


@implementer(IPushProducer)
class _Flow:
    """Notified by the transport when the peer falls behind (pause) and when it has caught up (resume)."""

    def __init__(self, next_producer: Any) -> None:
        self._next = next_producer
        self.behind = False
        self.unsent = 0
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = True  # repeated at every write while it is behind
        self.caught_up.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = False
        self.unsent = 0
        self.caught_up.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._next.stopProducing()


class BoundedWebSocket(ws_protocol.WebSocketProtocol):
    """A WebSocket that disconnects clients which send or read too slowly, or send too much."""

    _flow: _Flow | None = None
    _waiting: deque[int] | None = None
    _held_back = False
    _admitted = False

    def admit(self) -> None:
        """Mark an agents' link as authenticated: it may send full reports."""
        self._admitted = True

    @property
    def unknown(self) -> bool:
        """Whether this is an unauthenticated agents' link."""
        return bool(self.path == LINK) and not self._admitted

    @property
    def paced(self) -> bool:
        """Whether each end waits until the other end has read its data."""
        return bool(self.path.startswith(PACED))

    @property
    def patient(self) -> bool:
        """Whether a peer may read as slowly as it likes."""
        return bool(self.path.startswith(PATIENT))

    @property
    def most(self) -> int:
        """Maximum bytes of an incoming message."""
        if self.paced:
            return MOST_PACED
        return MOST_UNHANDLED_BYTES if self.path == LINK and self._admitted else MOST_SAID

    def onOpen(self) -> None:  # noqa: N802 - Autobahn's name
        """Register for notifications of the transport, instead of the HTTP channel that handled the handshake."""
        super().onOpen()
        flow = _Flow(getattr(self.transport, "producer", None))
        self.transport.unregisterProducer()
        self.transport.registerProducer(flow, True)  # noqa: FBT003 - a push producer
        self._flow = flow
        if self.patient:
            self.autoPingTimeout = 0  # a peer that does not read does not answer pings, which still keep proxies open
            self.transport.setTcpKeepAlive(1)

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:  # noqa: N802, N803, FBT001 - Autobahn's names
        """Release the senders that wait for this peer."""
        if self._flow is not None:
            self._flow.caught_up.set()
        super().onClose(wasClean, code, reason)

    async def drained(self) -> None:
        """Wait until a peer other than an agent has read the sent data; after a timeout it is disconnected."""
        if self._flow is None or self.path == LINK:
            return
        try:
            async with asyncio.timeout(None if self.patient else STALLED):
                await self._flow.caught_up.wait()
        except TimeoutError:
            logger.warning("A client of %s has stopped reading; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Handle a message from the application. Unlike Daphne, support a close with a reason, a close without a close
        frame (``NO_FRAME``), and empty binary frames.
        """
        if message.get("type") == "websocket.close" and message.get("code") == NO_FRAME:
            self.dropConnection(abort=False)
        elif message.get("type") == "websocket.close" and message.get("reason") and self.state == self.STATE_OPEN:
            self.sendClose(code=message.get("code") or 1000, reason=message["reason"])
        elif message.get("type") == "websocket.send" and message.get("bytes") == b"":
            self.serverSend(b"", binary=True)  # Daphne would ignore it
        else:
            super().handle_reply(message)

    def serverSend(self, content: str | bytes, binary: bool = False) -> None:  # noqa: N802, FBT001, FBT002 - Daphne's
        """Send data. A peer for which too much data is buffered is disconnected."""
        super().serverSend(content, binary)
        if self._flow is not None and self._flow.behind:
            self._flow.unsent += len(content)
            if self._flow.unsent > MOST_UNSENT:
                logger.warning("A client of %s reads too slowly; it is disconnected.", self.path.decode())
                self.dropConnection(abort=True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Disconnect a peer that sends more than ``MOST_SAID`` bytes before the handshake is answered: they would be
        buffered.
        """
        if self.state == self.STATE_CONNECTING and len(self.data) + len(data) > MOST_SAID:
            self.dropConnection(abort=True)
            return
        super().dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:  # noqa: N802 - Autobahn's name
        """Disconnect a peer as soon as its message exceeds the limit: the message would be buffered until its end."""
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > self.most:
            logger.warning("A client of %s sends too long a message; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803, FBT001 - Autobahn's names
        """Pass a message to the application. If too many are waiting, reading from a paced peer is paused, and any
        other peer is disconnected.
        """
        if self.paced:
            super().onMessage(payload, isBinary)
            if not self._held_back and self.application_queue.qsize() >= ENOUGH:
                self._held_back = True
                self.transport.pauseProducing()
                self._read_on()
            return
        most = MOST_SAID if self.unknown else MOST_UNHANDLED_BYTES
        if self._unhandled(len(payload)) > most or self.application_queue.qsize() >= MOST_UNHANDLED:
            logger.warning("A client of %s writes too fast; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)
            return
        super().onMessage(payload, isBinary)

    def _read_on(self) -> None:
        """Resume reading once the application has handled most of the waiting frames."""
        if self.application_queue.qsize() > FEW:
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._read_on)
            return
        self._held_back = False
        if self.state == self.STATE_OPEN:
            self.transport.resumeProducing()

    def _unhandled(self, size: int) -> int:
        """Return the bytes that wait for the application, including a new frame of this size."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(size)
        while len(self._waiting) > self.application_queue.qsize() + 1:
            self._waiting.popleft()
        return sum(self._waiting)


_send = server.Server.handle_reply
_create = server.Server.create_application


def create_application(self: Any, protocol: Any, scope: dict[str, Any]) -> Any:
    """Add the function ``admit`` (``BoundedWebSocket.admit``) to the scope of a WebSocket's application."""
    if isinstance(protocol, BoundedWebSocket):
        scope["admit"] = protocol.admit
    return _create(self, protocol, scope)


async def reply(self: Any, protocol: Any, message: dict[str, Any]) -> None:
    """Send a message of the application, and wait until more can be sent."""
    await _send(self, protocol, message)
    if message["type"] == "websocket.send" or message.get("more_body", False):
        await protocol.drained()
