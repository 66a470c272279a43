"""How much room a server takes: of the project's quota and of a host."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioning.compute.models import Flavor

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Room:
    """What an instance takes on a host: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int


def flavor_copy(flavor: Flavor, virtual_size: int, *, local_root: bool = True) -> dict[str, Any]:
    """Return what an instance keeps of its flavor.

    ``disk_gb`` is the room on the host: root, ephemeral and swap together, rounded up to GiB; a root disk of 0 counts
    as the image's ``virtual_size`` (bytes), and one that is a volume (``local_root`` False) takes nothing there.
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
    """Return the GiB that an instance's root disk takes on its host, those of its image when the flavor says 0; none
    when it is a volume.
    """
    return int(flavor["disk_gb"]) - int(flavor["ephemeral_gb"]) - math.ceil(int(flavor["swap_mb"]) / 1024)


def room_of(flavor: Mapping[str, Any]) -> Room:
    """Return what an instance with this copy of a flavor takes on a host."""
    return Room(vcpus=flavor["vcpus"], memory_mb=flavor["memory_mb"], disk_gb=flavor["disk_gb"])


def quota_amounts(flavor: Flavor) -> dict[str, int]:
    """Return what one instance takes of the quota: Nova's ``instances``, ``cores`` and ``ram`` (MiB)."""
    return {"instances": 1, "cores": flavor.vcpus, "ram": flavor.memory_mb}


def larger_room(flavor: Mapping[str, Any], other: Mapping[str, Any] | None) -> Room:
    """Return what a server holds on its host that may have either size; ``other`` None: it has one."""
    room = room_of(flavor)
    if other is None:
        return room
    also = room_of(other)
    return Room(max(room.vcpus, also.vcpus), max(room.memory_mb, also.memory_mb), max(room.disk_gb, also.disk_gb))


def quota_held(flavor: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return what a server holds of the quota that may have either of these copies of flavors."""
    room = larger_room(flavor, other)
    return {"instances": 1, "cores": room.vcpus, "ram": room.memory_mb}
