"""Which of the hosts that can take a guest should."""

from __future__ import annotations

import abc

from provisioning.scheduler.spec import HostState, RequestSpec


class Weigher(abc.ABC):
    """One preference; the weights of all hosts are scaled to 0…1 and multiplied before they are added."""

    name: str
    multiplier: float = 1.0

    @abc.abstractmethod
    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the raw weight: more is better."""


class RamWeigher(Weigher):
    """Prefers the host with the most memory free, which spreads guests."""

    name = "ram"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(host.free_memory_mb)
