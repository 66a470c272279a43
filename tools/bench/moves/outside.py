"""Observers of a guest in the external network: pings in short intervals, and a TCP connection that stays open."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import TracebackType

from compute_agent.network.kernel import namespace
from tools.bench.cloud import BenchError

INTERVAL = 0.01
"""Seconds between two pings."""
ECHO_REQUEST, ECHO_REPLY = 8, 0
HEADER = struct.Struct("!BBHHH")
LATE = 2.0
"""Seconds after which a reply no longer counts."""
ANSWERS_WITHIN = 60.0
"""Seconds for an answer over the connection, with TCP's retransmissions."""


def checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request(ident: int, number: int) -> bytes:
    """Return an ICMP echo request."""
    head = HEADER.pack(ECHO_REQUEST, 0, 0, ident, number)
    return HEADER.pack(ECHO_REQUEST, 0, checksum(head), ident, number)


def number_in(packet: bytes, ident: int) -> int | None:
    """Return the number of an echo reply with its IPv4 header; None for another packet."""
    start = (packet[0] & 0x0F) * 4 if packet else 0
    if len(packet) < start + HEADER.size:
        return None
    kind, _, _, found, number = HEADER.unpack_from(packet, start)
    return number if kind == ECHO_REPLY and found == ident else None


def longest_gap(replies: Sequence[float], since: float, until: float) -> float:
    """Return the longest time between two successive replies, of which one is in the interval; seconds."""
    moments = sorted(replies)
    before = [moment for moment in moments if moment < since][-1:]
    after = [moment for moment in moments if moment > until][:1]
    inside = [moment for moment in moments if since <= moment <= until]
    seen = [*before, *inside, *after] if inside or (before and after) else []
    return max((later - earlier for earlier, later in pairwise(seen)), default=until - since)


def lost(sent: Mapping[int, float], replies: Mapping[int, float], since: float, until: float) -> tuple[int, int]:
    """Return how many of the pings that were sent in the interval have no reply in time, and how many were sent."""
    numbers = [number for number, moment in sent.items() if since <= moment <= until]
    missing = [number for number in numbers if replies.get(number, LATE + sent[number]) - sent[number] >= LATE]
    return len(missing), len(numbers)


class Pings:
    """Pings an address every 10 ms from a namespace, in two threads."""

    def __init__(self, space: str, address: str) -> None:
        with namespace.inside(space):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.connect((address, 0))
        self._socket.settimeout(0.2)
        self._ident = (id(self) >> 4) & 0xFFFF
        self._stop = threading.Event()
        self.sent: dict[int, float] = {}
        self.replies: dict[int, float] = {}
        """Number of a ping → time of its reply, by ``time.monotonic``."""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]

    def _send(self) -> None:
        number = 0
        while not self._stop.wait(INTERVAL):
            number += 1
            self.sent[number] = time.monotonic()
            with contextlib.suppress(OSError):  # an unreachable host is a lost ping
                self._socket.send(request(self._ident, number & 0xFFFF))

    def _receive(self) -> None:
        wraps, last = 0, 0
        while not self._stop.is_set():
            try:
                packet = self._socket.recv(2048)
            except OSError:
                continue
            found = number_in(packet, self._ident)
            if found is not None:
                wraps += 1 if found < last - 0x8000 else 0
                last = found
                self.replies.setdefault(found + (wraps << 16), time.monotonic())

    def __enter__(self) -> Pings:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def answered(self) -> bool:
        """Whether the guest has answered within the last second."""
        return any(time.monotonic() - moment < 1 for moment in list(self.replies.values())[-1:])

    def gap(self, since: float, until: float) -> float:
        """Return the longest time without a reply in an interval that has passed, in seconds."""
        return longest_gap(list(self.replies.values()), since, until)

    def lost(self, since: float, until: float) -> tuple[int, int]:
        """Return the lost and the sent pings of an interval that ended ``LATE`` seconds ago or earlier."""
        return lost(dict(self.sent), dict(self.replies), since, until)


class Line:
    """One TCP connection to an echo service in the guest, which is used all the time."""

    def __init__(self, space: str, target: tuple[str, int]) -> None:
        """Connect. Raises OSError."""
        self._space, self._target = space, target
        self._number = 0
        self.connect()

    def connect(self) -> None:
        """Open the connection, also after it was lost, as soon as the guest accepts it. Raises OSError."""
        deadline = time.monotonic() + ANSWERS_WITHIN
        while True:
            try:
                with namespace.inside(self._space):
                    self._socket = socket.create_connection(self._target, timeout=ANSWERS_WITHIN)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return

    def check(self) -> None:
        """Send a number, and wait until it comes back. Raises BenchError if the connection is lost."""
        self._number += 1
        line = f"{self._number}\n".encode()
        try:
            self._socket.sendall(line)
            found = b""
            while len(found) < len(line):
                piece = self._socket.recv(len(line) - len(found))
                if not piece:
                    raise BenchError("the guest has closed the connection")
                found += piece
        except OSError as error:
            raise BenchError(f"the connection to the guest is lost: {error}") from error
        if found != line:
            raise BenchError(f"the connection returned {found!r} instead of {line!r}")

    def close(self) -> None:
        self._socket.close()
