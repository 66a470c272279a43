"""CreateImage, RegisterImage, DeregisterImage, and the actions that disable, enable and protect images."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.images.shapes import ARCHITECTURES, ROOT, own_image_of
from portal.api.ec2.actions.volumes.shapes import instance_of, snapshot_of
from portal.api.ec2.devices import guest_name, is_guest_name
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from portal.api.ec2.volume_types import type_asked
from provisioning.common.errors import NovellaError
from provisioning.common.values.ids import NOBODY
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.launch.registered_images import (
    ImageDisk,
    NewImage,
    images_naming,
    register_image,
    snapshots_of,
)
from provisioning.ec2 import client_tokens, ids
from provisioning.identity import policy
from provisioning.images import services
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.volumes.models import Snapshot
from provisioning.volumes.services import DeleteSnapshot, Deletion

KIND = names.IMAGE
_NAME = re.compile(r"[A-Za-z0-9()\[\] ./'@_-]{3,128}", re.ASCII)
LONGEST_DESCRIPTION = 255
OF_DISK = frozenset({"SnapshotId", "VolumeSize", "VolumeType", "DeleteOnTermination"})


@action(
    "CreateImage",
    "os_compute_api:servers:create_image",
    takes="InstanceId Name Description TagSpecifications",
    passes_over="NoReboot",
    missing=names.INSTANCE.missing,
    whole=False,
)
def create(call: Call) -> dict[str, Any]:
    """Create an image of an instance, which keeps running. If the instance boots from a volume, the image consists of
    snapshots of its volumes.
    """
    specified = tags.specified(call, KIND, [names.SNAPSHOT])
    name, properties = _name(call), _description(call)
    instance = instance_of(call, call.arguments["InstanceId"])
    with _named_alone(call, name):
        key = create_image(call.context, instance.id, name, properties or None)
    tags.write(call, KIND, [key], specified)
    if names.SNAPSHOT.resource_type in specified:
        image = images_of_use(call.project_id, listed=False).filter(pk=key)
        tags.write(call, names.SNAPSHOT, list(snapshots_of(call.context, image)), specified)
    return {"ImageId": ids.id_of(KIND.prefix, key)}


@action(
    "RegisterImage",
    "add_image",
    "upload_image",
    "volume:update",
    takes="Name Description Architecture RootDeviceName BlockDeviceMappings VirtualizationType BootMode ImageLocation "
    "TagSpecifications",
    passes_over="EnaSupport SriovNetSupport",
    missing=names.SNAPSHOT.missing,
    whole=False,
)
def register(call: Call) -> dict[str, Any]:
    """Create an image from a snapshot; its instances boot from a volume created from the snapshot."""
    if call.get("ImageLocation"):
        raise errors.unsupported("There is no object storage to read an image from: upload it by the Image API")
    for parameter, only in (("VirtualizationType", "hvm"), ("BootMode", "legacy-bios")):
        if call.get(parameter, only) != only:
            raise errors.unsupported(f"{parameter} is {only} in this cloud")
    specified = tags.specified(call, KIND)
    name, properties = _name(call), _description(call)
    architecture = call.get("Architecture")
    if architecture is not None:
        if architecture not in ARCHITECTURES:
            raise errors.unsupported(
                f"This cloud does not support guests of the architecture {architecture} in this cloud"
            )
        properties["hw_architecture"] = ARCHITECTURES[architecture]
    disks = _disks(call)
    with _named_alone(call, name):
        image = register_image(call.context, NewImage(name, disks, properties))
    tags.write(call, KIND, [image.id], specified)
    return {"ImageId": ids.id_of(KIND.prefix, image.id)}


def _name(call: Call) -> str:
    """Return the name of the new image. Raises Ec2Error."""
    name: str = call.arguments["Name"]
    if not _NAME.fullmatch(name):
        why = "AMI names have 3 to 128 letters, digits, blanks and characters of ( ) [ ] . / - ' @ _"
        raise Ec2Error("InvalidAMIName.Malformed", why)
    _check_unused(call, name)
    return name


def _check_unused(call: Call, name: str) -> None:
    same = images_of_use(call.project_id, listed=False).filter(project_id=call.project_id, name=name).first()
    if same is not None:
        used = f"AMI name {name} is already in use by AMI {ids.id_of(KIND.prefix, same.id)}"
        raise Ec2Error("InvalidAMIName.Duplicate", used)


@contextmanager
def _named_alone(call: Call, name: str) -> Iterator[None]:
    """Ensure that an image name is unique. Raises Ec2Error if an image has the name, or is being created with it."""
    with client_tokens.alone(client_tokens.Owner(call.project_id, NOBODY, "AMI name"), name) as first:
        if not first:
            raise Ec2Error("InvalidAMIName.Duplicate", f"AMI name {name} is already in use")
        _check_unused(call, name)
        yield


def _description(call: Call) -> dict[str, str]:
    text = call.get("Description", "")
    if len(text) > LONGEST_DESCRIPTION:
        raise errors.invalid_value("Description", text, f"It has {LONGEST_DESCRIPTION} characters at most.")
    return {"description": text} if text else {}


def _disks(call: Call) -> list[ImageDisk]:
    specified = [each for each in call.get("BlockDeviceMappings", []) if "NoDevice" not in each]
    if not specified:
        raise errors.missing_parameter("BlockDeviceMapping")
    root = guest_name(call.get("RootDeviceName", specified[0].get("DeviceName", ROOT)))
    disks = [_disk(call, each, root) for each in specified]
    if len({disk.device_name for disk in disks}) < len(disks):
        raise _invalid("A device name is given twice")
    if not any(disk.is_root and disk.snapshot_id for disk in disks):
        raise _invalid(f"The root device {root[:64]} must be mapped to a snapshot")
    return disks


def _disk(call: Call, mapping: Mapping[str, Any], root: str) -> ImageDisk:
    name, volume = guest_name(mapping.get("DeviceName", "")), mapping.get("Ebs")
    if not is_guest_name(name) or volume is None:
        raise _invalid("Each mapping has a device name and a volume (Ebs)")
    strange = sorted(each for each, value in volume.items() if value and each not in OF_DISK)
    if strange:
        raise errors.unsupported(f"The parameter BlockDeviceMapping.Ebs.{strange[0]} is not supported by this cloud")
    snapshot, size = volume.get("SnapshotId"), volume.get("VolumeSize")
    if size is None and not snapshot:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    if size is not None and size < 1:
        raise errors.invalid_value("VolumeSize", size, "It is in GiB, from 1.")
    return ImageDisk(
        device_name=name,
        snapshot_id=snapshot_of(call, snapshot).id if snapshot else None,
        size_gb=size,
        volume_type=type_asked(call.context, volume.get("VolumeType")),
        delete_on_termination=volume.get("DeleteOnTermination", True),
        is_root=name == root,
    )


def _invalid(why: str) -> Ec2Error:
    return Ec2Error("InvalidBlockDeviceMapping", why)


@action(
    "DeregisterImage",
    "delete_image",
    takes="ImageId DeleteAssociatedSnapshots",
    missing=KIND.missing,
    conflict="OperationNotPermitted",
)
def deregister(call: Call) -> dict[str, Any]:
    """Deregister an image. ``DeleteAssociatedSnapshots`` also deletes the image's snapshots, except those that other
    images use.
    """
    image = own_image_of(call, call.arguments["ImageId"])
    if image.protected:
        raise Ec2Error("OperationNotPermitted", "The image is protected: disable deregistration protection first")
    snapshots = snapshots_of(call.context, [image])
    services.delete(call.context, image.id)
    results = None
    if call.get("DeleteAssociatedSnapshots", False):
        known = ids.ids_of(names.SNAPSHOT.prefix, snapshots)
        results = [
            {"SnapshotId": known[key], "ReturnCode": _deleted(call, snapshot)} for key, snapshot in snapshots.items()
        ]
    return {"Return": True, "DeleteSnapshotResults": results}


def _deleted(call: Call, snapshot: Snapshot) -> str:
    """Delete a snapshot of a deregistered image; return EC2's result code."""
    if images_naming(call.project_id, snapshot.id):
        return "skipped"
    if not policy.allows(call.context, DeleteSnapshot.rule):
        return "missing-permissions"
    try:
        DeleteSnapshot.begin(call.context, snapshot.id, Deletion())
    except NovellaError:
        return "client-error"
    return "success"


