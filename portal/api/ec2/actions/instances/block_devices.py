"""Block device mappings of RunInstances."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.images.shapes import root_gb
from portal.api.ec2.devices import guest_name
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from portal.api.ec2.volume_types import of_amazon, type_asked
from provisioning.compute.launch.image_disks import disks_of as disks_named_by
from provisioning.compute.launch.request import DiskRequest
from provisioning.compute.models import BlockDevice, Instance
from provisioning.ec2 import given
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use

ROOT_NAMES = frozenset({"/dev/vda", "vda", "/dev/sda1", "sda1", "/dev/sda", "/dev/xvda"})
"""Names of the root device."""
_TAKEN = frozenset({"SnapshotId", "VolumeSize", "VolumeType", "DeleteOnTermination", "Encrypted", "Iops", "Throughput"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A disk of the request, with values that only the EC2 API shows."""

    disk: DiskRequest
    name: str
    type_asked: Mapping[str, Any] | None = None
    """An AWS volume type, as returned by ``volume_types.of_amazon``."""


def disks_of(call: Call) -> tuple[Asked, ...]:
    """Return the disks. Raises Ec2Error InvalidBlockDeviceMapping for an invalid mapping.

    A mapping in the request overrides the image's mapping with the same device name.
    """
    mappings: Sequence[Mapping[str, Any]] = call.get("BlockDeviceMappings", [])
    if not mappings:
        return ()
    seen = [mapping.get("DeviceName") for mapping in mappings]
    if len(seen) != len(set(seen)):
        raise _invalid("A device name is given twice")
    image = images_of_use(call.project_id, listed=False).filter(pk=names.resource(names.IMAGE, call.get("ImageId", "")))
    own = _Image(image.first())
    dropped = {_key(mapping["DeviceName"]) for mapping in mappings if "NoDevice" in mapping and "DeviceName" in mapping}
    requested = [each for mapping in mappings if (each := _disk(call, mapping, own)) is not None]
    found = {_key(each.name): each for each in requested}
    if len(found) < len(requested):
        raise _invalid("Two device names refer to the same disk")
    if found.keys().isdisjoint(own.disks) and not dropped:
        return tuple(found.values())
    named = {key: Asked(disk, "") for key, disk in own.disks.items() if key not in dropped}
    return tuple((named | found).values())


class _Image:
    """The image of a launch and its block device mapping."""

    def __init__(self, image: Image | None) -> None:
        self.image = image
        every = disks_named_by(image.properties) if image is not None else ()
        self.disks = {("" if disk.boot_index == 0 else guest_name(disk.device_name)): disk for disk in every}
        """Device name in the guest → disk; the key of the root disk is empty."""


def _key(name: str) -> str:
    return "" if name in ROOT_NAMES else guest_name(name)


def _disk(call: Call, mapping: Mapping[str, Any], image: _Image) -> Asked | None:
    name = mapping.get("DeviceName", "")
    if "NoDevice" in mapping:
        return None
    if not name:
        raise errors.missing_parameter("BlockDeviceMapping.DeviceName")
    virtual, volume = mapping.get("VirtualName"), mapping.get("Ebs")
    if virtual and volume:
        raise _invalid(f"{name[:64]} is either a virtual device or a volume")
    if virtual:
        return Asked(_local(name, virtual), name)
    if volume is None:
        raise _invalid(f"{name[:64]} has neither Ebs nor VirtualName nor NoDevice")
    disk = _volume(call, name, volume, image)
    return Asked(disk, name, of_amazon(volume, disk.volume_type))


def _local(name: str, virtual: str) -> DiskRequest:
    number = virtual.removeprefix("ephemeral")
    if virtual.startswith("ephemeral") and number.isascii() and number.isdigit():
        return DiskRequest("blank", "local", boot_index=-1, delete_on_termination=True, device_name=guest_name(name))
    raise _invalid(f"{virtual[:64]!r} is not a virtual device")


def _volume(call: Call, name: str, volume: Mapping[str, Any], image: _Image) -> DiskRequest:
    strange = sorted(each for each, value in volume.items() if value and each not in _TAKEN)
    if strange:
        raise errors.unsupported(f"The parameter BlockDeviceMapping.Ebs.{strange[0]} is not supported by this cloud")
    if volume.get("Encrypted"):
        raise errors.unsupported("Whether a volume is encrypted follows from its type: name one that is")
    key, size, snapshot = _key(name), volume.get("VolumeSize"), volume.get("SnapshotId")
    before = image.disks.get(key)
    if size is None and not snapshot and key and before is None:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    if size is not None and size < 1:
        raise errors.invalid_value("VolumeSize", size, "It is in GiB, from 1.")
    asked_type = type_asked(call.context, volume.get("VolumeType"))
    keeps = volume.get("DeleteOnTermination")
    if before is not None and not snapshot:
        return replace(
            before,
            size=size or before.size,
            volume_type=asked_type or before.volume_type,
            delete_on_termination=before.delete_on_termination if keeps is None else keeps,
        )
    disk = DiskRequest(
        source_type="snapshot" if snapshot else "blank" if key else "image",
        destination_type="volume",
        source_id=str(names.resource(names.SNAPSHOT, snapshot)) if snapshot else None,
        boot_index=-1 if key else 0,
        size=size,
        volume_type=asked_type,
        delete_on_termination=True if keeps is None else keeps,
        device_name=key,
    )
    return disk if key or snapshot else _of_image(call, disk, image)


def _of_image(call: Call, root: DiskRequest, image: _Image) -> DiskRequest:
    """Return the root disk as a volume that is created from the image."""
    source = names.resource(names.IMAGE, call.get("ImageId", ""))
    least = root_gb(image.image) if image.image is not None else 1
    return replace(root, source_id=str(source), size=root.size or least)


def store_requested(instances: Sequence[Instance], requested: Sequence[Asked], image: uuid.UUID) -> None:
    """Store the device names of a launch, and the image of its root volumes."""
    devices: dict[uuid.UUID, list[BlockDevice]] = {}
    for device in BlockDevice.objects.filter(instance__in=instances).order_by("position") if requested else ():
        devices.setdefault(device.instance_id, []).append(device)
    for instance in instances:
        # Disks of the image come first, unless a mapping has replaced them.
        for device, each in zip(devices[instance.id][-len(requested) :], requested, strict=True) if requested else ():
            values: dict[str, Any] = {given.DEVICE: each.name} if each.name else {}
            if each.type_asked:
                values[given.VOLUME_TYPE] = each.type_asked
            given.keep(instance.project_id, device.id, values)
        if instance.image_id is None:
            given.keep(instance.project_id, instance.id, {given.IMAGE: image.hex})


def _invalid(why: str) -> Ec2Error:
    return Ec2Error("InvalidBlockDeviceMapping", why)
