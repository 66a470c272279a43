"""Which hosts can take a guest.  Each filter judges one host, and says in a sentence for users what no host had."""

from __future__ import annotations

from collections.abc import Sequence

from provisioning.scheduler.condition import Filter, are, do, have, hosts_in_words
from provisioning.scheduler.demands import AggregateSpecsFilter, ArchitectureFilter, RequestedHostFilter
from provisioning.scheduler.neighbours import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
)
from provisioning.scheduler.spec import HostState, RequestSpec


class AliveFilter(Filter):
    """Enabled by the operators, and heard of lately."""

    name = "enabled_and_alive"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.enabled and host.alive

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        silent = sum(1 for host in hosts if not host.alive)
        disabled = sum(1 for host in hosts if host.alive and not host.enabled)
        return f"{silent} of {hosts_in_words(len(hosts))} {do(silent)} not answer, {disabled} {are(disabled)} disabled"


class RetryFilter(Filter):
    """Not a host that failed this very request."""

    name = "not_tried_before"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.excluded_hosts

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        tried = sum(1 for host in hosts if host.id in spec.excluded_hosts)
        return f"{hosts_in_words(tried)} failed to build this server"


class AvailabilityZoneFilter(Filter):
    """In the zone that was asked for."""

    name = "availability_zone"

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not spec.availability_zone or host.availability_zone == spec.availability_zone

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        outside = self.lost(hosts, spec)
        return f"{hosts_in_words(outside)} {are(outside)} outside availability zone {spec.availability_zone}"


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
    RequestedHostFilter(),
    AvailabilityZoneFilter(),
    ArchitectureFilter(),
    AggregateSpecsFilter(),
    RetryFilter(),
    SameHostFilter(),
    DifferentHostFilter(),
    GroupAffinityFilter(),
    GroupAntiAffinityFilter(),
    VcpuFilter(),
    RamFilter(),
    DiskFilter(),
)
"""In running order: the cheapest answer for a person to act on comes last."""


def _lacking(hosts: Sequence[HostState], spec: RequestSpec, judge: Filter, what: str, most: str) -> str:
    """Say how many hosts lack ``what``; when all do, how much the best one has."""
    lacking = judge.lost(hosts, spec)
    if lacking == len(hosts):
        return f"no host has {what}; the most is {most}"
    return f"{hosts_in_words(lacking)} {have(lacking)} not got {what}"
