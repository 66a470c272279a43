"""Filters for free resources of a host: vCPUs, memory, disk, and the limits on servers and on concurrent builds."""

import abc
from collections.abc import Sequence
from math import inf

from provisioning.scheduler.condition import Amounts, HostFilter, have, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec


class ResourceFilter(HostFilter):
    """Hosts with enough of a resource free."""

    unit = ""

    @abc.abstractmethod
    def asked(self, spec: RequestSpec) -> int:
        """Return the amount that the guest requires."""

    @abc.abstractmethod
    def free(self, hosts: Sequence[HostState]) -> list[int]:
        """Return the free amount of each host; negative for an overcommitted host."""

    @abc.abstractmethod
    def what(self, requested: int) -> str:
        """Return the requested amount as text."""

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        requested = self.asked(spec)
        if requested <= 0:
            return list(hosts)
        return [host for host, free in zip(hosts, self.free(hosts), strict=True) if requested <= free]

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts:
        return Amounts(self.asked(spec), max(0, *self.free(hosts)), self.unit)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        what = self.what(self.asked(spec))
        if lost == len(hosts):
            most = f"{self.amounts(hosts, spec).most} {self.unit}".rstrip()
            return f"no host has {what}; the most is {most}"
        return f"{hosts_in_words(lost)} {have(lost)} not got {what}"


class CoreFilter(ResourceFilter):
    """Hosts with enough free vCPUs and at least as many processors as the guest has vCPUs."""

    name = "CoreFilter"
    kept = ("has enough vCPUs", "have enough vCPUs")

    def asked(self, spec: RequestSpec) -> int:
        return spec.vcpus

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [
            free if (free := host.vcpus_limit - host.vcpus_allocated) < host.vcpus_total else host.vcpus_total
            for host in hosts
        ]

    def what(self, requested: int) -> str:
        return f"{requested} {'vCPU' if requested == 1 else 'vCPUs'} free"


class RamFilter(ResourceFilter):
    """Hosts with enough memory free."""

    name = "RamFilter"
    kept = ("has enough memory", "have enough memory")
    unit = "MiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.memory_mb

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [host.memory_mb_limit - host.memory_mb_allocated for host in hosts]

    def what(self, requested: int) -> str:
        return f"{requested} MiB of memory free"


class DiskFilter(ResourceFilter):
    """Hosts with enough disk free."""

    name = "DiskFilter"
    kept = ("has enough disk", "have enough disk")
    unit = "GiB"

    def asked(self, spec: RequestSpec) -> int:
        return spec.disk_gb

    def free(self, hosts: Sequence[HostState]) -> list[int]:
        return [host.disk_gb_limit - host.disk_gb_allocated for host in hosts]

    def what(self, requested: int) -> str:
        return f"{requested} GiB of disk free"


class CountFilter(HostFilter):
    """Hosts below a limit on a number of servers: the limit of the host's aggregates, or else ``most``."""

    def __init__(self, most: int = 0) -> None:
        """``most`` applies to hosts whose aggregates set no limit; 0: unlimited."""
        self.most = most or inf

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} {self.full}"

    full: str
    """Wording for hosts that have reached the limit."""


class NumInstancesFilter(CountFilter):
    """Hosts below their limit of servers."""

    name = "NumInstancesFilter"
    kept = ("may have more servers", "may have more servers")
    full = "as many servers as one may have"

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if self.most == inf:
            return [host for host in hosts if (own := host.max_instances) is None or host.instances < own]
        return [host for host in hosts if host.instances < (self.most if (own := host.max_instances) is None else own)]


class IoOpsFilter(CountFilter):
    """Hosts below their limit of concurrent builds, copies and migrations."""

    name = "IoOpsFilter"
    kept = ("may build another server", "may build another server")
    full = "as many servers being built as one may have"
    needs = frozenset({"io_ops"})

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if self.most == inf:
            return [host for host in hosts if (own := host.max_io_ops) is None or host.io_ops < own]
        return [host for host in hosts if host.io_ops < (self.most if (own := host.max_io_ops) is None else own)]
