"""Usage of simulated guests: waves whose length and height follow from the guest's id, so that graphs show something.

The counters of guests are the integrals of the waves. So they only increase, agree after a restart of the agent, and
need no state. The counters of the host are sums of the increases of its guests' counters while the guests were here:
guests that arrive bring their counters with them.
"""

import math
import time
import zlib
from collections.abc import Sequence

from compute_agent.contract.power import PowerState
from compute_agent.contract.samples import GUEST_SERIES
from compute_agent.virt.driver import HostUsage, Values
from compute_agent.virt.fake.state import FakeGuest
from compute_agent.virt.fake.volumes import FakeVolumes

PERIODS = (97.0, 1_300.0, 21_600.0)
"""Lengths of the waves in seconds; each guest's are up to twice as long."""
BYTES_PER_PACKET, BYTES_PER_REQUEST = 700.0, 16_384.0
BUSIEST_DISK, BUSIEST_NETWORK = 8e6, 4e6
"""Maximum rates of a simulated guest's disk and network, in bytes per second."""


class FakeUsage(FakeVolumes):
    """The part of the fake driver for usage."""

    _total: tuple[int, int, int]

    def __init__(self) -> None:
        super().__init__()
        self._used = [0.0] * len(GUEST_SERIES)
        """The counters of the host."""
        self._read_at, self._read = 0.0, dict[str, Values]()
        """The time and the guests' values of the previous reading."""

    def usage(self) -> HostUsage:
        with self._changed:
            guests, now = list(self._state.guests.values()), time.time()
            running = {each.uuid: _guest(each, now) for each in guests if each.power == PowerState.RUNNING}
            load = sum(_height(each, "cpu", now) * each.vcpus for each in guests if each.uuid in running)
            disk = float(sum(each.disk_gb for each in guests))
            self._count(running, now)
            memory = sum(values[1] or 0.0 for values in running.values())
            used = (self._used[0], min(512.0 + memory, float(self._total[1])), *self._used[2:])
        return HostUsage((*used, 0.1 + min(load, self._total[0]), disk), running)

    def _count(self, guests: dict[str, Values], now: float) -> None:
        """Add the guests' usage since the previous reading to the host's counters, and the host's own work, which is
        one tenth of a processor. A host uses no more processors than it has.
        """
        seconds = now - self._read_at if self._read_at else 0.0
        pairs = [(values, self._read.get(uuid, values)) for uuid, values in guests.items()]
        used = [_more(pairs, at) for at in range(len(GUEST_SERIES))]
        used[0] = min(0.1 * seconds + used[0], self._total[0] * seconds)
        self._used = [before + more for before, more in zip(self._used, used, strict=True)]
        self._read_at, self._read = now, guests


def _more(pairs: Sequence[tuple[Values, Values]], at: int) -> float:
    """Return by how much one counter of the guests has increased; one that has decreased was restarted."""
    return math.fsum(max(0.0, (now[at] or 0.0) - (before[at] or 0.0)) for now, before in pairs)


def _guest(guest: FakeGuest, now: float) -> Values:
    read, written = (_area(guest, name, now) * BUSIEST_DISK for name in ("read", "write"))
    received, sent = (_area(guest, name, now) * BUSIEST_NETWORK for name in ("in", "out"))
    return (
        _area(guest, "cpu", now) * guest.vcpus,
        guest.memory_mb * (0.2 + 0.7 * _height(guest, "memory", now)),
        *(read, written, read / BYTES_PER_REQUEST, written / BYTES_PER_REQUEST),
        *(received, sent, received / BYTES_PER_PACKET, sent / BYTES_PER_PACKET),
    )


def _waves(guest: FakeGuest, name: str) -> list[tuple[float, float, float]]:
    """Return period, phase and height of the waves of one series; the heights sum up to less than one half."""
    seed = zlib.crc32(f"{guest.uuid} {name}".encode())
    most = 0.08 + 0.4 * (seed % 101) / 101
    shares = (0.25, 0.35, 0.4)
    return [
        (period * (1 + (seed >> 4 * at) % 17 / 17), float((seed >> 3 * at) % 360), most * share)
        for at, (period, share) in enumerate(zip(PERIODS, shares, strict=True))
    ]


def _height(guest: FakeGuest, name: str, now: float) -> float:
    """Return the share of the guest's resources that are in use, between 0 and 1."""
    return sum(half * (1 + math.sin(2 * math.pi * now / period + phase)) for period, phase, half in _waves(guest, name))


def _area(guest: FakeGuest, name: str, now: float) -> float:
    """Return the integral of ``_height`` since its guest was started."""
    began = guest.boots[-1][0] if guest.boots else now
    whole = 0.0
    for period, phase, half in _waves(guest, name):
        turn = 2 * math.pi / period
        whole += half * (now - began - (math.cos(turn * now + phase) - math.cos(turn * began + phase)) / turn)
    return whole
