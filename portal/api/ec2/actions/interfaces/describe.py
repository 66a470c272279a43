"""DescribeNetworkInterfaces; network interfaces that a caller may see, their representations, and the addresses of a
request.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from portal.api.ec2.actions.security_groups.lookups import Groups
from portal.api.ec2.actions.vpcs.vpcs import owner_of, subnet_zone
from portal.api.ec2.describe import Column, Described, members, under
from portal.api.ec2.frame import Call, Ec2Error, Shape, errors, names, tags
from provisioning.network import addressing, selectors
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, SecurityGroup
from provisioning.network.records.owners import COMPUTE, OF_THE_CLOUD
from provisioning.network.selectors.routing import floating_ips_for
from provisioning.network.selectors.vpcs import default_group_of
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.ports.port_addresses import MOST

LONGEST = 255
"""Maximum number of characters of a description."""
Entries = list[dict[str, object]]
"""Addresses as arguments of the services."""


def interface_rows(call: Call) -> QuerySet[Port]:
    """Return the project's ports with related records prefetched, except ports that belong to the cloud itself."""
    rows = selectors.ports_for(call.context).exclude(OF_THE_CLOUD).select_related("network")
    return rows.prefetch_related("fixed_ips__subnet")


def interface_named(call: Call, ec2_id: str) -> Port:
    """Return an interface of the project. Raises Ec2Error."""
    return names.one(names.INTERFACE, ec2_id, interface_rows(call))


def plain(address: str, version: int) -> str:
    """Return an address in normal form. Raises Ec2Error unless it is valid for this IP version."""
    try:
        parsed = addressing.read_address(address)
    except ValueError:
        parsed = None
    if parsed is None or parsed.version != version:
        raise Ec2Error("InvalidParameterValue", f"Address {address[:60]} is not a valid IPv{version} address.")
    return str(parsed)


def is_attached(port: Port) -> bool:
    """Whether the port is attached to an instance."""
    return port.device_id is not None and port.device_owner.startswith(COMPUTE)


def is_free(port: Port) -> bool:
    """Whether the port is not in use."""
    return port.device_id is None and not port.device_text


def fixed_of(port: Port, version: int) -> list[FixedIP]:
    """Return the addresses of an IP version, the primary one first."""
    every = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    return [fixed for fixed in every if fixed.subnet.ip_version == version]


def kept(port: Port) -> Entries:
    """Return the current addresses of a port, except those that its guest configures itself."""
    every = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    return [
        {"subnet_id": fixed.subnet_id, "ip_address": fixed.address} for fixed in every if not is_stateless(fixed.subnet)
    ]


def check_addresses(call: Call, verb: str, network: Network, requested: Sequence[dict[str, object]]) -> None:
    """Raise Ec2Error for more addresses than a port may have, and for specified addresses unless the policy allows
    them.
    """
    if len(requested) > MOST:
        raise Ec2Error("PrivateIpAddressLimitExceeded", f"An interface has at most {MOST} addresses here")
    target = owner_of(network) | {"project_id": call.project_id}
    call.enforce(f"{verb}_port:fixed_ips", f"{verb}_port:fixed_ips:subnet_id", target=target)
    if any("ip_address" in entry for entry in requested):
        call.enforce(f"{verb}_port:fixed_ips:ip_address", target=target)


def groups_named(call: Call, specified: Sequence[str]) -> list[SecurityGroup]:
    """Return the security groups with these ids, without duplicates. Raises Ec2Error."""
    groups = Groups(call)
    return list({group.id: group for group in (groups.by_id(each) for each in specified)}.values())


def check_description(text: str) -> str:
    if len(text) > LONGEST:
        raise errors.invalid_value("Description", text, f"It has more than {LONGEST} characters.")
    return text


def value_of(call: Call, name: str) -> Any:
    """Return the ``Value`` of an attribute. Raises Ec2Error if the attribute has none."""
    value = call.arguments[name].get("Value")
    if value is None:
        raise errors.missing_parameter(f"{name}.Value")
    return value


def default_groups(call: Call, network_id: uuid.UUID) -> list[SecurityGroup] | None:
    """Return the default group of a VPC, for an interface without specified groups. None means the project's default
    group.
    """
    group = default_group_of(network_id)
    return [group] if group is not None and group.project_id == call.project_id else None


