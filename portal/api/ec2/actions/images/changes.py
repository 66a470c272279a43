"""CreateImage, RegisterImage, DeregisterImage, the actions that disable, enable and protect images, and their
attributes: DescribeImageAttribute, ModifyImageAttribute and ResetImageAttribute.
"""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from portal.api.ec2.actions.images import describe
from portal.api.ec2.actions.images.describe import ARCHITECTURES, ROOT, image_of, own_image_of
from portal.api.ec2.actions.volumes.changes import instance_of, snapshot_of
from portal.api.ec2.frame import Arguments, Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.launch import registered_images
from provisioning.ec2 import client_tokens
from provisioning.identity import policy
from provisioning.images import services
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.images.selectors.access import FOR_ALL
from provisioning.images.selectors.members import known_members
from provisioning.volumes.models import Snapshot
from provisioning.volumes.services import DeleteSnapshot, Deletion

ATTRIBUTE_KIND = names.IMAGE
_NEVER = {
    "kernel": "KernelId",
    "ramdisk": "RamdiskId",
    "sriovNetSupport": "SriovNetSupport",
    "tpmSupport": "TpmSupport",
    "uefiData": "UefiData",
    "lastLaunchedTime": "LastLaunchedTime",
    "imdsSupport": "ImdsSupport",
}
"""Attribute that no image has → its member in responses."""
OF_PERMISSION = frozenset({"Group", "UserId"})
Permissions = list[Mapping[str, str]]


@action("DescribeImageAttribute", "get_image", "get_members", takes="ImageId Attribute", missing=ATTRIBUTE_KIND.missing)
def describe_attribute(call: Call) -> Shape:
    """Show one attribute; launch permissions and protection are shown only to the owner."""
    ec2_id, attribute = call.arguments["ImageId"], call.arguments["Attribute"]
    image = image_of(call, ec2_id)
    value: Shape
    if attribute in _NEVER:
        value = {_NEVER[attribute]: {}}
    elif attribute == "description":
        value = {"Description": {"Value": image.properties.get("description", "")}}
    elif attribute == "blockDeviceMapping":
        value = {
            "BlockDeviceMappings": describe.mappings(
                image, registered_images.disks_named_by(image), describe.related(call, [image])
            )
        }
    elif attribute == "bootMode":
        value = {"BootMode": {"Value": "legacy-bios"}}
    elif attribute == "productCodes":
        value = {"ProductCodes": []}
    else:
        value = _of_owner(call, own_image_of(call, ec2_id), attribute)
    return {"ImageId": ec2_id, **value}


def _of_owner(call: Call, image: Image, attribute: str) -> Shape:
    if attribute == "deregistrationProtection":
        return {"DeregistrationProtection": {"Value": describe.protection_of(image)}}
    permissions: list[dict[str, str]] = [{"Group": "all"}] if image.visibility in FOR_ALL else []
    if image.visibility == Image.Visibility.SHARED:
        members = known_members(call.context, image).order_by("created_at", "id")
        permissions += [{"UserId": each.project_id.hex} for each in members]
    return {"LaunchPermissions": permissions}


@action(
    "ModifyImageAttribute",
    "modify_image",
    "add_member",
    "delete_member",
    takes="ImageId Attribute Description Value LaunchPermission OperationType UserGroups UserIds",
    missing=ATTRIBUTE_KIND.missing,
)
def modify_attribute(call: Call) -> Shape:
    """Update the description, or the launch permissions of all projects or of single projects."""
    image = own_image_of(call, call.arguments["ImageId"])
    named = {name for name in ("Description", "LaunchPermission") if name in call.arguments}
    attribute = call.get("Attribute")
    if attribute is not None:
        if attribute not in {"description", "launchPermission"}:
            raise errors.invalid_value("attribute", attribute, "It must be description or launchPermission.")
        named.add(f"{attribute[0].upper()}{attribute[1:]}")
    if len(named) != 1:
        raise errors.combination("One attribute is modified at a time: Description or LaunchPermission")
    if named == {"Description"}:
        _describe(call, image)
    else:
        _permit(call, image)
    return {}


def _describe(call: Call, image: Image) -> None:
    text = call.get("Description", {}).get("Value", call.get("Value"))
    if text is None:
        raise errors.missing_parameter("Description.Value")
    others = {name: value for name, value in image.properties.items() if name != "description"}
    properties = {**others, "description": text} if text else others
    services.update(call.context, image.id, {"properties": properties})


