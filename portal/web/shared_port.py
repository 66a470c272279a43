"""A listening socket that several processes share, as Twisted sees it: each connection goes to the least busy process.

The kernel keeps one queue of new connections for all of them, so that nobody waits for a process that is busy, hangs or
was killed.  Left alone, Twisted would take a hundred connections at once, and of two idle processes the kernel may wake
the same one first every time; with connections that last, one process would then have all the work.  So a process takes
one at a time, and while another has less to do it waits a moment before it takes one all the same.

One address has a share of the connections, and of the bytes that wait for clients to read them.
"""

from __future__ import annotations

import fcntl
import logging
import struct
import termios
import time
from collections import Counter
from typing import Any

from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import tcp

from portal.web.board import Board
from portal.web.slow_readers import SlowReaders, place_of

TURN = 0.003
"""Seconds that a busier process leaves a new connection to the others."""
TURN_IS_OVER = 0.02
"""Seconds after which having waited counts no more."""
RECOUNT_EVERY = 1.0
SOCKET_WEIGHT = 1 / 16
"""What an open WebSocket counts; an HTTP connection counts one.  Most sockets are quiet most of the time."""


logger = logging.getLogger(__name__)


class Connection(tcp.Server):
    """An accepted connection that its port counts."""

    server: SharedPort

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.place = place_of(str(self.hostname))
        """What counts as its address."""
        self._sent = 0
        self.server.begins(self)

    @property
    def taken(self) -> int:
        """How many bytes the client has taken, which is told by the kernel: it keeps the others for the client."""
        waiting: int = struct.unpack("i", fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
        return self._sent - waiting

    def writeSomeData(self, data: Any) -> Any:  # noqa: N802 - Twisted's name
        """Count what the kernel takes; anything but a number of bytes is an error."""
        sent = super().writeSomeData(data)
        if isinstance(sent, int):
            self._sent += sent
        return sent

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """Count it no more."""
        super().connectionLost(reason)
        self.server.ends(self)


class SharedPort(tcp.Port):
    """One process's view of the socket.  Made by ``_fromListeningDescriptor``, then given what is written here."""

    transport = Connection  # type: ignore[assignment]  # the library takes its own class for the only one
    board: Board
    row: int
    most_of_address: int
    """Connections."""
    slow_readers: SlowReaders
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
        self.connections: set[Connection] = set()
        self._of_place: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
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

    def begins(self, connection: Connection) -> None:
        """Count a connection; one too many of its address is reset."""
        self.connections.add(connection)
        self._of_place[connection.place] += 1
        if self._of_place[connection.place] > self.most_of_address:
            self._refused[connection.place] += 1
            connection.abortConnection()
        self.tell_load()

    def ends(self, connection: Connection) -> None:
        """Count it no more."""
        self.connections.discard(connection)
        self._of_place[connection.place] -= 1
        if not self._of_place[connection.place]:
            del self._of_place[connection.place]
        self.tell_load()

    def tell_load(self) -> None:
        self.board.set_load(self.row, len(self.connections) - self._sockets * (1 - SOCKET_WEIGHT))

    def _recount(self) -> None:
        """Find out which connections have become WebSockets, and which have clients that do not read."""
        self._sockets = sum(isinstance(each.protocol, WebSocketProtocol) for each in self.connections)
        self.tell_load()
        self.slow_readers.look(self.connections, time.monotonic())
        for place, count in self._refused.items():
            logger.warning("%d connections from %s were refused: it has %d.", count, place, self.most_of_address)
        self._refused.clear()
        self.reactor.callLater(RECOUNT_EVERY, self._recount)
