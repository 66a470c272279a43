"""Which of the hosts that can take a guest should."""

from __future__ import annotations

import abc
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar

from provisioning.scheduler.neighbours import SOFT_AFFINITY, SOFT_ANTI_AFFINITY
from provisioning.scheduler.spec import HostState, RawId, RequestSpec, raw_ids


class Weigher(abc.ABC):
    """One preference; the weights of all hosts are scaled to 0…1 and multiplied before they are added.

    A negative multiplier prefers the opposite.
    """

    name: str
    multiplier: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of Facts that it looks at."""

    def __init__(self, multiplier: float | None = None) -> None:
        """Take another multiplier than the class has."""
        if multiplier is not None:
            self.multiplier = multiplier

    def applies(self, spec: RequestSpec) -> bool:
        """Whether it can tell hosts apart for this request; else it is not run."""
        return True

    @abc.abstractmethod
    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """Return the raw weight, a finite number: more is better."""

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        """Return the raw weights of the hosts, in their order."""
        return [self.weigh(host, spec) for host in hosts]


class RamWeigher(Weigher):
    """Prefers the host with the most memory free, which spreads guests."""

    name = "ram"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.memory_mb_limit - host.memory_mb_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.memory_mb_limit - host.memory_mb_allocated for host in hosts]


class CpuWeigher(Weigher):
    """Prefers the host with the most vCPUs free."""

    name = "cpu"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.vcpus_limit - host.vcpus_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.vcpus_limit - host.vcpus_allocated for host in hosts]


class DiskWeigher(Weigher):
    """Prefers the host with the most disk free."""

    name = "disk"

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return host.disk_gb_limit - host.disk_gb_allocated

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [host.disk_gb_limit - host.disk_gb_allocated for host in hosts]


class IoOpsWeigher(Weigher):
    """Prefers the host with the fewest servers being built, copied or moved."""

    name = "io"
    needs = frozenset({"io_ops"})

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return -host.io_ops

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [-ops.get(host.raw_id, 0) if (ops := host.facts.io_ops) else 0 for host in hosts]


class BuildFailureWeigher(Weigher):
    """Prefers the host with the fewest builds that failed since one went well."""

    name = "build_failure"
    multiplier = 2.0

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return -host.failed_builds

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [-host.failed_builds for host in hosts]


class ImageCachedWeigher(Weigher):
    """Prefers hosts that need not fetch the image."""

    name = "image_cached"
    multiplier = 0.5
    needs = frozenset({"with_image"})

    def applies(self, spec: RequestSpec) -> bool:
        return spec.image_id is not None

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return float(host.has_image)

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        return [float(host.raw_id in having) if (having := host.facts.with_image) else 0.0 for host in hosts]


class SoftAffinityWeigher(Weigher):
    """Prefers hosts with servers of the request's group, when that would have them together.

    It weighs more than all others together, as its counterpart does, so that the policy gives way to a lack of room
    and to nothing less.
    """

    name = "soft_affinity"
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


class SoftAntiAffinityWeigher(SoftAffinityWeigher):
    """Prefers hosts without servers of the request's group, when that would have them apart."""

    name = "soft_anti_affinity"
    policy = SOFT_ANTI_AFFINITY
    sign = -1


def _members(spec: RequestSpec, policy: str) -> Mapping[uuid.UUID, int]:
    return spec.group.members if spec.group is not None and spec.group.policy == policy else {}
