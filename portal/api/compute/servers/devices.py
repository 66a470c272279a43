"""Disks that ``POST /servers`` asks for: the image of the one boot disk, and the empty disks that the flavor gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import LocalDisk

FIELD = "block_device_mapping_v2"
BOOT_SEQUENCE = "Boot sequence for the instance and image/block device mapping combination is not valid."


@dataclass(frozen=True, slots=True)
class Devices:
    """What a request says about disks: the image to boot from (empty: none) and the empty local disks."""

    image: str = ""
    local: tuple[LocalDisk, ...] = ()


def read_devices(server: Mapping[str, Any]) -> Devices:
    """Read either form of block device mapping.  Raises InvalidInputError for what needs a volume."""
    old: Sequence[Mapping[str, Any]] = server.get("block_device_mapping", ())
    new: Sequence[Mapping[str, Any]] = server.get(FIELD, ())
    if old and new:
        raise InvalidInputError(
            "Using different block_device_mapping syntaxes is not allowed in the same request.", field=FIELD
        )
    image = tail(server.get("imageRef", ""))
    if old:
        return Devices(image, tuple(disk for device in old if (disk := _old_disk(device)) is not None))
    return _new(new, image)


def tail(reference: str) -> str:
    """Return an id, or the last part of a link to the resource, as the reference allows."""
    return reference.rstrip("/").rsplit("/", 1)[-1]


def _old_disk(device: Mapping[str, Any]) -> LocalDisk | None:
    for kind in ("volume", "snapshot"):
        if f"{kind}_id" in device:
            raise _invalid(f"failed to get {kind} {device[f'{kind}_id']}.", "block_device_mapping")
    name = str(device.get("virtual_name", ""))
    if "no_device" in device or name in {"", "ami", "root"}:
        return None
    if name == "swap":
        return LocalDisk(swap=True)
    if name.startswith("ephemeral") and name.removeprefix("ephemeral").isdigit():
        return LocalDisk()
    raise _invalid(f"{name[:64]!r} is no virtual device.", "block_device_mapping")


def _new(devices: Sequence[Mapping[str, Any]], image: str) -> Devices:
    local, booted = [], []
    used = [device for device in devices if "no_device" not in device]
    for device in used:
        _check(device)
        if device.get("source_type") == "image":
            booted.append(str(device["uuid"]))
        else:
            size = int(device["volume_size"]) if "volume_size" in device else None
            local.append(LocalDisk(swap=device.get("guest_format") == "swap", size=size))
    if used and len(booted) != 1:
        raise _invalid(BOOT_SEQUENCE)
    if booted and image and image != booted[0]:
        raise InvalidInputError(f"imageRef and the boot device of {FIELD} name different images.", field="imageRef")
    return Devices(booted[0] if booted else image, tuple(local))


def _check(device: Mapping[str, Any]) -> None:
    source, named = device.get("source_type"), device.get("uuid")
    target = device.get("destination_type", "local" if source == "blank" else "volume")
    boots = device.get("boot_index") is not None and int(device["boot_index"]) >= 0
    if source == "blank" and named:
        raise _invalid("Invalid device UUID.")
    if source != "blank" and not named:
        raise _invalid("Missing device UUID.")
    if source in {"volume", "snapshot"}:
        raise _invalid(f"failed to get {source} {named}.")
    if target != "local":
        raise _invalid("failed to create a volume: this cloud has no volume service. Use destination_type local.")
    if source == "image" and (not boots or int(device["boot_index"]) != 0):
        raise _invalid("Mapping image to local is not supported.")
    if source == "blank" and boots:
        raise _invalid(BOOT_SEQUENCE)
    if "tag" in device:
        raise _invalid("tags of disks are not offered; tags of networks are.")


def _invalid(sentence: str, field: str = FIELD) -> InvalidInputError:
    return InvalidInputError(f"Block Device Mapping is Invalid: {sentence}", field=field)
