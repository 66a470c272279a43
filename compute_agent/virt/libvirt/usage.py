"""Counters of all running guests, with one request to libvirt."""

import math
from typing import Any

import libvirt

from compute_agent.virt.driver import HostUsage, Values
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.machine.machine_usage import machine_usage

_KINDS = (
    libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
    | libvirt.VIR_DOMAIN_STATS_BLOCK
)
_WHICH = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
"""Running guests; libvirt leaves out the values of a guest whose monitor is in use by another call."""
_DISK = ("rd.bytes", "wr.bytes", "rd.reqs", "wr.reqs")
_NETWORK = ("rx.bytes", "tx.bytes", "rx.pkts", "tx.pkts")
_MIB = 1024  # KiB


class UsageOperations(Domains):
    """The usage of the host and its guests."""

    def usage(self) -> HostUsage:
        with translated("measure its guests"):
            counters = self._hypervisor.get().getAllDomainStats(_KINDS, _WHICH)
            guests = {domain.UUIDString(): values_of(stats) for domain, stats in counters}
        known = {uuid: values for uuid, values in guests.items() if self._states.knows(uuid)}
        return HostUsage(machine_usage(self._paths.instances), known)


def values_of(stats: dict[str, Any]) -> Values:
    """Return the values of ``GUEST_SERIES`` from libvirt's statistics of a domain."""
    cpu = stats.get("cpu.time")
    return (
        None if cpu is None else cpu / 1e9,
        _memory(stats),
        *(_sum(stats, "block", name) for name in _DISK),
        *(_sum(stats, "net", name) for name in _NETWORK),
    )


def _memory(stats: dict[str, Any]) -> float | None:
    """Return the memory in MiB that the guest's programs use, as its balloon driver reports. If the driver reports
    nothing, return the memory that the guest occupies on the host; None if unknown.
    """
    available, usable = stats.get("balloon.available"), stats.get("balloon.usable")
    if available and usable is not None and stats.get("balloon.last-update"):
        return float(max(0, available - usable)) / _MIB
    occupied = stats.get("balloon.rss") or stats.get("balloon.current")
    return float(occupied) / _MIB if occupied else None


def _sum(stats: dict[str, Any], kind: str, name: str) -> float | None:
    """Return the sum of a counter over all disks or interfaces; None if libvirt left it out for one of them."""
    many = stats.get(f"{kind}.count")
    if many is None:
        return None
    values: list[float | None] = [stats.get(f"{kind}.{number}.{name}") for number in range(many)]
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == many else None
