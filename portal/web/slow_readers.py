"""Disconnects clients that do not read their responses, which would otherwise fill the memory.

Once a second it measures the bytes buffered in this process: bytes that the kernel has not accepted, and the rest of
a response in its request. WebSockets have their own limits (``portal.web.websockets``).
"""

from __future__ import annotations

import ipaddress
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from daphne.ws_protocol import WebSocketProtocol

from portal.web.http_requests import StreamingRequest

LEAST_READ = 16 << 10
"""Bytes that a client must have read between two measurements."""
ALL_ADDRESSES = 4
"""Limit of all addresses together, as a multiple of the limit of one address."""

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A connection of ``portal.web.shared_port``. ``unsent`` uses attributes that are not declared here."""

    connected: Any
    protocol: Any
    place: str

    @property
    def taken(self) -> int:
        """The number of bytes that the client has read."""
        ...

    def abortConnection(self) -> None: ...  # noqa: N802 - Twisted's name


def place_of(host: str) -> str:
    """Return the address or network that limits apply to: an IPv4 address, or the /64 network of an IPv6 address,
    because one subscriber has at least a /64.
    """
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def unsent(connection: Any) -> int:
    """Return the number of bytes of responses that this process buffers for the client."""
    waiting: int = len(connection.dataBuffer) - connection.offset + connection._tempDataLen
    requests = getattr(connection.protocol, "requests", ())
    if waiting and requests and isinstance(requests[0], StreamingRequest):
        waiting += requests[0].unwritten
    return waiting


class SlowReaders:
    """The connections of one process whose clients are behind.

    ``most`` is the limit in bytes for one address; ``patience`` is in seconds.
    """

    def __init__(self, most: int, patience: float) -> None:
        self._most, self._patience = most, patience
        self._behind: dict[Connection, tuple[float, int]] = {}
        """The time of the last measurement of a connection, and the bytes that its client had read then."""

    def look(self, connections: Collection[Connection], now: float) -> None:
        """Disconnect clients that have stopped reading. If too much is buffered for one address or in total, disconnect
        the clients with the largest buffers.
        """
        sizes = {
            each: size
            for each in connections
            if each.connected and not isinstance(each.protocol, WebSocketProtocol) and (size := unsent(each))
        }
        self._behind = {each: self._behind.get(each) or (now, each.taken) for each in sizes}
        for each in list(sizes):
            looked_at, taken = self._behind[each]
            if now - looked_at < self._patience:
                continue
            self._behind[each] = (now, each.taken)
            if each.taken - taken < LEAST_READ:
                self._drop(sizes, each, "has stopped reading")
        by_place = defaultdict(list)
        for each in sizes:
            by_place[each.place].append(each)
        for those in by_place.values():
            self._relieve(sizes, those, self._most)
        self._relieve(sizes, sizes, ALL_ADDRESSES * self._most)

    def _relieve(self, sizes: dict[Connection, int], those: Iterable[Connection], most: int) -> None:
        """Disconnect the connections with the largest buffers until at most ``most`` bytes are buffered for the
        connections ``those``.
        """
        largest_last = sorted(those, key=sizes.__getitem__)
        total = sum(map(sizes.__getitem__, largest_last))
        while total > most:
            each = largest_last.pop()
            total -= sizes[each]
            self._drop(sizes, each, "has too much waiting for it")

    def _drop(self, sizes: dict[Connection, int], connection: Connection, why: str) -> None:
        logger.warning("A client at %s %s; it is disconnected.", connection.place, why)
        del sizes[connection], self._behind[connection]
        connection.abortConnection()
