"""Elastic IP addresses, which are floating IPs: allocate, associate, disassociate and release."""

import uuid
from collections.abc import Sequence

from django.db.models import Q, QuerySet

from portal.api.ec2.actions.instances.shapes import instances_named
from portal.api.ec2.describe import Column, Described, members
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.network import selectors, services
from provisioning.network.addressing import read_address
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FloatingIP, Network, Port
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors import routing

DOMAIN = "vpc"
POOL = "amazon"
"""Name of the default address pool."""
NO_SUCH_ADDRESS = "InvalidAddress.NotFound"


@action(
    "AllocateAddress",
    "create_floatingip",
    takes="Domain Address PublicIpv4Pool NetworkBorderGroup TagSpecifications",
    conflict="InvalidIPAddress.InUse",
)
def allocate_address(call: Call) -> Shape:
    """Allocate the lowest free address of an external network, or a specified address if the policy allows it."""
    if call.get("Domain", DOMAIN) != DOMAIN:
        raise errors.unsupported("Addresses are for VPCs: the domain is vpc")
    _check_border_group(call)
    address = call.get("Address")
    if address:
        call.enforce("create_floatingip:floating_ip_address", target={"project_id": call.project_id})
    specified = tags.specified(call, names.ADDRESS)
    network = _external(call)
    try:
        floating = services.create_floating_ip(call.project_id, network, address=address)
    except OutOfAddressesError as error:
        raise Ec2Error("InsufficientAddressCapacity", error.message) from error
    tags.write(call, names.ADDRESS, [floating.id], specified)
    return {
        "PublicIp": floating.address,
        "AllocationId": names.ADDRESS.id_of(floating.id),
        "PublicIpv4Pool": network.name,
        "NetworkBorderGroup": call.region,
        "Domain": DOMAIN,
    }


def _external(call: Call) -> Network:
    """Return the external network to allocate from: the network in ``PublicIpv4Pool``, by default the default external
    network. Raises Ec2Error.
    """
    pool, networks = call.get("PublicIpv4Pool", POOL), routing.external_networks_for(call.context)
    if pool != POOL:
        networks = [network for network in networks if pool in {network.name, str(network.id)}]
        if not networks:
            raise errors.invalid_value("PublicIpv4Pool", pool, "No external network has this name.")
    if not networks:
        raise Ec2Error("InsufficientAddressCapacity", "There is no external network to allocate addresses from")
    return networks[0]


def _check_border_group(call: Call) -> None:
    group = call.get("NetworkBorderGroup", call.region)
    if group != call.region:
        raise errors.invalid_value("NetworkBorderGroup", group, f"The only network border group is {call.region}.")


@action(
    "AssociateAddress",
    "update_floatingip",
    takes="AllocationId PublicIp InstanceId NetworkInterfaceId PrivateIpAddress AllowReassociation",
    missing="Gateway.NotAttached",
    conflict="Resource.AlreadyAssociated",
)
def associate_address(call: Call) -> Shape:
    """Associate an address with an interface, or with the only interface of an instance.

    Replaces previous associations of the address and of the private address.
    """
    floating, port = _named(call), _target(call)
    private = call.get("PrivateIpAddress") or _first_address(port)
    if private not in {fixed.address for fixed in port.fixed_ips.all()}:
        raise errors.invalid_value("PrivateIpAddress", private, "The interface does not have it.")
    if floating.fixed_port_id != port.id or floating.fixed_address != private:
        others = routing.floating_ips_for(call.context).exclude(pk=floating.pk).filter(network=floating.network_id)
        there = list(others.filter(fixed_port=port, fixed_address=private))
        if not call.get("AllowReassociation", True):
            _check_not_associated([floating, *there])
        for other in there:
            services.disassociate(other)
        services.associate(floating, port, private)
    return {"AssociationId": names.ASSOCIATION.id_of(floating.id)}


def _check_not_associated(every: Sequence[FloatingIP]) -> None:
    associated = next((each for each in every if each.fixed_port_id is not None), None)
    if associated is not None:
        ec2_id = names.ADDRESS.id_of(associated.id)
        raise Ec2Error("Resource.AlreadyAssociated", f"resource {ec2_id} is already associated with associate-id")


def _target(call: Call) -> Port:
    """Return the port to associate an address with. Raises Ec2Error unless the request specifies exactly one port."""
    instance_id, interface_id = call.get("InstanceId"), call.get("NetworkInterfaceId")
    if instance_id and interface_id:
        raise errors.combination("You may specify either an instance id or an interface id, but not both")
    if interface_id:
        return names.one(names.INTERFACE, interface_id, selectors.ports_for(call.context))
    if not instance_id:
        raise errors.missing_parameter("InstanceId")
    (instance,) = instances_named(call, [instance_id])
    ports = [port for port in selectors.interfaces_of(instance.id) if not port.leaving]
    private = call.get("PrivateIpAddress")
    if private:
        ports = [port for port in ports if private in {fixed.address for fixed in port.fixed_ips.all()}]
        if not ports:
            raise errors.invalid_value("PrivateIpAddress", private, "No interface of the instance has it.")
    if not ports:
        raise Ec2Error("InvalidInstanceID", f"The instance '{instance_id}' has no network interface")
    if len(ports) > 1:
        msg = f"There are multiple interfaces attached to instance '{instance_id}'. Please specify an interface ID."
        raise Ec2Error("InvalidInstanceID", msg)
    return ports[0]


def _first_address(port: Port) -> str:
    own = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    address = next((fixed.address for fixed in own if ":" not in fixed.address), None)
    if address is None:
        raise Ec2Error("InvalidParameterValue", "The network interface has no private IPv4 address")
    return address


