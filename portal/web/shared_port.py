"""A listening socket shared by several processes, as a Twisted port: each connection goes to the least busy process.

The kernel has one queue of new connections for all of them, so that no connection waits for a busy, hanging or killed
process. By default, Twisted would accept a hundred connections per wake-up, and the kernel may always wake the same
process first, so that one process could get all long-lived connections. Therefore a process accepts one at a time, and
if another has a lower load it waits briefly before it accepts one.

One address has a limited share of the connections, and of the bytes buffered for clients.
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
"""Seconds for which a process leaves a new connection to less busy processes."""
TURN_IS_OVER = 0.02
"""Seconds after which a previous wait no longer counts."""
RECOUNT_EVERY = 1.0
SOCKET_WEIGHT = 1 / 16
"""The load of an open WebSocket; the load of an HTTP connection is 1. Most WebSockets are idle most of the time."""


logger = logging.getLogger(__name__)


class Connection(tcp.Server):
    """An accepted connection, counted by its port."""

    server: SharedPort

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.place = place_of(str(self.hostname))
        """The address or network whose limit applies to the connection."""
        self._sent = 0
        self.server.begins(self)

    @property
    def taken(self) -> int:
        """The number of bytes that the client has acknowledged, without the bytes in the kernel's buffer."""
        waiting: int = struct.unpack("i", fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
        return self._sent - waiting

    def writeSomeData(self, data: Any) -> Any:  # noqa: N802 - Twisted's name
        """Count the bytes accepted by the kernel; any other result is an error."""
        sent = super().writeSomeData(data)
        if isinstance(sent, int):
            self._sent += sent
        return sent

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """Stop counting the connection."""
        super().connectionLost(reason)
        self.server.ends(self)


class SharedPort(tcp.Port):
    """One process's port on the socket; created by ``_fromListeningDescriptor``, after which the attributes below are
    set.
    """

    transport = Connection  # type: ignore[assignment]  # Twisted annotates it with its own class
    board: Board
    row: int
    most_of_address: int
    """Maximum number of connections of one address."""
    slow_readers: SlowReaders
    _sockets = 0
    _waited_at = 0.0

    @property
    def numberAccepts(self) -> int:  # noqa: N802 - Twisted's name
        """Return the number of connections to accept in each wake-up. In Twisted this number grows."""
        return 1

    @numberAccepts.setter
    def numberAccepts(self, _: int) -> None:  # noqa: N802
        return

    def startListening(self) -> None:  # noqa: N802 - Twisted's name
        self.connections: set[Connection] = set()
        self._of_place: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        super().startListening()
        self._recount()

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        """Accept a waiting connection, or first leave it to a less busy process."""
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
        """Count a connection, and reset it if its address has more than the limit."""
        self.connections.add(connection)
        self._of_place[connection.place] += 1
        if self._of_place[connection.place] > self.most_of_address:
            self._refused[connection.place] += 1
            connection.abortConnection()
        self.publish_load()

    def ends(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self.connections.discard(connection)
        self._of_place[connection.place] -= 1
        if not self._of_place[connection.place]:
            del self._of_place[connection.place]
        self.publish_load()

    def publish_load(self) -> None:
        self.board.set_load(self.row, len(self.connections) - self._sockets * (1 - SOCKET_WEIGHT))

    def _recount(self) -> None:
        """Count the connections that have become WebSockets, and find clients that do not read."""
        self._sockets = sum(isinstance(each.protocol, WebSocketProtocol) for each in self.connections)
        self.publish_load()
        self.slow_readers.look(self.connections, time.monotonic())
        for place, count in self._refused.items():
            logger.warning("%d connections from %s were refused: it has %d.", count, place, self.most_of_address)
        self._refused.clear()
        self.reactor.callLater(RECOUNT_EVERY, self._recount)
