"""Room on a host: vCPUs, memory, disk, and how many servers it may have and build at a time."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from math import inf

from provisioning.scheduler.condition import Amounts, HostFilter, have, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec


class RoomFilter(HostFilter):
    """Enough of something free."""

    unit = ""

    @abc.abstractmethod
    def asked(self, spec: RequestSpec) -> int:
        """Return how much the guest needs."""

    @abc.abstractmethod
    def free(self, hosts: Sequence[HostState]) -> list[int]:
        """Return how much each host has left; less than nothing where more was given out than there is."""

    @abc.abstractmethod
    def what(self, asked: int) -> str:
        """Say what is asked for, with its amount."""

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return bool(self.select([host], spec))

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        asked = self.asked(spec)
        if asked <= 0:
            return list(hosts)
        return [host for host, free in zip(hosts, self.free(hosts), strict=True) if asked <= free]

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts:
        return Amounts(self.asked(spec), max(0, *self.free(hosts)), self.unit)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        what = self.what(self.asked(spec))
        if lost == len(hosts):
            most = f"{self.amounts(hosts, spec).most} {self.unit}".rstrip()
            return f"no host has {what}; the most is {most}"
        return f"{hosts_in_words(lost)} {have(lost)} not got {what}"


class VcpuFilter(RoomFilter):
    """Enough vCPUs free; and no guest has more vCPUs than its host has processors."""

    name = "vcpus"
    kept = ("has the vCPUs", "have the vCPUs")

    def asked(self, spec: RequestSpec) -> int:
        return spec.vcpus

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [
            free if (free := host.vcpus_limit - host.vcpus_allocated) < host.vcpus_total else host.vcpus_total
            for host in hosts
        ]

    def what(self, asked: int) -> str:
        return f"{asked} {'vCPU' if asked == 1 else 'vCPUs'} free"


class RamFilter(RoomFilter):
    """Enough memory free."""

    name = "ram"
    kept = ("has the memory", "have the memory")
    unit = "MiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.memory_mb

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [host.memory_mb_limit - host.memory_mb_allocated for host in hosts]

    def what(self, asked: int) -> str:
        return f"{asked} MiB of memory free"


class DiskFilter(RoomFilter):
    """Enough disk free."""

    name = "disk"
    kept = ("has the disk", "have the disk")
    unit = "GiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.disk_gb

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [host.disk_gb_limit - host.disk_gb_allocated for host in hosts]

    def what(self, asked: int) -> str:
        return f"{asked} GiB of disk free"


class CountFilter(HostFilter):
    """Fewer of something on the host than it may have: ``most`` of the settings, or what its aggregates say."""

    def __init__(self, most: int = 0) -> None:
        """Keep what the settings say; 0: any number."""
        self.most = most or inf

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} {self.full}"

    full: str
    """What is said of hosts that have as many as they may."""


class InstancesFilter(CountFilter):
    """Not more servers than a host may have."""

    name = "number_of_instances"
    kept = ("may have more servers", "may have more servers")
    full = "as many servers as one may have"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.instances < (self.most if host.max_instances is None else host.max_instances)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if self.most == inf:
            return [host for host in hosts if (own := host.max_instances) is None or host.instances < own]
        return super().select(hosts, spec)


class IoOpsFilter(CountFilter):
    """Not more servers being built, copied or moved at the same time than a host may have."""

    name = "io_operations"
    kept = ("may build another server", "may build another server")
    full = "as many servers in the making as one may have"
    needs = frozenset({"io_ops"})

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.io_ops < (self.most if host.max_io_ops is None else host.max_io_ops)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if self.most == inf:
            return [host for host in hosts if (own := host.max_io_ops) is None or host.io_ops < own]
        return super().select(hosts, spec)
