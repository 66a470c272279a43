"""ModifyNetworkInterfaceAttribute, ResetNetworkInterfaceAttribute and DescribeNetworkInterfaceAttribute."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.interfaces.lookups import (
    check_description,
    groups_named,
    interface_named,
    is_attached,
    value_of,
)
from portal.api.ec2.actions.interfaces.shapes import shapes
from portal.api.ec2.actions.source_checks import check_sources
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.network import services
from provisioning.network.models import Port
from provisioning.network.services.ports.interfaces import set_delete_with_device

ATTRIBUTES = ("Attachment", "Description", "Groups", "SourceDestCheck")


@action(
    "ModifyNetworkInterfaceAttribute",
    "update_port",
    takes=f"NetworkInterfaceId {' '.join(ATTRIBUTES)}",
    missing=names.INTERFACE.missing,
)
def modify_network_interface_attribute(call: Call) -> dict[str, Any]:
    """Update one attribute: description, groups, source check, or deletion on termination."""
    given = [name for name in ATTRIBUTES if name in call.arguments]
    if len(given) != 1:
        raise errors.combination(f"Exactly one of {', '.join(ATTRIBUTES)} is changed at a time")
    port = interface_named(call, call.arguments["NetworkInterfaceId"])
    if given == ["Description"]:
        services.update_port(port, {"description": check_description(value_of(call, "Description"))})
    elif given == ["Groups"]:
        services.update_port(port, {}, groups=groups_named(call, call.arguments["Groups"]))
    elif given == ["SourceDestCheck"]:
        check_sources(call, port, wanted=value_of(call, "SourceDestCheck"))
    else:
        _go_with_instance(call, port)
    return {}


@action(
    "ResetNetworkInterfaceAttribute",
    "update_port",
    takes="NetworkInterfaceId SourceDestCheck",
    missing=names.INTERFACE.missing,
)
def reset_network_interface_attribute(call: Call) -> dict[str, Any]:
    """Enable the source check of an interface."""
    check_sources(call, interface_named(call, call.arguments["NetworkInterfaceId"]), wanted=True)
    return {}


def _go_with_instance(call: Call, port: Port) -> None:
    attachment = call.arguments["Attachment"]
    given, value = attachment.get("AttachmentId"), attachment.get("DeleteOnTermination")
    if not given or value is None:
        raise errors.missing_parameter("Attachment.AttachmentId" if not given else "Attachment.DeleteOnTermination")
    strange = sorted(attachment.keys() - {"AttachmentId", "DeleteOnTermination"})
    if strange:
        raise errors.unsupported(f"An attachment has no {strange[0]} here")
    if not is_attached(port) or names.resource(names.ATTACHMENT, given) != port.id:
        raise names.not_found(names.ATTACHMENT, [given])
    set_delete_with_device(port, value=value)


@action(
    "DescribeNetworkInterfaceAttribute",
    "get_port",
    takes="NetworkInterfaceId Attribute",
    missing=names.INTERFACE.missing,
)
def describe_network_interface_attribute(call: Call) -> dict[str, Any]:
    """Show one attribute of an interface."""
    port = interface_named(call, call.arguments["NetworkInterfaceId"])
    (shape,) = shapes(call, [port])
    attribute = call.get("Attribute")
    if not attribute:
        raise errors.missing_parameter("Attribute")
    found: dict[str, dict[str, Any]] = {
        "description": {"Description": {"Value": shape["Description"]}},
        "groupSet": {"Groups": shape["Groups"]},
        "sourceDestCheck": {"SourceDestCheck": {"Value": shape["SourceDestCheck"]}},
        "attachment": {"Attachment": shape.get("Attachment")},
    }
    if attribute not in found:
        raise errors.unsupported(f"There is no attribute {attribute} of an interface here")
    return {"NetworkInterfaceId": ids.id_of(names.INTERFACE.prefix, port.id), **found[attribute]}
