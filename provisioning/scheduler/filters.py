"""Which hosts can take a guest.  Each filter judges one host, and says in a sentence for users what no host had."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from provisioning.scheduler.spec import HostState, RequestSpec


class Filter(abc.ABC):
    """One condition.  ``name`` is what decisions and pages call it."""

    name: str

    @abc.abstractmethod
    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the host meets the condition."""

    @abc.abstractmethod
    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        """Say why none (or fewer) of ``hosts``, which came this far, passed; no host is named."""


class AliveFilter(Filter):
    """Enabled by the operators, and heard of lately."""

    name = "enabled_and_alive"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.enabled and host.alive

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        silent = sum(1 for host in hosts if not host.alive)
        disabled = sum(1 for host in hosts if host.alive and not host.enabled)
        return f"{silent} of {_hosts(len(hosts))} {_do(silent)} not answer, {disabled} {_are(disabled)} disabled"


class RetryFilter(Filter):
    """Not a host that failed this very request."""

    name = "not_tried_before"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.excluded_hosts

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        tried = sum(1 for host in hosts if host.id in spec.excluded_hosts)
        return f"{_hosts(tried)} failed to build this server"


class AvailabilityZoneFilter(Filter):
    """In the zone that was asked for."""

    name = "availability_zone"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not spec.availability_zone or host.availability_zone == spec.availability_zone

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        outside = sum(1 for host in hosts if not self.passes(host, spec))
        return f"{_hosts(outside)} {_are(outside)} outside availability zone {spec.availability_zone}"


class VcpuFilter(Filter):
    """Enough vCPUs free; and no guest has more vCPUs than its host has processors."""

    name = "vcpus"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return spec.vcpus <= host.free_vcpus and spec.vcpus <= host.vcpus_total

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        most = max((min(host.free_vcpus, host.vcpus_total) for host in hosts), default=0)
        return _lacking(hosts, spec, self, f"{spec.vcpus} {'vCPU' if spec.vcpus == 1 else 'vCPUs'} free", str(most))


class RamFilter(Filter):
    """Enough memory free."""

    name = "ram"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return spec.memory_mb <= host.free_memory_mb

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        most = max((host.free_memory_mb for host in hosts), default=0)
        return _lacking(hosts, spec, self, f"{spec.memory_mb} MiB of memory free", f"{most} MiB")


class DiskFilter(Filter):
    """Enough disk free."""

    name = "disk"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return spec.disk_gb <= host.free_disk_gb

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        most = max((host.free_disk_gb for host in hosts), default=0)
        return _lacking(hosts, spec, self, f"{spec.disk_gb} GiB of disk free", f"{most} GiB")


FILTERS: tuple[Filter, ...] = (
    AliveFilter(),
    AvailabilityZoneFilter(),
    RetryFilter(),
    VcpuFilter(),
    RamFilter(),
    DiskFilter(),
)
"""In running order: the cheapest answer for a person to act on comes last."""


def _lacking(hosts: Sequence[HostState], spec: RequestSpec, judge: Filter, what: str, most: str) -> str:
    """Say how many hosts lack ``what``; when all do, how much the best one has."""
    lacking = sum(1 for host in hosts if not judge.passes(host, spec))
    if lacking == len(hosts):
        return f"no host has {what}; the most is {most}"
    return f"{_hosts(lacking)} {'has' if lacking == 1 else 'have'} not got {what}"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _do(count: int) -> str:
    return "does" if count == 1 else "do"
