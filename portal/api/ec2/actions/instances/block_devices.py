"""Disks that RunInstances asks for."""

from collections.abc import Mapping
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.devices import guest_name
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from portal.api.ec2.volume_types import type_asked
from provisioning.compute.launch.request import DiskRequest

ROOT_NAMES = frozenset({"/dev/vda", "vda", "/dev/sda1", "sda1", "/dev/sda", "/dev/xvda"})
"""What clients call the disk that an instance boots from."""
_TAKEN = frozenset({"SnapshotId", "VolumeSize", "VolumeType", "DeleteOnTermination", "Encrypted"})


def disks_of(call: Call) -> tuple[DiskRequest, ...]:
    """Return the disks; Ec2Error InvalidBlockDeviceMapping for what cannot be."""
    found = [disk for mapping in call.get("BlockDeviceMappings", []) if (disk := _disk(call, mapping)) is not None]
    seen = [mapping.get("DeviceName") for mapping in call.get("BlockDeviceMappings", [])]
    if len(seen) != len(set(seen)):
        raise _invalid("A device name is given twice")
    roots = [disk for disk in found if disk.boot_index == 0]
    return tuple(_of_image(call, disk) if disk in roots and not disk.source_id else disk for disk in found)


def _disk(call: Call, mapping: Mapping[str, Any]) -> DiskRequest | None:
    name = mapping.get("DeviceName", "")
    if "NoDevice" in mapping:
        return None
    if not name:
        raise errors.missing_parameter("BlockDeviceMapping.DeviceName")
    virtual, volume = mapping.get("VirtualName"), mapping.get("Ebs")
    if virtual and volume:
        raise _invalid(f"{name[:64]} is either a virtual device or a volume")
    if virtual:
        return _local(name, virtual)
    if volume is None:
        raise _invalid(f"{name[:64]} has neither Ebs nor VirtualName nor NoDevice")
    return _volume(call, name, volume)


def _local(name: str, virtual: str) -> DiskRequest | None:
    number = virtual.removeprefix("ephemeral")
    if virtual.startswith("ephemeral") and number.isascii() and number.isdigit():
        return DiskRequest("blank", "local", boot_index=-1, delete_on_termination=True, device_name=guest_name(name))
    raise _invalid(f"{virtual[:64]!r} is no virtual device")


def _volume(call: Call, name: str, volume: Mapping[str, Any]) -> DiskRequest:
    strange = sorted(each for each, value in volume.items() if value and each not in _TAKEN)
    if strange:
        raise errors.unsupported(f"The parameter BlockDeviceMapping.Ebs.{strange[0]} is not supported by this cloud")
    if volume.get("Encrypted"):
        raise errors.unsupported("Whether a volume is encrypted follows from its type: name one that is")
    root, size, snapshot = name in ROOT_NAMES, volume.get("VolumeSize"), volume.get("SnapshotId")
    if size is None and not snapshot and not root:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    if size is not None and size < 1:
        raise errors.invalid_value("VolumeSize", size, "It is in GiB, from 1.")
    return DiskRequest(
        source_type="snapshot" if snapshot else "blank",
        destination_type="volume",
        source_id=str(names.resource(names.SNAPSHOT, snapshot)) if snapshot else None,
        boot_index=0 if root else -1,
        size=size,
        volume_type=type_asked(call.context, volume.get("VolumeType")),
        delete_on_termination=volume.get("DeleteOnTermination", True),
        device_name="" if root else guest_name(name),
    )


def _of_image(call: Call, root: DiskRequest) -> DiskRequest:
    """Return the root disk as a volume that is made of the image."""
    image = names.resource(names.IMAGE, call.get("ImageId", ""))
    size = root.size
    if size is None:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    return DiskRequest(
        source_type="image",
        destination_type="volume",
        source_id=str(image),
        boot_index=0,
        size=size,
        volume_type=root.volume_type,
        delete_on_termination=root.delete_on_termination,
    )


def _invalid(why: str) -> Ec2Error:
    return Ec2Error("InvalidBlockDeviceMapping", why)
