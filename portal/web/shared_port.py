"""A listening socket that several processes share, as Twisted sees it: each connection goes to the least busy process.

The kernel keeps one queue of new connections for all of them, so that nobody waits for a process that is busy, hangs or
was killed.  Left alone, Twisted would take a hundred connections at once, and of two idle processes the kernel may wake
the same one first every time; with connections that last, one process would then have all the work.  So a process takes
one at a time, and while another has less to do it waits a moment before it takes one all the same.
"""

from __future__ import annotations

import time
from typing import Any

from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import tcp

from portal.web.board import Board

TURN = 0.003
"""Seconds that a busier process leaves a new connection to the others."""
TURN_IS_OVER = 0.02
"""Seconds after which having waited counts no more."""
RECOUNT_EVERY = 1.0
SOCKET_WEIGHT = 1 / 16
"""What an open WebSocket counts; an HTTP connection counts one.  Most sockets are quiet most of the time."""


class _Connection(tcp.Server):
    """An accepted connection that its port counts."""

    server: SharedPort

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.server.connections.add(self)
        self.server.tell_load()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """Count it no more."""
        super().connectionLost(reason)
        self.server.connections.discard(self)
        self.server.tell_load()


class SharedPort(tcp.Port):
    """One process's view of the socket.  Made by ``_fromListeningDescriptor``, then given ``board`` and ``row``."""

    transport = _Connection  # type: ignore[assignment]  # the library takes its own class for the only one
    board: Board
    row: int
    _sockets = 0
    _waited_at = 0.0

    @property
    def numberAccepts(self) -> int:  # noqa: N802 - Twisted's name
        """How many connections one wake-up takes; Twisted's own count grows."""
        return 1

    @numberAccepts.setter
    def numberAccepts(self, _: int) -> None:  # noqa: N802
        return

    def startListening(self) -> None:  # noqa: N802 - Twisted's name
        """Take connections from now on."""
        self.connections: set[_Connection] = set()
        super().startListening()
        self._recount()

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        """A connection waits: take it, or leave it to a less busy process first."""
        if self.board.is_least_busy(self.row) or time.monotonic() - self._waited_at < TURN_IS_OVER:
            self._waited_at = 0.0
            super().doRead()
            return
        self.stopReading()
        self.reactor.callLater(TURN, self._look_again)

    def _look_again(self) -> None:
        if self.connected:
            self._waited_at = time.monotonic()
            self.startReading()

    def tell_load(self) -> None:
        self.board.set_load(self.row, len(self.connections) - self._sockets * (1 - SOCKET_WEIGHT))

    def _recount(self) -> None:
        """Find out which connections have become WebSockets."""
        self._sockets = sum(isinstance(each.protocol, WebSocketProtocol) for each in self.connections)
        self.tell_load()
        self.reactor.callLater(RECOUNT_EVERY, self._recount)
