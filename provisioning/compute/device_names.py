"""What a guest's disks are called: ``vda`` and on by their bus, each name once in a server."""

import re
from collections.abc import Collection, Iterable, Mapping
from string import ascii_lowercase
from typing import Any

from provisioning.common.errors import InvalidInputError
from provisioning.compute.errors import TooManyDisksError
from provisioning.compute.models import BlockDevice, Instance

PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd"}
"""Bus → how the names of its disks begin."""
MOST_DISKS = 26
_PATH = re.compile(r"(/dev/)?(x?[a-z]?d?)([a-z]+)[0-9]*")


def of_flavor(flavor: Mapping[str, Any], devices: Collection[BlockDevice], *, local_root: bool) -> set[str]:
    """Return the names that the disks take which are not among ``devices``: the root disk, the flavor's ephemeral disk
    and its swap, in the order in which hosts make them, and the CD-ROM of the seed.
    """
    local = [device for device in devices if not device.is_volume]
    swap = any(device.guest_format == "swap" for device in local)
    empty = any(device.guest_format != "swap" for device in local)
    many = local_root + bool(flavor["ephemeral_gb"] and not empty) + bool(flavor["swap_mb"] and not swap)
    first = 0 if local_root else 1  # a root disk that is a volume has the first name itself
    return {"hda", *(f"vd{letter}" for letter in ascii_lowercase[first : first + many])}


def taken(instance: Instance, devices: Collection[BlockDevice]) -> set[str]:
    """Return the names that a server's disks have; ``devices``: all that are recorded."""
    local_root = instance.image_id is not None
    named = {device.device_name.removeprefix("/dev/") for device in devices}
    return named | of_flavor(instance.flavor, devices, local_root=local_root)


def check_path(path: str) -> None:
    """Raise InvalidInputError for what is no name of a device."""
    if path and _PATH.fullmatch(path) is None:
        raise InvalidInputError(f"The supplied device path ({path[:64]}) is invalid.", field="device")


def choose(devices: Iterable[BlockDevice], taken: set[str]) -> None:
    """Give each device that has none a name of its bus that is not ``taken``, or the one it was asked for when that is
    such a name; ``taken`` grows.  Raises TooManyDisksError.
    """
    for device in sorted(devices, key=lambda each: (not each.is_root, each.is_volume, each.position)):
        prefix = PREFIXES.get(device.disk_bus or "virtio", "vd")
        wanted = device.device_name.removeprefix("/dev/")
        free = [f"{prefix}{letter}" for letter in ascii_lowercase if f"{prefix}{letter}" not in taken]
        if not free or len(taken) > MOST_DISKS:
            raise TooManyDisksError(
                f"The maximum allowed number of disk devices ({MOST_DISKS}) to attach to a single instance has been"
                " exceeded."
            )
        name = wanted if wanted in free else free[0]
        taken.add(name)
        device.device_name = f"/dev/{name}"
