"""Create, delete, attach and detach network interfaces."""

import uuid
from collections.abc import Sequence

from portal.api.ec2.actions.instances.shapes import instances_named
from portal.api.ec2.actions.interfaces import describe
from portal.api.ec2.actions.vpcs.vpcs import subnet_named
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.launch.request import NetworkRequest
from provisioning.network import selectors, services
from provisioning.network.models import Subnet
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.ports.interfaces import MAX_INTERFACES

IN_USE = "InvalidNetworkInterface.InUse"


@action(
    "CreateNetworkInterface",
    "create_port",
    takes=(
        "SubnetId Description Groups PrivateIpAddress PrivateIpAddresses SecondaryPrivateIpAddressCount"
        " Ipv6Addresses Ipv6AddressCount TagSpecifications ClientToken"
    ),
    missing=names.SUBNET.missing,
    conflict="InvalidIPAddress.InUse",
)
def create_network_interface(call: Call) -> Shape:
    """Create a port on a subnet, with secondary and IPv6 addresses. A port without specified groups is in the default
    group.
    """
    description = describe.check_description(call.get("Description", ""))
    subnet = subnet_named(call, call.arguments["SubnetId"])
    network = selectors.usable_network_for(call.context, subnet.network_id)
    specified = tags.specified(call, names.INTERFACE)
    groups = describe.groups_named(call, call.get("Groups", [])) or describe.default_groups(call, network.id)
    first, others = _addresses(call, subnet)
    describe.check_addresses(call, "create", network, [*first, *others])
    port = services.create_port(call.project_id, network, fixed_ips=first, groups=groups, description=description)
    if others:
        taken = [{"subnet_id": fixed.subnet_id, "ip_address": fixed.address} for fixed in port.fixed_ips.order_by("id")]
        services.update_port(port, {}, fixed_ips=[*taken, *others])
    tags.write(call, names.INTERFACE, [port.id], specified)
    row = describe.interface_named(call, names.INTERFACE.id_of(port.id))
    return {"NetworkInterface": describe.shapes(call, [row])[0]}


def _addresses(call: Call, subnet: Subnet) -> tuple[describe.Entries, describe.Entries]:
    """Return the primary and the secondary addresses of the request. The primary address is stored as the first address
    of the port.
    """
    of_ipv6 = _of_ipv6(call, subnet)
    if subnet.ip_version == 6:
        if any(call.get(name) for name in ("PrivateIpAddress", "PrivateIpAddresses", "SecondaryPrivateIpAddressCount")):
            raise Ec2Error("InvalidParameterValue", "The subnet has no range of IPv4")
        return of_ipv6 or [{"subnet_id": subnet.id}], []
    primary, secondary = _named(call)
    count = call.get("SecondaryPrivateIpAddressCount", 0)
    if count and secondary:
        msg = "SecondaryPrivateIpAddressCount may not be used together with secondary PrivateIpAddresses"
        raise errors.combination(msg)
    if count < 0:
        raise errors.invalid_value("SecondaryPrivateIpAddressCount", count, "It is negative.")
    here: dict[str, object] = {"subnet_id": subnet.id}
    others = [here | {"ip_address": address} for address in secondary] + [here] * min(count, 100)
    return [here | ({"ip_address": primary} if primary else {})], [*others, *of_ipv6]


def _named(call: Call) -> tuple[str | None, list[str]]:
    """Return the primary address and the list of secondary addresses; the primary address is None if any address will
    do. Raises Ec2Error.
    """
    specified = call.get("PrivateIpAddresses", [])
    if not all(each.get("PrivateIpAddress") for each in specified):
        raise errors.missing_parameter("PrivateIpAddresses.PrivateIpAddress")
    first = [describe.plain(each["PrivateIpAddress"], 4) for each in specified if each.get("Primary")]
    if call.get("PrivateIpAddress"):
        first.insert(0, describe.plain(call.arguments["PrivateIpAddress"], 4))
    if len(set(first)) > 1:
        raise Ec2Error("InvalidParameterCombination", "Only one primary private IP address can be specified")
    every = [describe.plain(each["PrivateIpAddress"], 4) for each in specified]
    return (first[0] if first else None), [each for each in dict.fromkeys(every) if each not in first]


def _of_ipv6(call: Call, subnet: Subnet) -> describe.Entries:
    return ipv6_entries(call, [subnet] if subnet.ip_version == 6 else ipv6_subnets(call, subnet.network_id))