def _permit(call: Call, image: Image) -> None:
    added, removed = _permissions(call)
    add, remove = _projects(added), _projects(removed)
    for_all = True if _is_public(added) else False if _is_public(removed) else None
    try:
        services.change_permissions(call.context, image.id, add=add, remove=remove, for_all=for_all)
    except InvalidInputError as error:
        if error.field == "member":
            raise Ec2Error("InvalidAMIAttributeItemValue", error.message) from error
        raise errors.unsupported(error.message) from error


def _permissions(call: Call) -> tuple[Permissions, Permissions]:
    """Return the permissions to add and to remove, in either form of the request. Raises Ec2Error."""
    specified = call.get("LaunchPermission", {})
    added, removed = list(specified.get("Add", [])), list(specified.get("Remove", []))
    old = [{"Group": each} for each in call.get("UserGroups", [])]
    old += [{"UserId": each} for each in call.get("UserIds", [])]
    if old:
        if "OperationType" not in call.arguments:
            raise errors.missing_parameter("OperationType")
        (added if call.arguments["OperationType"] == "add" else removed).extend(old)
    for each in (*added, *removed):
        if len(each) != 1 or not each.keys() <= OF_PERMISSION:
            raise errors.unsupported("Images are shared with all projects (Group all) or with single projects (UserId)")
        if each.get("Group", "all") != "all":
            raise Ec2Error("InvalidAMIAttributeItemValue", f"Invalid attribute item value '{each['Group'][:64]}'")
    if not added and not removed:
        raise errors.missing_parameter("LaunchPermission")
    return added, removed


def _is_public(permissions: Permissions) -> bool:
    return any("Group" in each for each in permissions)


def _projects(permissions: Iterable[Mapping[str, str]]) -> set[uuid.UUID]:
    """Return the projects in the permissions. Raises Ec2Error for an invalid project id."""
    result = set()
    for each in permissions:
        if "UserId" in each:
            project = read_id(each["UserId"])
            if project is None:
                why = f"Invalid attribute item value '{each['UserId'][:64]}' for userId: it is the id of a project"
                raise Ec2Error("InvalidAMIAttributeItemValue", why)
            result.add(project)
    return result


@action(
    "ResetImageAttribute", "modify_image", "delete_member", takes="ImageId Attribute", missing=ATTRIBUTE_KIND.missing
)
def reset_attribute(call: Call) -> Shape:
    """Restrict an image to its own project."""
    services.reset_permissions(call.context, own_image_of(call, call.arguments["ImageId"]).id)
    return {}


KIND = names.IMAGE
_NAME = re.compile(r"[A-Za-z0-9()\[\] ./'@_-]{3,128}", re.ASCII)
LONGEST_DESCRIPTION = 255
OF_DISK = frozenset({"SnapshotId", "VolumeSize", "VolumeType", "DeleteOnTermination"})


@action(
    "CreateImage",
    "os_compute_api:servers:create_image",
    takes="InstanceId Name Description TagSpecifications",
    ignored="NoReboot",
    missing=names.INSTANCE.missing,
    whole=False,
)
def create(call: Call) -> Shape:
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
        tags.write(call, names.SNAPSHOT, list(registered_images.snapshots_of(call.context, image)), specified)
    return {"ImageId": KIND.id_of(key)}


@action(
    "RegisterImage",
    "add_image",
    "upload_image",
    "volume:update",
    takes="Name Description Architecture RootDeviceName BlockDeviceMappings VirtualizationType BootMode ImageLocation "
    "TagSpecifications",
    ignored="EnaSupport SriovNetSupport",
    missing=names.SNAPSHOT.missing,
    whole=False,
)
def register(call: Call) -> Shape:
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
            raise errors.unsupported(f"This cloud does not support guests of the architecture {architecture}")
        properties["hw_architecture"] = ARCHITECTURES[architecture]
    disks = _disks(call)
    with _named_alone(call, name):
        image = registered_images.register_image(call.context, registered_images.NewImage(name, disks, properties))
    tags.write(call, KIND, [image.id], specified)
    return {"ImageId": KIND.id_of(image.id)}


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
        used = f"AMI name {name} is already in use by AMI {KIND.id_of(same.id)}"
        raise Ec2Error("InvalidAMIName.Duplicate", used)


@contextmanager
def _named_alone(call: Call, name: str) -> Iterator[None]:
    """Ensure that an image name is unique. Raises Ec2Error if an image, also one that is still being created, has the
    name.
    """
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


