"""Weighers, which express preferences among the suitable hosts."""

import abc
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar

from provisioning.scheduler.affinity import SOFT_AFFINITY, SOFT_ANTI_AFFINITY
from provisioning.scheduler.spec import HostState, RawId, RequestSpec, raw_ids


class Weigher(abc.ABC):
    """A preference among suitable hosts. Its weights of all hosts are scaled to 0…1 and multiplied by ``multiplier``; a
    host's total weight is the sum over all weighers.

    A negative multiplier prefers the opposite.
    """

    name: str
    """Name in settings and decisions; for built-in weighers the name of the class."""
    multiplier: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of ``Facts`` that the weigher reads."""

    def __init__(self, multiplier: float | None = None) -> None:
        """``multiplier`` replaces the default of the class."""
        if multiplier is not None:
            self.multiplier = multiplier

    def applies(self, spec: RequestSpec) -> bool:
        """Whether the weigher has a preference for this request; if not, the weigher is not run."""
        return True

    @abc.abstractmethod
    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the raw weight, a finite number: more is better."""

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        """Return the raw weights of the hosts, in their order."""
        return [self.weigh(host, spec) for host in hosts]


class RAMWeigher(Weigher):
    """Prefers the host with the most memory free, which spreads guests."""

    name = "RAMWeigher"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.memory_mb_limit - host.memory_mb_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.memory_mb_limit - host.memory_mb_allocated for host in hosts]


class CPUWeigher(Weigher):
    """Prefers the host with the most vCPUs free."""

    name = "CPUWeigher"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.vcpus_limit - host.vcpus_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.vcpus_limit - host.vcpus_allocated for host in hosts]


class DiskWeigher(Weigher):
    """Prefers the host with the most disk free."""

    name = "DiskWeigher"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.disk_gb_limit - host.disk_gb_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.disk_gb_limit - host.disk_gb_allocated for host in hosts]


class IoOpsWeigher(Weigher):
    """Prefers the host with the fewest servers being built, copied or migrated."""

    name = "IoOpsWeigher"
    needs = frozenset({"io_ops"})

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return -host.io_ops

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [-ops.get(host.raw_id, 0) if (ops := host.facts.io_ops) else 0 for host in hosts]


class BuildFailureWeigher(Weigher):
    """Prefers the host with the fewest failed builds since the last successful one."""

    name = "BuildFailureWeigher"
    multiplier = 2.0

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return -host.failed_builds

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [-host.failed_builds for host in hosts]


class ImageCachedWeigher(Weigher):
    """Prefers hosts that have the request's image in their cache."""

    name = "ImageCachedWeigher"
    multiplier = 0.5
    needs = frozenset({"with_image"})

    def applies(self, spec: RequestSpec) -> bool:
        return spec.image_id is not None

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(host.has_image)

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [float(host.raw_id in having) if (having := host.facts.with_image) else 0.0 for host in hosts]


class ServerGroupSoftAffinityWeigher(Weigher):
    """Prefers hosts with servers of the request's group, for the policy soft-affinity.

    By default this weigher and its counterpart outweigh all others together, so that only a lack of resources overrides
    the policy.
    """

    name = "ServerGroupSoftAffinityWeigher"
    multiplier = 10.0
    policy: ClassVar[str] = SOFT_AFFINITY
    sign: ClassVar[int] = 1

    def applies(self, spec: RequestSpec) -> bool:
        return spec.group is not None and spec.group.policy == self.policy and bool(spec.group.members)

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return self.sign * _members(spec, self.policy).get(host.id, 0)

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        members: dict[RawId, int] = {}
        for each, many in _members(spec, self.policy).items():
            members |= dict.fromkeys(raw_ids([each]), self.sign * many)
        return [members.get(host.raw_id, 0) for host in hosts]


class ServerGroupSoftAntiAffinityWeigher(ServerGroupSoftAffinityWeigher):
    """Prefers hosts without servers of the request's group, for the policy soft-anti-affinity."""

    name = "ServerGroupSoftAntiAffinityWeigher"
    policy = SOFT_ANTI_AFFINITY
    sign = -1


def _members(spec: RequestSpec, policy: str) -> Mapping[uuid.UUID, int]:
    return spec.group.members if spec.group is not None and spec.group.policy == policy else {}