def ipv6_subnets(call: Call, network_id: uuid.UUID) -> list[Subnet]:
    """Return the IPv6 subnets of a network, oldest first."""
    rows = selectors.subnets_for(call.context).filter(network=network_id, ip_version=6)
    return list(rows.order_by("created_at", "id"))


def ipv6_entries(call: Call, subnets: Sequence[Subnet]) -> describe.Entries:
    """Return the requested IPv6 addresses. SLAAC subnets have none, because their guests configure their own addresses.
    Raises Ec2Error.
    """
    count, specified = call.get("Ipv6AddressCount", 0), [*call.get("Ipv6Addresses", [])]
    addresses = [each.get("Ipv6Address") if isinstance(each, dict) else each for each in specified]
    if not count and not addresses:
        return []
    if count and addresses:
        raise errors.combination("Ipv6AddressCount may not be used together with Ipv6Addresses")
    if not subnets:
        raise Ec2Error("InvalidParameterValue", "The subnet's network has no range of IPv6")
    if count < 0:
        raise errors.invalid_value("Ipv6AddressCount", count, "It is negative.")
    if not all(addresses):
        raise errors.missing_parameter("Ipv6Addresses.Ipv6Address")
    given_out = [subnet for subnet in subnets if not is_stateless(subnet)]
    free: describe.Entries = [{"subnet_id": given_out[0].id}] * min(count, 100) if given_out else []
    return free + [{"ip_address": describe.plain(str(address), 6)} for address in addresses]


@action(
    "DeleteNetworkInterface",
    "delete_port",
    takes="NetworkInterfaceId",
    missing=names.INTERFACE.missing,
    conflict=IN_USE,
)
def delete_network_interface(call: Call) -> Shape:
    """Delete an interface that is not in use."""
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    if not describe.is_free(port):
        ec2_id = call.arguments["NetworkInterfaceId"]
        raise Ec2Error(IN_USE, f"Network interface '{ec2_id}' is currently in use.")
    services.delete_port(port)
    return {}


@action(
    "AttachNetworkInterface",
    "os_compute_api:os-attach-interfaces:create",
    takes="NetworkInterfaceId InstanceId DeviceIndex NetworkCardIndex",
    missing=names.INSTANCE.missing,
    conflict="IncorrectInstanceState",
)
def attach_network_interface(call: Call) -> Shape:
    """Attach an interface to an instance, as its last interface."""
    call.allow_only("NetworkCardIndex", value=0, why="an instance has one network card")
    port = describe.interface_named(call, call.arguments["NetworkInterfaceId"])
    if not describe.is_free(port):
        raise Ec2Error(IN_USE, f"Interface: [{call.arguments['NetworkInterfaceId']}] in use.")
    (instance,) = instances_named(call, [call.arguments["InstanceId"]])
    _check_index(call, [each.device_index for each in selectors.interfaces_of(instance.id)])
    attach_interface(call.context, instance.id, NetworkRequest(port_id=str(port.id)))
    return {"AttachmentId": names.ATTACHMENT.id_of(port.id), "NetworkCardIndex": 0}


def _check_index(call: Call, indexes: list[int]) -> None:
    """Raise Ec2Error for a device index other than the next free one."""
    index, instance = call.arguments["DeviceIndex"], call.arguments["InstanceId"]
    if len(indexes) >= MAX_INTERFACES:
        raise Ec2Error("AttachmentLimitExceeded", f"An instance has at most {MAX_INTERFACES} network interfaces")
    if index in indexes:
        msg = f"Instance '{instance}' already has an interface attached at device index '{index}'."
        raise Ec2Error("InvalidParameterValue", msg)
    place = max(indexes, default=-1) + 1
    if index != place:
        raise errors.invalid_value("DeviceIndex", index, f"The next interface of {instance} has the index {place}.")


@action(
    "DetachNetworkInterface",
    "os_compute_api:os-attach-interfaces:delete",
    takes="AttachmentId",
    ignored="Force",
    missing=names.ATTACHMENT.missing,
    conflict="IncorrectInstanceState",
)
def detach_network_interface(call: Call) -> Shape:
    """Detach an interface. An interface that was created with the instance is also deleted."""
    specified = call.arguments["AttachmentId"]
    port = names.one(names.ATTACHMENT, specified, describe.interface_rows(call))
    if not describe.is_attached(port) or port.device_id is None:
        raise names.not_found(names.ATTACHMENT, [specified])
    if port.device_index == 0:
        msg = "The network interface at device index 0 cannot be detached."
        raise Ec2Error("OperationNotPermitted", msg)
    detach_interface(call.context, port.device_id, str(port.id))
    return {}
