"""Resources that a server uses in its project's quota and on its host."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioning.compute.models import Flavor

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Room:
    """Resources on a host: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int


def flavor_copy(flavor: Flavor, virtual_size: int, *, local_root: bool = True) -> dict[str, Any]:
    """Return the instance's copy of its flavor.

    ``disk_gb`` is the space on the host: root, ephemeral and swap disks, rounded up to GiB. A root disk of 0 counts
    with the image's ``virtual_size`` (bytes); a boot volume (``local_root`` False) does not count.
    """
    root_gb = (flavor.root_gb or math.ceil(virtual_size / GIB)) if local_root else 0
    return {
        "flavorid": flavor.flavorid,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap_mb": flavor.swap_mb,
        "extra_specs": dict(flavor.extra_specs),
        "disk_gb": root_gb + flavor.ephemeral_gb + math.ceil(flavor.swap_mb / 1024),
    }


def root_gb(flavor: Mapping[str, Any]) -> int:
    """Return the GiB of an instance's root disk on its host: the image's size if the flavor has 0, and 0 for a boot
    volume.
    """
    return int(flavor["disk_gb"]) - int(flavor["ephemeral_gb"]) - math.ceil(int(flavor["swap_mb"]) / 1024)


def room_of(flavor: Mapping[str, Any]) -> Room:
    """Return the resources on a host of an instance with this copy of a flavor."""
    return Room(vcpus=flavor["vcpus"], memory_mb=flavor["memory_mb"], disk_gb=flavor["disk_gb"])


def quota_amounts(flavor: Flavor) -> dict[str, int]:
    """Return the quota usage of one instance: Nova's ``instances``, ``cores`` and ``ram`` (MiB)."""
    return {"instances": 1, "cores": flavor.vcpus, "ram": flavor.memory_mb}


def larger_room(flavor: Mapping[str, Any], other: Mapping[str, Any] | None) -> Room:
    """Return the larger of both flavors for each resource on a host; ``other`` None: there is one flavor only."""
    room = room_of(flavor)
    if other is None:
        return room
    also = room_of(other)
    return Room(max(room.vcpus, also.vcpus), max(room.memory_mb, also.memory_mb), max(room.disk_gb, also.disk_gb))


def quota_held(flavor: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return the quota usage of a server with these copies of flavors, the larger one for each resource."""
    room = larger_room(flavor, other)
    return {"instances": 1, "cores": room.vcpus, "ram": room.memory_mb}
