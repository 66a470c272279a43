"""Device names of a guest's disks: a prefix of the bus and a letter (``vda``), unique in a server."""

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
    """Return the hardware of a server from its image properties and its copy of the flavor."""
    return lenient(properties, flavor["extra_specs"], flavor["vcpus"])


def root_device(instance: Instance) -> str:
    """Return the device path of a local root disk in the guest."""
    return f"/dev/{hardware_of(instance.image_properties, instance.flavor).root_device}"


def of_flavor(
    flavor: Mapping[str, Any], devices: Collection[BlockDevice], hardware: Hardware, *, local_root: bool
) -> set[str]:
    """Return the names of the disks that are not among ``devices``: the root disk, the flavor's ephemeral and swap
    disks, in the order in which hosts create them, and the config drive.
    """
    local = [device for device in devices if not device.is_volume]
    swap = any(device.guest_format == "swap" for device in local)
    empty = any(device.guest_format != "swap" for device in local)
    many = local_root + bool(flavor["ephemeral_gb"] and not empty) + bool(flavor["swap_mb"] and not swap)
    first = 0 if local_root else 1  # a boot volume has the first name
    prefix = PREFIXES[hardware.disk_bus]
    return {hardware.seed_device, *(f"{prefix}{letter}" for letter in ascii_lowercase[first : first + many])}


def taken(instance: Instance, devices: Collection[BlockDevice]) -> set[str]:
    """Return the device names in use in a server; ``devices`` are all its recorded disks."""
    local_root = instance.image_id is not None
    named = {device.device_name.removeprefix("/dev/") for device in devices}
    hardware = hardware_of(instance.image_properties, instance.flavor)
    return named | of_flavor(instance.flavor, devices, hardware, local_root=local_root)


def check_path(path: str) -> None:
    """Raise InvalidInputError for an invalid device path."""
    if path and _PATH.fullmatch(path) is None:
        raise InvalidInputError(f"The supplied device path ({path[:64]}) is invalid.", field="device")


def choose(devices: Iterable[BlockDevice], taken: set[str], hardware: Hardware = DEFAULT) -> None:
    """Set the name of each device: the requested one if it is free on the device's bus, otherwise the first free one.

    ``vdX`` is translated to the device's bus. Names are added to ``taken``. Volumes without a bus get the bus of the
    server's disks. Raises TooManyDisksError.
    """
    for device in sorted(devices, key=lambda each: (not each.is_root, each.is_volume, each.position)):
        if not device.disk_bus and device.device_type in {"", "disk"} and hardware.disk_bus != DEFAULT.disk_bus:
            device.disk_bus = hardware.disk_bus
        prefix = PREFIXES.get(device.disk_bus or "virtio", "vd")
        requested = device.device_name.removeprefix("/dev/")
        free = [f"{prefix}{letter}" for letter in ascii_lowercase if f"{prefix}{letter}" not in taken]
        if not free or len(taken) > MOST_DISKS:
            raise TooManyDisksError(
                f"The maximum allowed number of disk devices ({MOST_DISKS}) to attach to a single instance has been"
                " exceeded."
            )
        same = (
            f"{prefix}{requested.removeprefix('vd')}" if requested.startswith("vd") else requested
        )  # on the device's bus
        name = same if same in free else free[0]
        taken.add(name)
        device.device_name = f"/dev/{name}"