@action("DisassociateAddress", "update_floatingip", takes="AssociationId PublicIp")
def disassociate_address(call: Call) -> Shape:
    """Disassociate an address without releasing it."""
    specified = call.get("AssociationId")
    if specified and call.get("PublicIp"):
        raise errors.combination("The parameters AssociationId and PublicIp may not be used together")
    if not specified:
        floating = _named(call)
    else:
        floating = names.one(names.ASSOCIATION, specified, routing.floating_ips_for(call.context))
        if floating.fixed_port_id is None:
            raise names.not_found(names.ASSOCIATION, [specified])
    if floating.fixed_port_id is not None:
        services.disassociate(floating)
    return {}


@action("ReleaseAddress", "delete_floatingip", takes="AllocationId PublicIp NetworkBorderGroup")
def release_address(call: Call) -> Shape:
    """Release an address that is not associated."""
    _check_border_group(call)
    floating = _named(call)
    if floating.fixed_port_id is not None or floating.port_forwardings.all():
        raise Ec2Error("InvalidIPAddress.InUse", f"The address {floating.address} is in use")
    services.delete_floating_ip(floating)
    return {}


def _named(call: Call) -> FloatingIP:
    """Return the address in ``AllocationId`` or ``PublicIp``. Raises Ec2Error."""
    specified, address = call.get("AllocationId"), call.get("PublicIp")
    if specified and address:
        raise errors.combination("You may specify public IP or allocation id, but not both in the same call")
    if not specified and not address:
        raise errors.missing_parameter("AllocationId")
    rows = routing.floating_ips_for(call.context)
    if specified:
        return names.one(names.ADDRESS, specified, rows)
    return _at(rows, [address])[0]


def _at(rows: QuerySet[FloatingIP], addresses: Sequence[str]) -> QuerySet[FloatingIP]:
    """Return the floating IPs with these addresses, or all of them without addresses. Raises Ec2Error with the first
    address that the project does not have.
    """
    return names.with_names(rows, "address", [_read(address) for address in addresses], _no_such_address)


def _read(text: str) -> str:
    """Return an address as records store it: PostgreSQL compares addresses only with addresses. Raises Ec2Error."""
    try:
        return str(read_address(text))
    except ValueError:
        raise _no_such_address(text) from None


def _no_such_address(address: str) -> Ec2Error:
    return Ec2Error(NO_SUCH_ADDRESS, f"Address '{address[:60]}' not found.")


def _shapes(call: Call, every: Sequence[FloatingIP]) -> list[Shape]:
    keys = [floating.id for floating in every]
    ports = [floating.fixed_port for floating in every if floating.fixed_port is not None]
    ec2_ids = names.ids_of(
        {
            names.ADDRESS: keys,
            names.ASSOCIATION: [floating.id for floating in every if floating.fixed_port is not None],
            names.INTERFACE: [port.id for port in ports],
            names.INSTANCE: [_instance_of(port) for port in ports],
        }
    )
    tagged = tags.shapes(names.ADDRESS, keys)
    shapes = []
    for floating in every:
        shape: Shape = {
            "PublicIp": floating.address,
            "AllocationId": ec2_ids[names.ADDRESS][floating.id],
            "PublicIpv4Pool": floating.network.name,
            "NetworkBorderGroup": call.region,
            "Domain": DOMAIN,
            "Tags": tagged[floating.id],
        }
        port = floating.fixed_port
        if port is not None:
            instance = _instance_of(port)
            shape |= {
                "AssociationId": ec2_ids[names.ASSOCIATION][floating.id],
                "NetworkInterfaceId": ec2_ids[names.INTERFACE][port.id],
                "NetworkInterfaceOwnerId": port.project_id.hex,
                "PrivateIpAddress": floating.fixed_address,
                "InstanceId": ec2_ids[names.INSTANCE][instance] if instance else None,
            }
        shapes.append(shape)
    return shapes


def _instance_of(port: Port) -> uuid.UUID | None:
    return port.device_id if port.device_owner.startswith(COMPUTE) else None


DESCRIBE_ADDRESSES = Described(
    action="DescribeAddresses",
    rule="get_floatingip",
    member="Addresses",
    kind=names.ADDRESS,
    ids="AllocationIds",
    takes="PublicIps",
    paged=False,
    rows=lambda call: _at(routing.floating_ips_for(call.context), call.get("PublicIps", [])),
    shape=_shapes,
    filters={
        "allocation-id": Column("AllocationId", "pk", names.ADDRESS),
        **members("AssociationId Domain NetworkBorderGroup"),
        "instance-id": Column("InstanceId", "fixed_port__device_id", names.INSTANCE),
        "network-interface-id": Column("NetworkInterfaceId", "fixed_port_id", names.INTERFACE),
        "network-interface-owner-id": Column("NetworkInterfaceOwnerId", "fixed_port__project_id"),
        "private-ip-address": Column("PrivateIpAddress", "fixed_address"),
        "public-ip": Column("PublicIp", "address"),
        "public-ipv4-pool": Column("PublicIpv4Pool", "network__name"),
    },
)
DESCRIBE_ADDRESSES_ATTRIBUTE = Described(
    action="DescribeAddressesAttribute",
    rule="get_floatingip",
    member="Addresses",
    kind=names.ADDRESS,
    ids="AllocationIds",
    takes="Attribute",
    rows=lambda call: routing.floating_ips_for(call.context),
    among=lambda call: Q(pk__in=[]),  # no address has a domain name
    shape=_shapes,
)
