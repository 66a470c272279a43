"""What the scheduler knows: the request and the hosts, as plain values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The group of a server, with Nova's name of its policy, and how many of the other members each host has."""

    policy: str
    members: Mapping[uuid.UUID, int] = field(default_factory=dict)
    most: int = 1
    """Servers of an anti-affine group that one host may have."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What a guest needs: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    availability_zone: str = ""
    """Empty: any."""
    excluded_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts that failed this request."""
    requested_host: str = ""
    """The name of the only host that will do; empty: any."""
    same_hosts: frozenset[uuid.UUID] | None = None
    """Hosts of the servers it is to be with; None: no such wish."""
    different_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts of the servers it is to be apart from."""
    group: GroupSpec | None = None
    architecture: str = ""
    """The processor that the image is made for; empty: any."""
    aggregate_specs: Mapping[str, str] = field(default_factory=dict)
    """What the flavor asks of the aggregates' metadata."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One host as the records have it: memory in MiB, disk in GiB; ``*_limit`` are what may be allocated, ratios and
    reserves applied.
    """

    id: uuid.UUID
    name: str
    availability_zone: str
    enabled: bool
    alive: bool
    vcpus_total: int
    vcpus_limit: int
    memory_mb_limit: int
    disk_gb_limit: int
    vcpus_allocated: int
    memory_mb_allocated: int
    disk_gb_allocated: int
    instances: int = 0
    architecture: str = ""
    aggregate_metadata: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Key → values over all aggregates of the host; empty where no request asks."""

    @property
    def free_vcpus(self) -> int:
        """vCPUs that may still be allocated."""
        return max(self.vcpus_limit - self.vcpus_allocated, 0)

    @property
    def free_memory_mb(self) -> int:
        """MiB of memory that may still be allocated."""
        return max(self.memory_mb_limit - self.memory_mb_allocated, 0)

    @property
    def free_disk_gb(self) -> int:
        """GiB of disk that may still be allocated."""
        return max(self.disk_gb_limit - self.disk_gb_allocated, 0)
