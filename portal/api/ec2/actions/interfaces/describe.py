"""DescribeNetworkInterfaces."""

import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from portal.api.ec2 import names, owned
from portal.api.ec2.actions.interfaces.lookups import interface_rows
from portal.api.ec2.actions.interfaces.shapes import Shape, shapes
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import described
from portal.api.ec2.registry import Call, action
from provisioning.common.context import RequestContext
from provisioning.network import selectors
from provisioning.network.records.owners import OF_THE_CLOUD


@action(
    "DescribeNetworkInterfaces",
    "get_port",
    takes="NetworkInterfaceIds Filters MaxResults NextToken",
    passes_over="IncludeManagedResources",
    missing=names.INTERFACE.missing,
)
def describe_network_interfaces(call: Call) -> dict[str, Any]:
    """List the project's ports, except ports of routers, DHCP and floating IPs."""
    given = call.get("NetworkInterfaceIds", [])
    shown, token = described(call, names.INTERFACE, given, interface_rows(call), partial(shapes, call), _FILTERS)
    return {"NetworkInterfaces": shown, "NextToken": token}


def _of(part: str, key: str) -> Callable[[Shape], object]:
    return lambda shape: shape.get(part, {}).get(key)


def _of_each(part: str, key: str) -> Callable[[Shape], object]:
    return lambda shape: [each.get(key) for each in shape[part]]


def _tags(shape: Shape) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in shape["TagSet"]}


_FILTERS: Filterable[Shape] = Filterable(
    {
        "addresses.association.public-ip": lambda shape: [
            each.get("Association", {}).get("PublicIp") for each in shape["PrivateIpAddresses"]
        ],
        "addresses.primary": _of_each("PrivateIpAddresses", "Primary"),
        "addresses.private-ip-address": _of_each("PrivateIpAddresses", "PrivateIpAddress"),
        "association.allocation-id": _of("Association", "AllocationId"),
        "association.association-id": _of("Association", "AssociationId"),
        "association.ip-owner-id": _of("Association", "IpOwnerId"),
        "association.public-dns-name": _of("Association", "PublicDnsName"),
        "association.public-ip": _of("Association", "PublicIp"),
        "attachment.attach-time": _of("Attachment", "AttachTime"),
        "attachment.attachment-id": _of("Attachment", "AttachmentId"),
        "attachment.delete-on-termination": _of("Attachment", "DeleteOnTermination"),
        "attachment.device-index": _of("Attachment", "DeviceIndex"),
        "attachment.instance-id": _of("Attachment", "InstanceId"),
        "attachment.instance-owner-id": _of("Attachment", "InstanceOwnerId"),
        "attachment.status": _of("Attachment", "Status"),
        "availability-zone": lambda shape: shape["AvailabilityZone"],
        "description": lambda shape: shape["Description"],
        "group-id": _of_each("Groups", "GroupId"),
        "group-name": _of_each("Groups", "GroupName"),
        "interface-type": lambda shape: shape["InterfaceType"],
        "ipv6-addresses.ipv6-address": _of_each("Ipv6Addresses", "Ipv6Address"),
        "mac-address": lambda shape: shape["MacAddress"],
        "network-interface-id": lambda shape: shape["NetworkInterfaceId"],
        "owner-id": lambda shape: shape["OwnerId"],
        "private-dns-name": lambda shape: shape.get("PrivateDnsName"),
        "private-ip-address": lambda shape: shape.get("PrivateIpAddress"),
        "requester-managed": lambda shape: shape["RequesterManaged"],
        "source-dest-check": lambda shape: shape["SourceDestCheck"],
        "status": lambda shape: shape["Status"],
        "subnet-id": lambda shape: shape["SubnetId"],
        "vpc-id": lambda shape: shape["VpcId"],
    },
    tags=_tags,
)


def _owned(context: RequestContext, wanted: Collection[uuid.UUID]) -> list[uuid.UUID]:
    rows = selectors.ports_for(context).prefetch_related(None).exclude(OF_THE_CLOUD)
    return list(rows.filter(pk__in=wanted).values_list("pk", flat=True))


owned.register(names.INTERFACE, _owned)
