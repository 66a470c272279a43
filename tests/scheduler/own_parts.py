"""What an operator might write: a filter, weighers and drivers that the settings name by their dotted paths."""

from __future__ import annotations

import random
from collections.abc import Sequence

from provisioning.scheduler import HostState, Options, Ranked, RequestSpec
from provisioning.scheduler.condition import Filter
from provisioning.scheduler.driver import Driver
from provisioning.scheduler.weighers import Weigher


class QuietHosts(Filter):
    name = "quiet"
    kept = ("is quiet", "are quiet")

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.instances < 2

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{lost} of them are not quiet"


class EmptierHalf(Filter):
    """Judges hosts by each other: those with as few servers as the emptiest."""

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return True

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        fewest = min((host.instances for host in hosts), default=0)
        return [host for host in hosts if host.instances == fewest and fewest < 3]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{lost} of them are fuller than others"


class LastLetter(Weigher):
    name = "last_letter"
    multiplier = 7.0
    needs = frozenset({"cpu_info"})

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return ord(host.name[-1])


class ByName(Driver):
    name = "by-name"

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        return [Ranked(host, 0.0) for host in sorted(hosts, key=lambda host: host.name)[:2]]


class Nobody(ByName):
    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        return []


class WithArguments(QuietHosts):
    def __init__(self, most: int) -> None:
        self.most = most


class OurRam(LastLetter):
    name = "RAMWeigher"


NO_CLASS = QuietHosts()
