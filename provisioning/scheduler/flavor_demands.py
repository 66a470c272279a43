"""Filters for the extra specs of a flavor: metadata of aggregates and capabilities of hosts."""

from collections.abc import Sequence
from functools import lru_cache

from provisioning.scheduler.condition import HostFilter, are, do, hosts_in_words
from provisioning.scheduler.host_attributes import ALL, Value
from provisioning.scheduler.operators import meets
from provisioning.scheduler.spec import HostState, RequestSpec


class AggregateInstanceExtraSpecsFilter(HostFilter):
    """Hosts in aggregates with the metadata that the extra specs ``aggregate_instance_extra_specs:…`` require."""

    name = "AggregateInstanceExtraSpecsFilter"
    kept = ("is of the kind that the size asks for", "are of the kind that the size asks for")
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
        return f"{hosts_in_words(lost)} {are(lost)} in no aggregate that the size asks for ({keys})"


class ComputeCapabilitiesFilter(HostFilter):
    """Hosts with the capabilities that the flavor's extra specs ``capabilities:…`` require. A capability that the host
    does not report counts as missing.
    """

    name = "ComputeCapabilitiesFilter"
    kept = ("has what the size asks for", "have what the size asks for")
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
        return f"{hosts_in_words(lost)} {do(lost)} not have what the size asks of its host ({keys})"


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
