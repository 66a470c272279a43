"""Daphne's WebSocket with bounds: a peer that reads slowly, or writes faster than we handle, is disconnected.

Daphne alone keeps whatever it cannot send yet, and whatever the application has not taken yet, in memory without end.
A browser comes back by itself and catches up; an agent gets its orders again.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from daphne import server, ws_protocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

MOST_UNSENT = 4 << 20
"""Bytes that wait for one slow reader."""
MOST_UNHANDLED = 400
"""Frames of one peer that wait for the application."""
MOST_UNHANDLED_BYTES = 8 << 20
"""Bytes of these frames; who has shown no credential yet can send them too."""

logger = logging.getLogger(__name__)


@implementer(IPushProducer)
class _Flow:
    """Is told by the transport when the peer does not keep up (pause) and when it has caught up (resume)."""

    def __init__(self, next_producer: Any) -> None:
        self._next = next_producer
        self.behind = False
        self.unsent = 0

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = True  # said again at every write while it lasts

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.behind = False
        self.unsent = 0

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._next.stopProducing()


class BoundedWebSocket(ws_protocol.WebSocketProtocol):
    """One WebSocket."""

    _flow: _Flow | None = None
    _waiting: deque[int] | None = None

    def onOpen(self) -> None:  # noqa: N802 - Autobahn's name
        """Be told how the peer keeps up, in the place of the HTTP channel that the connection began as."""
        super().onOpen()
        flow = _Flow(getattr(self.transport, "producer", None))
        self.transport.unregisterProducer()
        self.transport.registerProducer(flow, True)  # noqa: FBT003 - it pushes
        self._flow = flow

    def serverSend(self, content: str | bytes, binary: bool = False) -> None:  # noqa: N802, FBT001, FBT002 - Daphne's
        """Send, unless too much waits already."""
        super().serverSend(content, binary)
        if self._flow is not None and self._flow.behind:
            self._flow.unsent += len(content)
            if self._flow.unsent > MOST_UNSENT:
                logger.warning("A client of %s reads too slowly; it is disconnected.", self.path.decode())
                self.dropConnection(abort=True)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803, FBT001 - Autobahn's names
        """Pass a frame on, unless too many wait already."""
        if self._unhandled(len(payload)) > MOST_UNHANDLED_BYTES or self.application_queue.qsize() >= MOST_UNHANDLED:
            logger.warning("A client of %s writes too fast; it is disconnected.", self.path.decode())
            self.dropConnection(abort=True)
            return
        super().onMessage(payload, isBinary)

    def _unhandled(self, size: int) -> int:
        """Return the bytes that wait with a frame of this size; what the queue has no more was handled."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(size)
        while len(self._waiting) > self.application_queue.qsize() + 1:
            self._waiting.popleft()
        return sum(self._waiting)


def install() -> None:
    """Make Daphne use these sockets.  For ``portal.asgi``, before the server listens."""
    server.WebSocketFactory.protocol = BoundedWebSocket
