"""Disks in ``POST /servers``: converts both forms of block device mapping into disk requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.api.compute.dialect.schemas import boolean
from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import DiskRequest

FIELD, OLD_FIELD = "block_device_mapping_v2", "block_device_mapping"


def read_devices(server: Mapping[str, Any]) -> tuple[str, tuple[DiskRequest, ...]]:
    """Return the id in ``imageRef`` (empty without an image) and the disks of either form of block device mapping.

    Raises InvalidInputError.
    """
    old: Sequence[Mapping[str, Any]] = server.get(OLD_FIELD, ())
    new: Sequence[Mapping[str, Any]] = server.get(FIELD, ())
    if old and new:
        raise InvalidInputError(
            "Using different block_device_mapping syntaxes is not allowed in the same request.", field=FIELD
        )
    image = tail(server.get("imageRef", ""))
    disks = _old(old, image) if old else tuple(_new(device, image) for device in new if "no_device" not in device)
    local = [disk for disk in disks if (disk.source_type, disk.destination_type) == ("image", "local")]
    if not local:
        return image, disks
    if len([disk for disk in disks if disk.boot_index == 0]) > 1:
        raise _invalid("Boot sequence for the instance and image/block device mapping combination is not valid.")
    if image and image != local[0].source_id:
        raise InvalidInputError(f"imageRef and the boot device of {FIELD} name different images.", field="imageRef")
    return local[0].source_id or "", tuple(disk for disk in disks if disk is not local[0])


def tail(reference: str) -> str:
    """Return an id, or the last part of a link to the resource, as the reference allows."""
    return reference.rstrip("/").rsplit("/", 1)[-1]


def _old(devices: Sequence[Mapping[str, Any]], image: str) -> tuple[DiskRequest, ...]:
    """Read the legacy form; without an image the server boots from the first volume or snapshot."""
    found = [disk for device in devices if (disk := _old_disk(device)) is not None]
    boots = None if image else next((disk for disk in found if disk["source_type"] != "blank"), None)
    return tuple(DiskRequest(**disk, boot_index=0 if disk is boots else -1) for disk in found)


def _old_disk(device: Mapping[str, Any]) -> dict[str, Any] | None:
    values = {
        "size": int(device["volume_size"]) if device.get("volume_size") not in (None, "") else None,
        "delete_on_termination": boolean(device.get("delete_on_termination", False)),
        "device_name": device.get("device_name") or "",
    }
    if "no_device" in device:
        return None
    for kind in ("snapshot", "volume"):
        if device.get(f"{kind}_id"):
            return values | {"source_type": kind, "destination_type": "volume", "source_id": device[f"{kind}_id"]}
    name = str(device.get("virtual_name", ""))
    if name in {"", "ami", "root"}:
        return None
    empty = values | {"source_type": "blank", "destination_type": "local", "delete_on_termination": True}
    if name == "swap":
        return empty | {"guest_format": "swap"}
    if name.startswith("ephemeral") and name.removeprefix("ephemeral").isdigit():
        return empty
    raise _invalid(f"{name[:64]!r} is not a virtual device.", OLD_FIELD)


def _new(device: Mapping[str, Any], image: str) -> DiskRequest:
    source = device.get("source_type") or next(
        (kind for kind in ("volume", "snapshot", "image") if device.get(f"{kind}_id")), "blank"
    )
    named = device.get("uuid") or device.get(f"{source}_id")
    target = device.get("destination_type") or ("local" if source == "blank" else "volume")
    index = int(device["boot_index"]) if device.get("boot_index") not in (None, "") else None
    volume_type = device.get("volume_type") or ""
    if source == "blank" and named:
        raise _invalid("Invalid device UUID.")
    if source != "blank" and not named:
        raise _invalid("Missing device UUID.")
    if (source, target) == ("image", "local") and index != 0:
        raise _invalid("Mapping image to local is not supported.")
    if source in {"volume", "snapshot"} and target == "local":
        raise _invalid(f"Mapping {source} to local is not supported.")
    if target == "local" and volume_type:
        raise _invalid("Specifying a volume_type with destination_type=local is not supported.")
    if source == "volume" and volume_type:
        raise _invalid("Specifying volume type to existing volume is not supported.")
    return DiskRequest(
        source_type=source,
        destination_type=target,
        source_id=named,
        boot_index=index,
        size=int(device["volume_size"]) if device.get("volume_size") not in (None, "") else None,
        volume_type=volume_type,
        delete_on_termination=boolean(device.get("delete_on_termination", target == "local")),
        device_name=device.get("device_name") or "",
        disk_bus=device.get("disk_bus") or "",
        device_type=device.get("device_type") or "",
        guest_format=device.get("guest_format") or "",
        tag=device.get("tag") or "",
    )


def _invalid(sentence: str, field: str = FIELD) -> InvalidInputError:
    return InvalidInputError(f"Block Device Mapping is Invalid: {sentence}", field=field)
