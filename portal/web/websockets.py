"""Daphne's WebSocket with bounds: a peer that reads slowly, or writes faster than we handle, is disconnected.

Daphne alone keeps whatever it cannot send yet, and whatever the application has not taken yet, in memory without end.
A browser comes back by itself and catches up; an agent gets its commands again.  For everybody but agents' links, who
sends waits until the peer has read, so that one frame waits and not many.  Consoles are paced in the other direction,
too: a peer is not read from while the application has enough to do.
"""

import asyncio
import logging
from collections import deque
from typing import Any

from daphne import server, ws_protocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

MOST_UNSENT = 4 << 20
"""Bytes that wait for one slow reader."""
LINK = b"/ws/agent"
"""The path of agents' links: nobody waits until a host has read."""
MOST_UNHANDLED = 400
"""Frames of one peer that wait for the application."""
MOST_UNHANDLED_BYTES = 8 << 20
"""Bytes of these frames, and of a single message however it is cut."""
MOST_SAID = 64 << 10
"""Bytes of a message from a page or a program, of which nothing is expected, and of all that waits of a link that has
shown no credential yet.
"""

PATIENT = (b"/ws/servers/", b"/ws/agent/tunnels/")
"""Beginnings of the paths of tunnels to ports of guests: what is at their ends may read as slowly as it likes."""
PACED = (b"/ws/console", b"/ws/agent/consoles/", *PATIENT)
"""Beginnings of the paths of sockets whose two ends wait for each other."""
ENOUGH, FEW = 16, 4
"""Frames waiting for the application at which a paced peer is read from no more, and again."""
LOOK_AGAIN = 0.01
STALLED = 60.0
"""Seconds in which a peer must have read what was sent, but for tunnels, which end when nothing has passed."""
MOST_PACED = 1 << 20
"""Bytes of one message of a paced peer."""
NO_FRAME = 1006
"""What RFC 6455 (7.4.1) calls a connection that ended without a close frame; no frame has it."""

logger = logging.getLogger(__name__)


@implementer(IPushProducer)
class _Flow:
    """Is told by the transport when the peer does not keep up (pause) and when it has caught up (resume)."""

    def __init__(self, next_producer: Any) -> None:
        self._next = next_producer
        self.behind = False
        self.unsent = 0
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = True  # said again at every write while it lasts
        self.caught_up.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = False
        self.unsent = 0
        self.caught_up.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._next.stopProducing()


class BoundedWebSocket(ws_protocol.WebSocketProtocol):
    """One WebSocket."""

    _flow: _Flow | None = None
    _waiting: deque[int] | None = None
    _held_back = False
    _admitted = False

    def admit(self) -> None:
        """The other end of an agents' link has shown its credential: it may send whole reports."""
        self._admitted = True

    @property
    def unknown(self) -> bool:
        """Return whether this is an agents' link without a credential."""
        return bool(self.path == LINK) and not self._admitted

    @property
    def paced(self) -> bool:
        """Whether both sides wait for each other."""
        return bool(self.path.startswith(PACED))

    @property
    def patient(self) -> bool:
        """Whether a peer may take as long as it likes to read."""
        return bool(self.path.startswith(PATIENT))

    @property
    def most(self) -> int:
        """Bytes of one message that comes in."""
        if self.paced:
            return MOST_PACED
        return MOST_UNHANDLED_BYTES if self.path == LINK and self._admitted else MOST_SAID

    def onOpen(self) -> None:  # noqa: N802 - Autobahn's name
        """Register for word of how the peer keeps up, in the place of the HTTP channel that the connection began as."""
        super().onOpen()
        flow = _Flow(getattr(self.transport, "producer", None))
        self.transport.unregisterProducer()
        self.transport.registerProducer(flow, True)  # noqa: FBT003 - it pushes
        self._flow = flow
        if self.patient:
            self.autoPingTimeout = 0  # who does not read answers no ping; pings keep proxies awake nevertheless
            self.transport.setTcpKeepAlive(1)

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:  # noqa: N802, N803, FBT001 - Autobahn's names
        """Let go whoever waits for this peer."""
        if self._flow is not None:
            self._flow.caught_up.set()
        super().onClose(wasClean, code, reason)

    async def drained(self) -> None:
        """Wait until a peer other than an agent has read what was sent; one that does not is disconnected."""
        if self._flow is None or self.path == LINK:
            return
        try:
            async with asyncio.timeout(None if self.patient else STALLED):
                await self._flow.caught_up.wait()
        except TimeoutError:
            logger.warning("A client of %s has stopped reading; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Do what the application says; a close may have a reason or no frame at all, and a frame may be empty."""
        if message.get("type") == "websocket.close" and message.get("code") == NO_FRAME:
            self.dropConnection(abort=False)
        elif message.get("type") == "websocket.close" and message.get("reason") and self.state == self.STATE_OPEN:
            self.sendClose(code=message.get("code") or 1000, reason=message["reason"])
        elif message.get("type") == "websocket.send" and message.get("bytes") == b"":
            self.serverSend(b"", binary=True)  # Daphne takes it for none
        else:
            super().handle_reply(message)

    def serverSend(self, content: str | bytes, binary: bool = False) -> None:  # noqa: N802, FBT001, FBT002 - Daphne's
        """Send, unless too much waits already."""
        super().serverSend(content, binary)
        if self._flow is not None and self._flow.behind:
            self._flow.unsent += len(content)
            if self._flow.unsent > MOST_UNSENT:
                logger.warning("A client of %s reads too slowly; it is disconnected.", self.path.decode())
                self.dropConnection(abort=True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Refuse what is sent before the handshake is answered, beyond a few bytes: it would be kept until then."""
        if self.state == self.STATE_CONNECTING and len(self.data) + len(data) > MOST_SAID:
            self.dropConnection(abort=True)
            return
        super().dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:  # noqa: N802 - Autobahn's name
        """Refuse a message that is too long at its first byte too many; it would be kept until its end."""
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > self.most:
            logger.warning("A client of %s sends too long a message; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803, FBT001 - Autobahn's names
        """Pass a frame on, unless too many wait already."""
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
        """Read again once the application has taken most of what is there."""
        if self.application_queue.qsize() > FEW:
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._read_on)
            return
        self._held_back = False
        if self.state == self.STATE_OPEN:
            self.transport.resumeProducing()

    def _unhandled(self, size: int) -> int:
        """Return the bytes that wait with a frame of this size; what the queue has no more was handled."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(size)
        while len(self._waiting) > self.application_queue.qsize() + 1:
            self._waiting.popleft()
        return sum(self._waiting)


_send = server.Server.handle_reply
_create = server.Server.create_application


def create_application(self: Any, protocol: Any, scope: dict[str, Any]) -> Any:
    """Give the application of a WebSocket a function ``admit`` in its scope (``BoundedWebSocket.admit``)."""
    if isinstance(protocol, BoundedWebSocket):
        scope["admit"] = protocol.admit
    return _create(self, protocol, scope)


async def reply(self: Any, protocol: Any, message: dict[str, Any]) -> None:
    """Send what the application says, and wait until there is room for more."""
    await _send(self, protocol, message)
    if message["type"] == "websocket.send" or message.get("more_body", False):
        await protocol.drained()
