"""DescribeNetworkInterfaces, and the representations of network interfaces."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.interfaces.lookups import fixed_of, interface_rows, is_attached, is_free
from portal.api.ec2.actions.vpcs.lookups import zone_of_networks
from portal.api.ec2.describe import Column, Described, members, under
from portal.api.ec2.registry import Call
from provisioning.network import selectors
from provisioning.network.models import FloatingIP, Port
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors.routing import floating_ips_for

Shape = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Related:
    """Records that interfaces refer to, fetched with a constant number of queries."""

    ids: names.Known
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
        ids=names.known(
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
        zone=zone_of_networks(),
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


def group_shapes(port: Port, known: Mapping[uuid.UUID, str]) -> list[Shape]:
    every = sorted(port.security_groups.all(), key=lambda group: (group.name, group.id))
    return [{"GroupId": known[group.id], "GroupName": group.name} for group in every]


def _association(port: Port, address: str, related: Related) -> Shape:
    found = related.floating.get((port.id, address))
    if found is None:
        return {}
    return {
        "Association": {
            "PublicIp": found.address,
            "PublicDnsName": found.address,
            "IpOwnerId": found.project_id.hex,
            "AllocationId": related.ids[names.ADDRESS][found.id],
            "AssociationId": related.ids[names.ASSOCIATION][found.id],
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
