"""Attributes of network interfaces, and their additional addresses (AssignPrivateIpAddresses and others)."""

from portal.api.ec2.actions.instances.attributes import check_sources
from portal.api.ec2.actions.interfaces import describe
from portal.api.ec2.actions.interfaces.create import ipv6_entries, ipv6_subnets
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names
from provisioning.network import services
from provisioning.network.models import Port
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.ports.interfaces import set_delete_with_device

ATTRIBUTES = ("Attachment", "Description", "Groups", "SourceDestCheck")


@action(
    "ModifyNetworkInterfaceAttribute",
    "update_port",
    takes=f"NetworkInterfaceId {' '.join(ATTRIBUTES)}",
    missing=names.INTERFACE.missing,
)
def modify_network_interface_attribute(call: Call) -> Shape:
    """Update one attribute: description, groups, source check, or deletion on termination."""
    specified = [name for name in ATTRIBUTES if name in call.arguments]
    if len(specified) != 1:
        raise errors.combination(f"Exactly one of {', '.join(ATTRIBUTES)} is changed at a time")
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    if specified == ["Description"]:
        services.update_port(port, {"description": describe.check_description(describe.value_of(call, "Description"))})
    elif specified == ["Groups"]:
        services.update_port(port, {}, groups=describe.groups_named(call, call.arguments["Groups"]))
    elif specified == ["SourceDestCheck"]:
        check_sources(call, port, requested=describe.value_of(call, "SourceDestCheck"))
    else:
        _set_delete_on_termination(call, port)
    return {}


@action(
    "ResetNetworkInterfaceAttribute",
    "update_port",
    takes="NetworkInterfaceId SourceDestCheck",
    missing=names.INTERFACE.missing,
)
def reset_network_interface_attribute(call: Call) -> Shape:
    """Enable the source check of an interface."""
    check_sources(call, describe.interface_named(call, call.arguments["NetworkInterfaceId"]), requested=True)
    return {}


def _set_delete_on_termination(call: Call, port: Port) -> None:
    attachment = call.arguments["Attachment"]
    specified, value = attachment.get("AttachmentId"), attachment.get("DeleteOnTermination")
    if not specified or value is None:
        raise errors.missing_parameter("Attachment.AttachmentId" if not specified else "Attachment.DeleteOnTermination")
    strange = sorted(attachment.keys() - {"AttachmentId", "DeleteOnTermination"})
    if strange:
        raise errors.unsupported(f"An attachment has no {strange[0]} here")
    if not describe.is_attached(port) or names.resource(names.ATTACHMENT, specified) != port.id:
        raise names.not_found(names.ATTACHMENT, [specified])
    set_delete_with_device(port, value=value)


@action(
    "DescribeNetworkInterfaceAttribute",
    "get_port",
    takes="NetworkInterfaceId Attribute",
    missing=names.INTERFACE.missing,
)
def describe_network_interface_attribute(call: Call) -> Shape:
    """Show one attribute of an interface."""
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    (shape,) = describe.shapes(call, [port])
    attribute = call.get("Attribute")
    if not attribute:
        raise errors.missing_parameter("Attribute")
    attributes: dict[str, Shape] = {
        "description": {"Description": {"Value": shape["Description"]}},
        "groupSet": {"Groups": shape["Groups"]},
        "sourceDestCheck": {"SourceDestCheck": {"Value": shape["SourceDestCheck"]}},
        "attachment": {"Attachment": shape.get("Attachment")},
    }
    if attribute not in attributes:
        raise errors.unsupported(f"There is no attribute {attribute} of an interface here")
    return {"NetworkInterfaceId": names.INTERFACE.id_of(port.id), **attributes[attribute]}


IN_USE = "InvalidIPAddress.InUse"


