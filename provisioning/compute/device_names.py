"""What a guest's disks are called: ``vda`` and on by their bus, each name once in a server."""

import re
from collections.abc import Collection, Iterable, Mapping
from string import ascii_lowercase
from typing import Any

from compute_agent.contract.hardware import DEFAULT, PREFIXES, Hardware, lenient
from provisioning.common.errors import InvalidInputError
from provisioning.compute.errors import TooManyDisksError
from provisioning.compute.models import BlockDevice, Instance

MOST_DISKS = 26
_PATH = re.compile(r"(/dev/)?(x?[a-z]?d?)([a-z]+)[0-9]*")


def hardware_of(properties: Mapping[str, object], flavor: Mapping[str, Any]) -> Hardware:
    """Return the hardware of a server by its image's properties and its copy of a flavor."""
    return lenient(properties, flavor["extra_specs"], flavor["vcpus"])


def root_device(instance: Instance) -> str:
    """Return the path of a root disk on the server's host in the guest."""
    return f"/dev/{hardware_of(instance.image_properties, instance.flavor).root_device}"


def of_flavor(
    flavor: Mapping[str, Any], devices: Collection[BlockDevice], hardware: Hardware, *, local_root: bool
) -> set[str]:
    """Return the names that the disks take which are not among ``devices``: the root disk, the flavor's ephemeral disk
    and its swap, in the order in which hosts make them, and the CD-ROM of the seed.
    """
    local = [device for device in devices if not device.is_volume]
    swap = any(device.guest_format == "swap" for device in local)
    empty = any(device.guest_format != "swap" for device in local)
    many = local_root + bool(flavor["ephemeral_gb"] and not empty) + bool(flavor["swap_mb"] and not swap)
    first = 0 if local_root else 1  # a root disk that is a volume has the first name itself
    prefix = PREFIXES[hardware.disk_bus]
    return {hardware.seed_device, *(f"{prefix}{letter}" for letter in ascii_lowercase[first : first + many])}


def taken(instance: Instance, devices: Collection[BlockDevice]) -> set[str]:
    """Return the names that a server's disks have; ``devices``: all that are recorded."""
    local_root = instance.image_id is not None
    named = {device.device_name.removeprefix("/dev/") for device in devices}
    hardware = hardware_of(instance.image_properties, instance.flavor)
    return named | of_flavor(instance.flavor, devices, hardware, local_root=local_root)


def check_path(path: str) -> None:
    """Raise InvalidInputError for what is no name of a device."""
    if path and _PATH.fullmatch(path) is None:
        raise InvalidInputError(f"The supplied device path ({path[:64]}) is invalid.", field="device")


def choose(devices: Iterable[BlockDevice], taken: set[str], hardware: Hardware = DEFAULT) -> None:
    """Give each device that has none a name of its bus that is not ``taken``, or the one it was asked for when that is
    such a name, or ``vdX`` on another bus; ``taken`` grows.  A volume without a bus gets that of the server's disks.
    Raises TooManyDisksError.
    """
    for device in sorted(devices, key=lambda each: (not each.is_root, each.is_volume, each.position)):
        if not device.disk_bus and device.device_type in {"", "disk"} and hardware.disk_bus != DEFAULT.disk_bus:
            device.disk_bus = hardware.disk_bus
        prefix = PREFIXES.get(device.disk_bus or "virtio", "vd")
        wanted = device.device_name.removeprefix("/dev/")
        free = [f"{prefix}{letter}" for letter in ascii_lowercase if f"{prefix}{letter}" not in taken]
        if not free or len(taken) > MOST_DISKS:
            raise TooManyDisksError(
                f"The maximum allowed number of disk devices ({MOST_DISKS}) to attach to a single instance has been"
                " exceeded."
            )
        same = f"{prefix}{wanted.removeprefix('vd')}" if wanted.startswith("vd") else wanted  # on its own bus
        name = same if same in free else free[0]
        taken.add(name)
        device.device_name = f"/dev/{name}"
