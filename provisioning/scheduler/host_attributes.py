"""Attributes of a host in extra specs (``capabilities:cpu_info:arch``) and queries (``$cpu_info.arch``)."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter

from provisioning.scheduler.spec import HostState

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


@lru_cache(maxsize=256)
def _words(text: str) -> frozenset[str]:
    """Return the words of ``a,b``; cached, because many hosts have the same text."""
    return frozenset(filter(None, text.split(",")))


WORDS: dict[str, Callable[[HostState], str]] = {
    "hypervisor_type": attrgetter("hypervisor_type"),
    "cpu_info.arch": lambda host: host.cpu_info.get("arch", "") or host.architecture,
    "cpu_info.model": lambda host: host.cpu_info.get("model", ""),
    "cpu_info.vendor": lambda host: host.cpu_info.get("vendor", ""),
}
LISTS: dict[str, Callable[[HostState], frozenset[str]]] = {
    "cpu_info.features": lambda host: _words(host.cpu_info.get("features", "")),
}
NAMES: dict[str, Callable[[HostState], str]] = {
    "host": attrgetter("name"),
    "hypervisor_hostname": attrgetter("name"),
}
"""Attributes for extra specs only, which operators write. Users write queries, which must not reveal hosts' names."""
ALL: Mapping[str, Callable[[HostState], Value]] = {**NUMBERS, **WORDS, **LISTS, **NAMES}


def _count(host: HostState, name: str) -> int:
    text = host.cpu_info.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0
