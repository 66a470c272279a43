"""What the scheduler knows: the request and the hosts, as plain values."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


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
