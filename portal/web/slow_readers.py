"""Connections whose clients do not read what they asked for are cut off, so that their answers do not fill memory.

What is looked at, once a second, is what waits in this process: bytes that the kernel has not taken yet and the rest of
an answer that its request still holds.  WebSockets have bounds of their own (``portal.web.websockets``).
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
"""Bytes that a client must have read of what waits for it, each time it is looked at again."""
ALL_ADDRESSES = 4
"""How many times the most that may wait for one address may wait for all of them together."""

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A connection as ``portal.web.shared_port`` has it; ``unsent`` tells what is read of its buffer."""

    connected: Any
    protocol: Any
    place: str

    @property
    def taken(self) -> int:
        """How many bytes the client has taken."""
        ...

    def abortConnection(self) -> None: ...  # noqa: N802 - Twisted's name


def place_of(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 of an IPv6 one, which is one subscriber's."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def unsent(connection: Any) -> int:
    """Return how many bytes of answers wait in this process for the client."""
    waiting: int = len(connection.dataBuffer) - connection.offset + connection._tempDataLen
    requests = getattr(connection.protocol, "requests", ())
    if waiting and requests and isinstance(requests[0], StreamingRequest):
        waiting += requests[0].unwritten
    return waiting


class SlowReaders:
    """The connections of one process that are behind.

    ``most`` bytes may wait for one address; ``patience`` is in seconds.
    """

    def __init__(self, most: int, patience: float) -> None:
        self._most, self._patience = most, patience
        self._behind: dict[Connection, tuple[float, int]] = {}
        """When a connection was looked at, and how many bytes its client had taken then."""

    def look(self, connections: Collection[Connection], now: float) -> None:
        """Cut off whoever has stopped reading, and the largest of too much."""
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
        """Cut off the largest until no more than ``most`` bytes wait for those that are left."""
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