@dataclass(frozen=True, slots=True)
class Related:
    """Records that interfaces refer to, fetched with a constant number of queries."""

    ids: names.Ids
    floating: Mapping[tuple[uuid.UUID, str], FloatingIP]
    """Port and private address → the associated floating IP."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]]
    zone: str


def shapes(call: Call, ports: Sequence[Port]) -> list[Shape]:
    """Return the representations of interfaces; their networks, groups and addresses must be prefetched."""
    keys = [port.id for port in ports]
    attached = [port for port in ports if is_attached(port)]
    floating = list(floating_ips_for(call.context).filter(fixed_port__in=keys))
    related = Related(
        ids=names.ids_of(
            {
                names.INTERFACE: keys,
                names.VPC: [port.network_id for port in ports],
                names.SUBNET: [fixed.subnet_id for port in ports for fixed in port.fixed_ips.all()],
                names.GROUP: [group.id for port in ports for group in port.security_groups.all()],
                names.INSTANCE: [port.device_id for port in attached],
                names.ATTACHMENT: [port.id for port in attached],
                names.ADDRESS: [each.id for each in floating],
                names.ASSOCIATION: [each.id for each in floating],
            }
        ),
        floating={(each.fixed_port_id, each.fixed_address): each for each in floating},  # type: ignore[misc]
        tags=tags.shapes(names.INTERFACE, keys),
        zone=subnet_zone(),
    )
    return [_shape(port, related) for port in ports]


def _shape(port: Port, related: Related) -> Shape:
    named = selectors.dns_assignment(port) if port.dns_name else ()
    of_ipv4, dns = fixed_of(port, 4), {each["ip_address"]: each["fqdn"] for each in named}
    first = next(iter(sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)), None)
    home = of_ipv4[0] if of_ipv4 else first
    shape: Shape = {
        "NetworkInterfaceId": related.ids[names.INTERFACE][port.id],
        "InterfaceType": "interface",
        "Description": port.description,
        "OwnerId": port.project_id.hex,
        "VpcId": related.ids[names.VPC][port.network_id],
        "SubnetId": related.ids[names.SUBNET][home.subnet_id] if home is not None else None,
        "AvailabilityZone": _zone(port, related),
        "MacAddress": port.mac_address,
        "Status": status_of(port),
        "SourceDestCheck": port.port_security_enabled,
        "RequesterManaged": False,
        "Groups": group_shapes(port, related.ids[names.GROUP]),
        "Ipv6Native": not of_ipv4 and home is not None,
        "Ipv6Addresses": [{"Ipv6Address": fixed.address} for fixed in fixed_of(port, 6)],
        "PrivateIpAddresses": [
            {
                "PrivateIpAddress": fixed.address,
                "PrivateDnsName": _name(dns, fixed.address),
                "Primary": number == 0,
                **_association(port, fixed.address, related),
            }
            for number, fixed in enumerate(of_ipv4)
        ],
        "TagSet": related.tags[port.id],
    }
    of_ipv6 = fixed_of(port, 6)
    if of_ipv6:
        shape["Ipv6Address"] = of_ipv6[0].address
    if of_ipv4:
        shape |= {"PrivateIpAddress": of_ipv4[0].address, "PrivateDnsName": _name(dns, of_ipv4[0].address)}
        shape |= _association(port, of_ipv4[0].address, related)
    if is_attached(port):
        shape["Attachment"] = _attachment(port, related)
    return shape


def status_of(port: Port) -> str:
    if is_free(port):
        return "available"
    if port.leaving:
        return "detaching"
    return "attaching" if port.status == "BUILD" else "in-use"


def _name(dns: Mapping[str, str], address: str) -> str | None:
    return dns[address].rstrip(".") if address in dns else None


def _zone(port: Port, related: Related) -> str:
    """Return the zone of the host of an attached port. Any other port has the zone in which networks are shown."""
    return port.device_owner.removeprefix(COMPUTE) or related.zone if is_attached(port) else related.zone


def group_shapes(port: Port, ec2_ids: Mapping[uuid.UUID, str]) -> list[Shape]:
    every = sorted(port.security_groups.all(), key=lambda group: (group.name, group.id))
    return [{"GroupId": ec2_ids[group.id], "GroupName": group.name} for group in every]


def _association(port: Port, address: str, related: Related) -> Shape:
    floating = related.floating.get((port.id, address))
    if floating is None:
        return {}
    return {
        "Association": {
            "PublicIp": floating.address,
            "PublicDnsName": floating.address,
            "IpOwnerId": floating.project_id.hex,
            "AllocationId": related.ids[names.ADDRESS][floating.id],
            "AssociationId": related.ids[names.ASSOCIATION][floating.id],
        }
    }


def _attachment(port: Port, related: Related) -> Shape:
    words = {"available": "detached", "in-use": "attached"}
    state = status_of(port)
    return {
        "AttachmentId": related.ids[names.ATTACHMENT][port.id],
        "InstanceId": related.ids[names.INSTANCE][port.device_id] if port.device_id else None,
        "InstanceOwnerId": port.project_id.hex,
        "DeviceIndex": port.device_index,
        "NetworkCardIndex": 0,
        "Status": words.get(state, state),
        "AttachTime": port.created_at,
        "DeleteOnTermination": port.delete_with_device,
    }


DESCRIBE_NETWORK_INTERFACES = Described(
    action="DescribeNetworkInterfaces",
    rule="get_port",
    member="NetworkInterfaces",
    kind=names.INTERFACE,
    ids="NetworkInterfaceIds",
    ignored="IncludeManagedResources",
    rows=interface_rows,
    shape=shapes,
    tags="TagSet",
    filters={
        **under(
            "PrivateIpAddresses[]",
            {
                "association.public-ip": "Association.PublicIp",
                "primary": "Primary",
                "private-ip-address": Column("PrivateIpAddress", "fixed_ips__address"),
            },
            prefix="addresses.",
        ),
        **under(
            "Association",
            members("AllocationId AssociationId IpOwnerId PublicDnsName PublicIp"),
            prefix="association.",
        ),
        **under(
            "Attachment",
            {
                **members("AttachTime AttachmentId DeleteOnTermination DeviceIndex InstanceOwnerId Status"),
                "instance-id": Column("InstanceId", "device_id", names.INSTANCE),
            },
            prefix="attachment.",
        ),
        **members("AvailabilityZone InterfaceType PrivateDnsName RequesterManaged SourceDestCheck Status"),
        "description": Column("Description", "description"),
        "group-id": Column("Groups[].GroupId", "security_groups__pk", names.GROUP),
        "group-name": "Groups[].GroupName",
        "ipv6-addresses.ipv6-address": Column("Ipv6Addresses[].Ipv6Address", "fixed_ips__address"),
        "mac-address": Column("MacAddress", "mac_address"),
        "network-interface-id": Column("NetworkInterfaceId", "pk", names.INTERFACE),
        "owner-id": Column("OwnerId", "project_id"),
        "private-ip-address": Column("PrivateIpAddress", "fixed_ips__address"),
        "subnet-id": Column("SubnetId", "fixed_ips__subnet_id", names.SUBNET),
        "vpc-id": Column("VpcId", "network_id", names.VPC),
    },
)
