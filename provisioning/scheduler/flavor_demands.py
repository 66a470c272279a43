"""Filters for the extra specs of a flavor: metadata of aggregates and capabilities of hosts."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

from provisioning.scheduler.condition import HostFilter, are, do, hosts_in_words
from provisioning.scheduler.operators import meets
from provisioning.scheduler.spec import HostState, RequestSpec

MIB_PER_GIB = 1024
Value = int | str | frozenset[str]
"""Value of an attribute: a number, a word, or several words."""

NUMBERS: dict[str, Callable[[HostState], int]] = {
    "free_ram_mb": attrgetter("free_memory_mb"),
    "free_disk_mb": lambda host: host.free_disk_gb * MIB_PER_GIB,
    "free_disk_gb": attrgetter("free_disk_gb"),
    "disk_available_least": attrgetter("free_disk_gb"),
    "total_usable_ram_mb": attrgetter("memory_mb_limit"),
    "total_usable_disk_gb": attrgetter("disk_gb_limit"),
    "memory_mb": attrgetter("memory_mb_limit"),
    "memory_mb_used": attrgetter("memory_mb_allocated"),
    "local_gb": attrgetter("disk_gb_limit"),
    "local_gb_used": attrgetter("disk_gb_allocated"),
    "disk_mb_used": lambda host: host.disk_gb_allocated * MIB_PER_GIB,
    "vcpus": attrgetter("vcpus_total"),
    "vcpus_total": attrgetter("vcpus_total"),
    "vcpus_used": attrgetter("vcpus_allocated"),
    "num_instances": attrgetter("instances"),
    "running_vms": attrgetter("instances"),
    "num_io_ops": attrgetter("io_ops"),
    "current_workload": attrgetter("io_ops"),
    "failed_builds": attrgetter("failed_builds"),
    "hypervisor_version": attrgetter("hypervisor_version"),
    "cpu_info.topology.sockets": lambda host: _count(host, "sockets"),
    "cpu_info.topology.cores": lambda host: _count(host, "cores"),
    "cpu_info.topology.threads": lambda host: _count(host, "threads"),
}

WORDS: dict[str, Callable[[HostState], str]] = {
    "hypervisor_type": attrgetter("hypervisor_type"),
    "cpu_info.arch": lambda host: host.cpu_info.get("arch", "") or host.architecture,
    "cpu_info.model": lambda host: host.cpu_info.get("model", ""),
    "cpu_info.vendor": lambda host: host.cpu_info.get("vendor", ""),
}


@lru_cache(maxsize=256)
def _words(text: str) -> frozenset[str]:
    """Return the words of ``a,b``; cached, because many hosts have the same text."""
    return frozenset(filter(None, text.split(",")))


LISTS: dict[str, Callable[[HostState], frozenset[str]]] = {
    "cpu_info.features": lambda host: _words(host.cpu_info.get("features", "")),
}
NAMES: dict[str, Callable[[HostState], str]] = {
    "host": attrgetter("name"),
    "hypervisor_hostname": attrgetter("name"),
}
"""Attributes for extra specs only, which operators write. Users write queries, which must not reveal hosts' names."""
ALL: Mapping[str, Callable[[HostState], Value]] = {**NUMBERS, **WORDS, **LISTS, **NAMES}


class AggregateInstanceExtraSpecsFilter(HostFilter):
    """Hosts in aggregates with the metadata that the extra specs ``aggregate_instance_extra_specs:…`` require."""

    name = "AggregateInstanceExtraSpecsFilter"
    kept = ("is of the kind that the size requires", "are of the kind that the size requires")
    needs = frozenset({"aggregate_metadata"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.aggregate_specs)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        left = list(hosts)
        for key, required in spec.aggregate_specs.items():
            left = [host for host in left if _any_meets(host.aggregate_metadata.get(key, _NOTHING), required)]
        return left

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        keys = ", ".join(sorted(spec.aggregate_specs))
        return f"{hosts_in_words(lost)} {are(lost)} not in an aggregate that the size requires ({keys})"


class ComputeCapabilitiesFilter(HostFilter):
    """Hosts with the capabilities that the flavor's extra specs ``capabilities:…`` require. A capability that the host
    does not report counts as missing.
    """

    name = "ComputeCapabilitiesFilter"
    kept = ("has the required capabilities", "have the required capabilities")
    needs = frozenset({"hardware", "cpu_info", "io_ops"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.capabilities)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        left = list(hosts)
        for name, required in spec.capabilities.items():
            read = ALL.get(name.replace(":", "."), _unknown)
            left = [host for host in left if _has(read(host), required)]
        return left

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        keys = ", ".join(sorted(spec.capabilities))
        return f"{hosts_in_words(lost)} {do(lost)} not have the capabilities that the size requires ({keys})"


def _has(value: Value, required: str) -> bool:
    if isinstance(value, int):
        return meets(str(value), required)
    return bool(value) and meets(value, required)


@lru_cache(maxsize=4096)
def _any_meets(values: frozenset[str], required: str) -> bool:
    return any(meets(value, required) for value in values)


def _unknown(_: HostState) -> str:
    return ""


_NOTHING = frozenset[str]()


def _count(host: HostState, name: str) -> int:
    text = host.cpu_info.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0
