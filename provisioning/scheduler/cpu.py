"""The filter for the processor of a running guest that is to move."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from provisioning.scheduler.condition import HostFilter, do, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec

MODEL, VENDOR, FEATURES = "guest_model", "guest_vendor", "guest_features"
"""Keys of ``cpu_info`` with the processor that a host can offer to guests; the features are separated by commas."""
NAMED = 8
"""Maximum number of features that a reason names."""


class GuestCpu(NamedTuple):
    """The features and the vendor of a processor as guests see it; empty: unknown."""

    features: frozenset[str]
    vendor: str = ""


UNKNOWN = GuestCpu(frozenset())


def cpu_in(cpu_info: Mapping[str, str]) -> GuestCpu:
    """Return the processor that a host can offer, from its ``cpu_info``."""
    return _cpu(cpu_info.get(FEATURES, ""), cpu_info.get(VENDOR, ""))


@lru_cache(maxsize=256)
def _cpu(features: str, vendor: str) -> GuestCpu:
    return GuestCpu(frozenset(filter(None, features.split(","))), vendor)


def lacking(needed: GuestCpu, offered: GuestCpu) -> list[str]:
    """Return the features of a running guest that ``offered`` lacks: their names, sorted, and another vendor first.

    Empty if one of both is unknown: the hypervisor then compares them.
    """
    if not needed.features or not offered.features:
        return []
    other = bool(needed.vendor and offered.vendor and needed.vendor != offered.vendor)
    return [*([f"a CPU of {needed.vendor}"] if other else []), *sorted(needed.features - offered.features)]


def in_words(names: Collection[str]) -> str:
    """Return ``avx512f, pku`` or, for many, ``a, b, c and 12 more``."""
    listed = list(names)
    more = len(listed) - NAMED
    return f"{', '.join(listed[:NAMED])} and {more} more" if more > 0 else ", ".join(listed)


class CpuFeaturesFilter(HostFilter):
    """Hosts whose processor has all features that the running guest was started with."""

    name = "CpuFeaturesFilter"
    kept = ("has the CPU features", "have the CPU features")
    needs = frozenset({"cpu_info"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.cpu_features)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        return [host for host in hosts if not lacking(_needed(spec), cpu_in(host.cpu_info))]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        missing = {name for host in hosts for name in lacking(_needed(spec), cpu_in(host.cpu_info))}
        return f"{hosts_in_words(lost)} {do(lost)} not have {in_words(sorted(missing))}"


def _needed(spec: RequestSpec) -> GuestCpu:
    return GuestCpu(spec.cpu_features, spec.cpu_vendor)
