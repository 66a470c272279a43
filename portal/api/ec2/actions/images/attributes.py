"""DescribeImageAttribute, ModifyImageAttribute and ResetImageAttribute."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.images import shapes
from portal.api.ec2.actions.images.shapes import image_of, own_image_of
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.compute.launch.registered_images import disks_named_by
from provisioning.images import services
from provisioning.images.models import Image
from provisioning.images.selectors.access import FOR_ALL
from provisioning.images.selectors.members import known_members

KIND = names.IMAGE
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


@action("DescribeImageAttribute", "get_image", "get_members", takes="ImageId Attribute", missing=KIND.missing)
def describe_attribute(call: Call) -> dict[str, Any]:
    """Show one attribute; launch permissions and protection are shown only to the owner."""
    ec2_id, attribute = call.arguments["ImageId"], call.arguments["Attribute"]
    image = image_of(call, ec2_id)
    value: dict[str, Any]
    if attribute in _NEVER:
        value = {_NEVER[attribute]: {}}
    elif attribute == "description":
        value = {"Description": {"Value": image.properties.get("description", "")}}
    elif attribute == "blockDeviceMapping":
        value = {"BlockDeviceMappings": shapes.mappings(image, disks_named_by(image), shapes.related(call, [image]))}
    elif attribute == "bootMode":
        value = {"BootMode": {"Value": "legacy-bios"}}
    elif attribute == "productCodes":
        value = {"ProductCodes": []}
    else:
        value = _of_owner(call, own_image_of(call, ec2_id), attribute)
    return {"ImageId": ec2_id, **value}


def _of_owner(call: Call, image: Image, attribute: str) -> dict[str, Any]:
    if attribute == "deregistrationProtection":
        return {"DeregistrationProtection": {"Value": shapes.protection_of(image)}}
    found: list[dict[str, str]] = [{"Group": "all"}] if image.visibility in FOR_ALL else []
    if image.visibility == Image.Visibility.SHARED:
        members = known_members(call.context, image).order_by("created_at", "id")
        found += [{"UserId": each.project_id.hex} for each in members]
    return {"LaunchPermissions": found}


@action(
    "ModifyImageAttribute",
    "modify_image",
    "add_member",
    "delete_member",
    takes="ImageId Attribute Description Value LaunchPermission OperationType UserGroups UserIds",
    missing=KIND.missing,
)
def modify_attribute(call: Call) -> dict[str, Any]:
    """Update the description, or the launch permissions of all projects or of single projects."""
    image = own_image_of(call, call.arguments["ImageId"])
    named = {name for name in ("Description", "LaunchPermission") if name in call.arguments}
    attribute = call.get("Attribute")
    if attribute is not None:
        if attribute not in {"description", "launchPermission"}:
            raise errors.invalid_value("attribute", attribute, "It is description or launchPermission.")
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


@action("ResetImageAttribute", "modify_image", "delete_member", takes="ImageId Attribute", missing=KIND.missing)
def reset_attribute(call: Call) -> dict[str, Any]:
    """Restrict an image to its own project."""
    services.reset_permissions(call.context, own_image_of(call, call.arguments["ImageId"]).id)
    return {}
