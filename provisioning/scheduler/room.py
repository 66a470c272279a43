"""Room on a host: vCPUs, memory, disk, and how many servers it may have and build at a time."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from provisioning.scheduler.condition import Amounts, HostFilter, have, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec


class RoomFilter(HostFilter):
    """Enough of something free."""

    unit = ""

    @abc.abstractmethod
    def asked(self, spec: RequestSpec) -> int:
        """Return how much the guest needs."""

    @abc.abstractmethod
    def free(self, host: HostState) -> int:
        """Return how much the host has left."""

    @abc.abstractmethod
    def what(self, asked: int) -> str:
        """Say what is asked for, with its amount."""

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return self.asked(spec) <= self.free(host)

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts:
        return Amounts(self.asked(spec), max(map(self.free, hosts), default=0), self.unit)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        what, lacking = self.what(self.asked(spec)), self.lost(hosts, spec)
        if lacking == len(hosts):
            most = f"{self.amounts(hosts, spec).most} {self.unit}".rstrip()
            return f"no host has {what}; the most is {most}"
        return f"{hosts_in_words(lacking)} {have(lacking)} not got {what}"


class VcpuFilter(RoomFilter):
    """Enough vCPUs free; and no guest has more vCPUs than its host has processors."""

    name = "vcpus"
    kept = ("has the vCPUs", "have the vCPUs")

    def asked(self, spec: RequestSpec) -> int:
        return spec.vcpus

    def free(self, host: HostState) -> int:
        return min(host.free_vcpus, host.vcpus_total)

    def what(self, asked: int) -> str:
        return f"{asked} {'vCPU' if asked == 1 else 'vCPUs'} free"

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        asked = spec.vcpus
        if asked <= 0:
            return list(hosts)
        return [
            host for host in hosts if asked <= host.vcpus_limit - host.vcpus_allocated and asked <= host.vcpus_total
        ]


class RamFilter(RoomFilter):
    """Enough memory free."""

    name = "ram"
    kept = ("has the memory", "have the memory")
    unit = "MiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.memory_mb

    def free(self, host: HostState) -> int:
        return host.free_memory_mb

    def what(self, asked: int) -> str:
        return f"{asked} MiB of memory free"

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        asked = spec.memory_mb
        if asked <= 0:
            return list(hosts)
        return [host for host in hosts if asked <= host.memory_mb_limit - host.memory_mb_allocated]


class DiskFilter(RoomFilter):
    """Enough disk free."""

    name = "disk"
    kept = ("has the disk", "have the disk")
    unit = "GiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.disk_gb

    def free(self, host: HostState) -> int:
        return host.free_disk_gb

    def what(self, asked: int) -> str:
        return f"{asked} GiB of disk free"

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        asked = spec.disk_gb
        if asked <= 0:
            return list(hosts)
        return [host for host in hosts if asked <= host.disk_gb_limit - host.disk_gb_allocated]


class CountFilter(HostFilter):
    """Fewer of something on the host than it may have: ``most`` of the settings, or what its aggregates say."""

    def __init__(self, most: int = 0) -> None:
        """Keep what the settings say; 0: any number."""
        self.most = float(most or "inf")

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        lost = self.lost(hosts, spec)
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
        most = self.most
        return [host for host in hosts if host.instances < (most if (own := host.max_instances) is None else own)]


class IoOpsFilter(CountFilter):
    """Not more servers being built, copied or moved at the same time than a host may have."""

    name = "io_operations"
    kept = ("may build another server", "may build another server")
    full = "as many servers in the making as one may have"
    needs = frozenset({"io_ops"})

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.io_ops < (self.most if host.max_io_ops is None else host.max_io_ops)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if self.most == float("inf"):
            return [host for host in hosts if (own := host.max_io_ops) is None or host.io_ops < own]
        return super().select(hosts, spec)