@action(
    "AssignPrivateIpAddresses",
    "update_port",
    takes="NetworkInterfaceId PrivateIpAddresses SecondaryPrivateIpAddressCount AllowReassignment",
    missing=names.INTERFACE.missing,
    conflict=IN_USE,
)
def assign_private_ip_addresses(call: Call) -> Shape:
    """Assign secondary addresses of the subnet to an interface: specified addresses, or a number of free addresses."""
    call.allow_only("AllowReassignment", value=False, why="an address is taken from its interface first")
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    addresses, count = call.get("PrivateIpAddresses", []), call.get("SecondaryPrivateIpAddressCount")
    if addresses and count is not None:
        raise errors.combination("PrivateIpAddresses and SecondaryPrivateIpAddressCount may not be used together")
    if not addresses and count is None:
        raise errors.missing_parameter("PrivateIpAddress")
    if count is not None and count < 1:
        raise errors.invalid_value("SecondaryPrivateIpAddressCount", count, "It must be at least 1.")
    there = describe.fixed_of(port, 4)
    if not there:
        raise Ec2Error(
            "InvalidParameterValue", "The interface has no IPv4 address whose subnet secondary addresses could use"
        )
    here: dict[str, object] = {"subnet_id": there[0].subnet_id}
    named = [here | {"ip_address": address} for address in dict.fromkeys(describe.plain(each, 4) for each in addresses)]
    now = _add(call, port, named + [here] * min(count or 0, 100))
    before = {fixed.address for fixed in there}
    made = [{"PrivateIpAddress": fixed.address} for fixed in describe.fixed_of(now, 4) if fixed.address not in before]
    return {"NetworkInterfaceId": call.arguments["NetworkInterfaceId"], "AssignedPrivateIpAddresses": made}


@action(
    "AssignIpv6Addresses",
    "update_port",
    takes="NetworkInterfaceId Ipv6Addresses Ipv6AddressCount",
    missing=names.INTERFACE.missing,
    conflict=IN_USE,
)
def assign_ipv6_addresses(call: Call) -> Shape:
    """Assign IPv6 addresses to an interface. This is not supported on subnets where guests configure their own
    addresses.
    """
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    subnets = ipv6_subnets(call, port.network_id)
    requested = ipv6_entries(call, subnets)
    if not requested and subnets and all(is_stateless(subnet) for subnet in subnets):
        raise errors.unsupported("Guests configure their IPv6 addresses themselves on this network")
    if not requested:
        raise errors.missing_parameter("Ipv6AddressCount")
    before = {fixed.address for fixed in describe.fixed_of(port, 6)}
    now = _add(call, port, requested)
    made = [fixed.address for fixed in describe.fixed_of(now, 6) if fixed.address not in before]
    return {"NetworkInterfaceId": call.arguments["NetworkInterfaceId"], "AssignedIpv6Addresses": made}


def _add(call: Call, port: Port, entries: describe.Entries) -> Port:
    have = describe.kept(port)
    present = {entry["ip_address"] for entry in have}
    requested = [*have, *(entry for entry in entries if entry.get("ip_address") not in present)]
    describe.check_addresses(call, "update", port.network, requested)
    services.update_port(port, {}, fixed_ips=requested)
    return describe.interface_named(call, call.arguments["NetworkInterfaceId"])


@action(
    "UnassignPrivateIpAddresses",
    "update_port",
    takes="NetworkInterfaceId PrivateIpAddresses",
    missing=names.INTERFACE.missing,
)
def unassign_private_ip_addresses(call: Call) -> Shape:
    """Unassign secondary addresses from an interface; the primary one is kept."""
    port, specified = (
        describe.interface_named(call, call.arguments["NetworkInterfaceId"]),
        call.get("PrivateIpAddresses", []),
    )
    if not specified:
        raise errors.missing_parameter("PrivateIpAddress")
    _take(
        call,
        port,
        [describe.plain(each, 4) for each in specified],
        {fixed.address for fixed in describe.fixed_of(port, 4)[1:]},
    )
    return {}


@action(
    "UnassignIpv6Addresses",
    "update_port",
    takes="NetworkInterfaceId Ipv6Addresses",
    missing=names.INTERFACE.missing,
)
def unassign_ipv6_addresses(call: Call) -> Shape:
    """Unassign IPv6 addresses from an interface, except those that its guest configures itself."""
    port, specified = (
        describe.interface_named(call, call.arguments["NetworkInterfaceId"]),
        call.get("Ipv6Addresses", []),
    )
    if not specified:
        raise errors.missing_parameter("Ipv6Addresses")
    own = {fixed.address for fixed in describe.fixed_of(port, 6) if not is_stateless(fixed.subnet)}
    gone = [describe.plain(each, 6) for each in specified]
    _take(call, port, gone, own)
    return {"NetworkInterfaceId": call.arguments["NetworkInterfaceId"], "UnassignedIpv6Addresses": gone}


def _take(call: Call, port: Port, specified: list[str], removable: set[str]) -> None:
    missing = next((address for address in specified if address not in removable), None)
    if missing is not None:
        msg = f"{missing[:60]} is not a secondary address of {call.arguments['NetworkInterfaceId']}"
        raise Ec2Error("InvalidParameterValue", msg)
    left = [entry for entry in describe.kept(port) if entry["ip_address"] not in specified]
    describe.check_addresses(call, "update", port.network, [])
    services.update_port(port, {}, fixed_ips=left)