@action("DisableImage", "deactivate", "modify_image", "delete_member", takes="ImageId", missing=KIND.missing)
def disable(call: Call) -> dict[str, Any]:
    """Disable an image: no instance can be launched from it, and it is no longer shared."""
    image = own_image_of(call, call.arguments["ImageId"])
    _check_has_data(image)
    services.reset_permissions(call.context, image.id)
    services.deactivate(call.context, image.id)
    return {"Return": True}


@action("EnableImage", "reactivate", takes="ImageId", missing=KIND.missing)
def enable(call: Call) -> dict[str, Any]:
    """Enable an image; previous shares are not restored."""
    image = own_image_of(call, call.arguments["ImageId"])
    _check_has_data(image)
    services.reactivate(call.context, image.id)
    return {"Return": True}


def _check_has_data(image: Image) -> None:
    if image.status not in (Image.Status.ACTIVE, Image.Status.DEACTIVATED):
        raise Ec2Error("InvalidAMIID.Unavailable", "The image has no data yet")


@action("EnableImageDeregistrationProtection", "modify_image", takes="ImageId", missing=KIND.missing)
def protect(call: Call) -> dict[str, Any]:
    """Protect an image from deregistration."""
    services.update(call.context, own_image_of(call, call.arguments["ImageId"]).id, {"protected": True})
    return {"Return": "true"}


@action("DisableImageDeregistrationProtection", "modify_image", takes="ImageId", missing=KIND.missing)
def unprotect(call: Call) -> dict[str, Any]:
    """Allow an image to be deregistered again."""
    services.update(call.context, own_image_of(call, call.arguments["ImageId"]).id, {"protected": False})
    return {"Return": "true"}