def _disks(call: Call) -> list[registered_images.ImageDisk]:
    specified = [each for each in call.get("BlockDeviceMappings", []) if "NoDevice" not in each]
    if not specified:
        raise errors.missing_parameter("BlockDeviceMapping")
    root = names.guest_name(call.get("RootDeviceName", specified[0].get("DeviceName", ROOT)))
    disks = [_disk(call, each, root) for each in specified]
    if len({disk.device_name for disk in disks}) < len(disks):
        raise _invalid("A device name is given twice")
    if not any(disk.is_root and disk.snapshot_id for disk in disks):
        raise _invalid(f"The root device {root[:64]} must be mapped to a snapshot")
    return disks


def _disk(call: Call, mapping: Arguments, root: str) -> registered_images.ImageDisk:
    name, volume = names.guest_name(mapping.get("DeviceName", "")), mapping.get("Ebs")
    if not names.is_guest_name(name) or volume is None:
        raise _invalid("Each mapping has a device name and a volume (Ebs)")
    strange = sorted(each for each, value in volume.items() if value and each not in OF_DISK)
    if strange:
        raise errors.unsupported(f"The parameter BlockDeviceMapping.Ebs.{strange[0]} is not supported by this cloud")
    snapshot, size = volume.get("SnapshotId"), volume.get("VolumeSize")
    if size is None and not snapshot:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    if size is not None and size < 1:
        raise errors.invalid_value("VolumeSize", size, "It must be at least 1 (GiB).")
    return registered_images.ImageDisk(
        device_name=name,
        snapshot_id=snapshot_of(call, snapshot).id if snapshot else None,
        size_gb=size,
        volume_type=names.requested_type(call.context, volume.get("VolumeType")),
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
def deregister(call: Call) -> Shape:
    """Deregister an image. ``DeleteAssociatedSnapshots`` also deletes the image's snapshots, except those that other
    images use.
    """
    image = own_image_of(call, call.arguments["ImageId"])
    if image.protected:
        raise Ec2Error("OperationNotPermitted", "The image is protected: disable deregistration protection first")
    snapshots = registered_images.snapshots_of(call.context, [image])
    services.delete(call.context, image.id)
    results = None
    if call.get("DeleteAssociatedSnapshots", False):
        ec2_ids = names.SNAPSHOT.ids_of(snapshots)
        results = [
            {"SnapshotId": ec2_ids[key], "ReturnCode": _deleted(call, snapshot)} for key, snapshot in snapshots.items()
        ]
    return {"Return": True, "DeleteSnapshotResults": results}


def _deleted(call: Call, snapshot: Snapshot) -> str:
    """Delete a snapshot of a deregistered image; return EC2's result code."""
    if registered_images.images_naming(call.project_id, snapshot.id):
        return "skipped"
    if not policy.allows(call.context, DeleteSnapshot.rule):
        return "missing-permissions"
    try:
        DeleteSnapshot.begin(call.context, snapshot.id, Deletion())
    except NovellaError:
        return "client-error"
    return "success"


@action("DisableImage", "deactivate", "modify_image", "delete_member", takes="ImageId", missing=KIND.missing)
def disable(call: Call) -> Shape:
    """Disable an image: no instance can be launched from it, and it is no longer shared."""
    image = own_image_of(call, call.arguments["ImageId"])
    _check_has_data(image)
    services.reset_permissions(call.context, image.id)
    services.deactivate(call.context, image.id)
    return {"Return": True}


@action("EnableImage", "reactivate", takes="ImageId", missing=KIND.missing)
def enable(call: Call) -> Shape:
    """Enable an image; previous shares are not restored."""
    image = own_image_of(call, call.arguments["ImageId"])
    _check_has_data(image)
    services.reactivate(call.context, image.id)
    return {"Return": True}


def _check_has_data(image: Image) -> None:
    if image.status not in (Image.Status.ACTIVE, Image.Status.DEACTIVATED):
        raise Ec2Error("InvalidAMIID.Unavailable", "The image has no data yet")


@action("EnableImageDeregistrationProtection", "modify_image", takes="ImageId", missing=KIND.missing)
def protect(call: Call) -> Shape:
    """Protect an image from deregistration."""
    services.update(call.context, own_image_of(call, call.arguments["ImageId"]).id, {"protected": True})
    return {"Return": "true"}


@action("DisableImageDeregistrationProtection", "modify_image", takes="ImageId", missing=KIND.missing)
def unprotect(call: Call) -> Shape:
    """Allow an image to be deregistered again."""
    services.update(call.context, own_image_of(call, call.arguments["ImageId"]).id, {"protected": False})
    return {"Return": "true"}
