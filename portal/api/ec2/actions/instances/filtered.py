"""Filters of instances and of their status."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from portal.api.ec2.filters import Filterable
from provisioning.compute.models import Instance


class Found(NamedTuple):
    """An instance and its representation."""

    instance: Instance
    shape: dict[str, Any]


def _volumes(found: Found) -> Iterator[dict[str, Any]]:
    for mapping in found.shape["BlockDeviceMappings"]:
        yield {"DeviceName": mapping["DeviceName"], **mapping["Ebs"]}


Reader = Callable[[Found], object]
Part = dict[str, Any]
"""A part of the representation."""


def _interfaces(read: Callable[[Part], object]) -> Reader:
    """Return a reader of a value of each interface."""
    return lambda found: [read(interface) for interface in found.shape["NetworkInterfaces"]]


def _addresses(read: Callable[[Part], object]) -> Reader:
    """Return a reader of a value of each private address of each interface."""
    return _interfaces(lambda interface: [read(each) for each in interface["PrivateIpAddresses"]])


def _attachment(name: str) -> Reader:
    return _interfaces(lambda interface: interface["Attachment"][name])


def _group(name: str) -> Reader:
    return _interfaces(lambda interface: [each[name] for each in interface["Groups"]])


def _of(name: str) -> Reader:
    return _interfaces(lambda interface: interface.get(name))


def _public(part: Part, name: str) -> object:
    return part.get("Association", {}).get(name)


_ASSOCIATIONS = {"public-ip": "PublicIp", "public-dns-name": "PublicDnsName", "ip-owner-id": "IpOwnerId"}
_OF_INTERFACES: dict[str, Reader] = {
    "addresses.primary": _addresses(lambda address: address["Primary"]),
    "addresses.private-ip-address": _addresses(lambda address: address["PrivateIpAddress"]),
    **{f"addresses.association.{name}": _addresses(partial(_public, name=key)) for name, key in _ASSOCIATIONS.items()},
    **{f"association.{name}": _interfaces(partial(_public, name=key)) for name, key in _ASSOCIATIONS.items()},
    "attachment.attach-time": _attachment("AttachTime"),
    "attachment.attachment-id": _attachment("AttachmentId"),
    "attachment.delete-on-termination": _attachment("DeleteOnTermination"),
    "attachment.device-index": _attachment("DeviceIndex"),
    "attachment.instance-id": lambda found: found.shape["InstanceId"] if found.shape["NetworkInterfaces"] else None,
    "attachment.instance-owner-id": _of("OwnerId"),
    "attachment.network-card-index": _interfaces(lambda interface: 0),
    "attachment.status": _attachment("Status"),
    "availability-zone": lambda found: found.shape["Placement"]["AvailabilityZone"],
    "description": _of("Description"),
    "group-id": _group("GroupId"),
    "group-name": _group("GroupName"),
    "ipv6-addresses.ipv6-address": _interfaces(
        lambda interface: [each["Ipv6Address"] for each in interface["Ipv6Addresses"]]
    ),
    "mac-address": _of("MacAddress"),
    "network-interface-id": _of("NetworkInterfaceId"),
    "owner-id": _of("OwnerId"),
    "private-ip-address": _of("PrivateIpAddress"),
    "requester-managed": _interfaces(lambda interface: False),
    "source-dest-check": _of("SourceDestCheck"),
    "status": _of("Status"),
    "subnet-id": _of("SubnetId"),
    "vpc-id": _of("VpcId"),
}
"""Suffix after ``network-interface.`` in the name of a filter → reader."""
_NOTHING_HERE = (
    *("capacity-reservation-id", "client-token", "host-id", "hypervisor", "iam-instance-profile.arn"),
    *("iam-instance-profile.id", "instance-lifecycle", "kernel-id", "outpost-arn", "placement-group-name"),
    *("placement-partition-number", "platform", "product-code", "product-code.type", "ramdisk-id", "requester-id"),
    "spot-instance-request-id",
)
"""Filters on attributes that no instance has; no instance matches them."""


FILTERS: Filterable[Found] = Filterable(
    {
        "architecture": lambda found: found.shape["Architecture"],
        "availability-zone": lambda found: found.shape["Placement"]["AvailabilityZone"],
        "block-device-mapping.attach-time": lambda found: [each["AttachTime"] for each in _volumes(found)],
        "block-device-mapping.delete-on-termination": lambda found: [
            each["DeleteOnTermination"] for each in _volumes(found)
        ],
        "block-device-mapping.device-name": lambda found: [each["DeviceName"] for each in _volumes(found)],
        "block-device-mapping.status": lambda found: [each["Status"] for each in _volumes(found)],
        "block-device-mapping.volume-id": lambda found: [each["VolumeId"] for each in _volumes(found)],
        "dns-name": lambda found: found.shape["PublicDnsName"],
        "image-id": lambda found: found.shape["ImageId"],
        "instance-id": lambda found: found.shape["InstanceId"],
        "instance-state-code": lambda found: found.shape["State"]["Code"],
        "instance-state-name": lambda found: found.shape["State"]["Name"],
        "instance-type": lambda found: found.shape["InstanceType"],
        "instance.group-id": lambda found: [each["GroupId"] for each in found.shape["SecurityGroups"]],
        "instance.group-name": lambda found: [each["GroupName"] for each in found.shape["SecurityGroups"]],
        "ip-address": lambda found: found.shape.get("PublicIpAddress"),
        "ipv6-address": lambda found: found.shape.get("Ipv6Address"),
        "key-name": lambda found: found.shape["KeyName"],
        "launch-index": lambda found: found.shape["AmiLaunchIndex"],
        "launch-time": lambda found: found.shape["LaunchTime"],
        "monitoring-state": lambda found: found.shape["Monitoring"]["State"],
        "owner-id": lambda found: found.instance.project_id.hex,
        "private-dns-name": lambda found: found.shape["PrivateDnsName"],
        "private-ip-address": lambda found: found.shape.get("PrivateIpAddress"),
        "reason": lambda found: found.shape["StateTransitionReason"],
        "reservation-id": lambda found: found.instance.reservation_id,
        "root-device-name": lambda found: found.shape["RootDeviceName"],
        "root-device-type": lambda found: found.shape["RootDeviceType"],
        "source-dest-check": lambda found: found.shape["SourceDestCheck"],
        "state-reason-code": lambda found: found.shape.get("StateReason", {}).get("Code"),
        "state-reason-message": lambda found: found.shape.get("StateReason", {}).get("Message"),
        "subnet-id": lambda found: found.shape.get("SubnetId"),
        "tenancy": lambda found: "default",
        "virtualization-type": lambda found: found.shape["VirtualizationType"],
        "vpc-id": lambda found: found.shape.get("VpcId"),
        "ebs-optimized": lambda found: found.shape["EbsOptimized"],
        "ena-support": lambda found: False,
        "enclave-options.enabled": lambda found: False,
        "hibernation-options.configured": lambda found: False,
        **{f"network-interface.{name}": read for name, read in _OF_INTERFACES.items()},
        **dict.fromkeys(_NOTHING_HERE, lambda found: None),
    },
    tags=lambda found: {tag["Key"]: tag["Value"] for tag in found.shape["Tags"]},
)

STATUS_FILTERS: Filterable[Found] = Filterable(
    {
        "availability-zone": lambda found: found.shape["AvailabilityZone"],
        "instance-state-code": lambda found: found.shape["InstanceState"]["Code"],
        "instance-state-name": lambda found: found.shape["InstanceState"]["Name"],
        "instance-status.status": lambda found: found.shape["InstanceStatus"]["Status"],
        "instance-status.reachability": lambda found: [
            each["Status"] for each in found.shape["InstanceStatus"]["Details"]
        ],
        "system-status.status": lambda found: found.shape["SystemStatus"]["Status"],
        "system-status.reachability": lambda found: [each["Status"] for each in found.shape["SystemStatus"]["Details"]],
        "event.code": lambda found: [],
    }
)
