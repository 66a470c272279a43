"""Representations of instances."""

import uuid
from collections.abc import Sequence
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.instances import states
from portal.api.ec2.actions.instances.related import Related
from provisioning.compute.disks import device_names
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.states import VmState
from provisioning.ec2 import given
from provisioning.ec2.metadata_options import DEFAULT_HOPS, DEFAULT_TOKENS
from provisioning.ec2.models import MetadataOptions
from provisioning.network.selectors import GuestAddress, GuestInterface

VIRTUALIZATION, ARCHITECTURE = "hvm", "x86_64"


def reservation(instances: Sequence[Instance], related: Related) -> dict[str, Any]:
    """Return the reservation of the instances of one launch."""
    first = instances[0]
    return {
        "ReservationId": first.reservation_id,
        "OwnerId": first.project_id.hex,
        "Groups": [],
        "Instances": [instance_shape(instance, related) for instance in instances],
    }


def instance_shape(instance: Instance, related: Related) -> dict[str, Any]:
    """Return the representation of an instance in DescribeInstances and RunInstances."""
    interfaces = related.interfaces.get(instance.id, ())
    state, image = states.name_of(instance), image_of(instance, related)
    shape: dict[str, Any] = {
        "InstanceId": related.ids[names.INSTANCE][instance.id],
        "ImageId": related.ids[names.IMAGE].get(image, "") if image else "",
        "State": states.shape(state),
        "InstanceType": type_of(instance, related),
        "KeyName": instance.key_name,
        "AmiLaunchIndex": instance.launch_index,
        "ProductCodes": [],
        "LaunchTime": instance.created_at,
        "Placement": _placement(instance, related),
        "Monitoring": {"State": "disabled"},
        "Architecture": ARCHITECTURE,
        "RootDeviceType": "ebs" if _boots_from_volume(instance, related) else "instance-store",
        "RootDeviceName": root_device(instance, related),
        "BlockDeviceMappings": block_devices(instance, related),
        "VirtualizationType": VIRTUALIZATION,
        "EbsOptimized": False,
        "PrivateDnsName": instance.hostname,
        "PublicDnsName": "",
        "StateTransitionReason": "",
        "Tags": related.tags[instance.id],
        "SecurityGroups": _groups(interfaces, related),
        "NetworkInterfaces": [_interface(each, related) for each in interfaces],
        "MetadataOptions": options_shape(related.metadata_options.get(instance.id)),
        "SourceDestCheck": all(each.port_security for each in interfaces[:1]),
    }
    _add_addresses(shape, interfaces, related)
    _add_reason(shape, instance, state, related)
    return shape


def _placement(instance: Instance, related: Related) -> dict[str, Any]:
    group = instance.server_group
    found = {"AvailabilityZone": zone_of(instance), "Tenancy": "default", "GroupName": group.name if group else ""}
    return found | ({"GroupId": related.ids[names.PLACEMENT_GROUP][group.id]} if group else {})


def type_of(instance: Instance, related: Related) -> str:
    """Return the instance type under the name in the launch request. For a stopped instance that is being resized, this
    is the new type.
    """
    coming = instance.vm_state == VmState.STOPPED and instance.old_flavor is not None
    flavor: str = (instance.old_flavor if coming else instance.flavor)["name"]  # type: ignore[index]
    requested, name = related.given.get(instance.id, {}).get(given.INSTANCE_TYPE, ("", ""))
    return str(requested) if name == flavor else flavor


def device_name(device: BlockDevice, related: Related) -> str:
    """Return the device name in the launch request, by default the device name in the guest."""
    name: str = related.given.get(device.id, {}).get(given.DEVICE, device.device_name)
    return name


def zone_of(instance: Instance) -> str:
    """Return the zone of the instance's host, or the requested zone while the instance has no host."""
    return instance.host.availability_zone if instance.host else instance.availability_zone


def image_of(instance: Instance, related: Related) -> uuid.UUID | None:
    """Return the image of an instance, or the image that its root volume was created from."""
    if instance.image_id is not None:
        return instance.image_id
    requested = related.given.get(instance.id, {}).get(given.IMAGE)
    if requested is not None:
        return uuid.UUID(requested)
    root = next((device for device in related.volumes.get(instance.id, ()) if device.is_root), None)
    return root.source_id if root is not None and root.source_type == "image" else None


def root_device(instance: Instance, related: Related) -> str:
    root = next((device for device in related.volumes.get(instance.id, ()) if device.is_root), None)
    return device_name(root, related) if root is not None else device_names.root_device(instance)


def block_devices(instance: Instance, related: Related) -> list[dict[str, Any]]:
    """Return the existing volumes of an instance."""
    return [
        {
            "DeviceName": device_name(device, related),
            "Ebs": {
                "VolumeId": related.ids[names.VOLUME][device.volume_id],
                "Status": "detaching" if device.leaving else "attached" if device.plugged else "attaching",
                "AttachTime": device.created_at,
                "DeleteOnTermination": device.delete_on_termination,
            },
        }
        for device in related.volumes.get(instance.id, ())
        if device.volume_id is not None
    ]


def _boots_from_volume(instance: Instance, related: Related) -> bool:
    return any(device.is_root for device in related.volumes.get(instance.id, ()))


def _groups(interfaces: Sequence[GuestInterface], related: Related) -> list[dict[str, Any]]:
    found = {key: name for interface in interfaces for key, name in interface.groups.items()}
    return [
        {"GroupId": related.ids[names.GROUP][key], "GroupName": name}
        for key, name in sorted(found.items(), key=lambda each: each[1])
    ]


def _add_addresses(shape: dict[str, Any], interfaces: Sequence[GuestInterface], related: Related) -> None:
    """Add the addresses, subnet and VPC of the first interface to the instance."""
    if not interfaces:
        return
    first = interfaces[0]
    shape["VpcId"] = related.ids[names.VPC][first.network_id]
    ipv4, ipv6 = _of_version(first, 4), _of_version(first, 6)
    if ipv4:
        shape |= {"PrivateIpAddress": ipv4[0].address, "SubnetId": related.ids[names.SUBNET][ipv4[0].subnet_id]}
    elif first.addresses:
        shape["SubnetId"] = related.ids[names.SUBNET][first.addresses[0].subnet_id]
    if ipv6:
        shape["Ipv6Address"] = ipv6[0].address
    public = next((each.floating for interface in interfaces for each in interface.addresses if each.floating), None)
    if public is not None:
        shape |= {"PublicIpAddress": public, "PublicDnsName": public}


def _of_version(interface: GuestInterface, version: int) -> list[GuestAddress]:
    return [address for address in interface.addresses if address.version == version]


def _interface(interface: GuestInterface, related: Related) -> dict[str, Any]:
    addresses, ipv4 = interface.addresses, _of_version(interface, 4)
    shape: dict[str, Any] = {
        "NetworkInterfaceId": related.ids[names.INTERFACE][interface.port_id],
        "VpcId": related.ids[names.VPC][interface.network_id],
        "SubnetId": related.ids[names.SUBNET][addresses[0].subnet_id] if addresses else None,
        "Description": interface.description,
        "OwnerId": interface.project_id.hex,
        "Status": "in-use",
        "MacAddress": interface.mac_address,
        "SourceDestCheck": interface.port_security,
        "InterfaceType": "interface",
        "Groups": _groups([interface], related),
        "Ipv6Addresses": [{"Ipv6Address": each.address} for each in _of_version(interface, 6)],
        "PrivateIpAddresses": [
            {"PrivateIpAddress": each.address, "Primary": number == 0, **_public(each)}
            for number, each in enumerate(ipv4)
        ],
        "Attachment": {
            "AttachmentId": related.ids[names.ATTACHMENT][interface.port_id],
            "DeviceIndex": interface.device_index,
            "Status": "detaching" if interface.leaving else "attached",
            "AttachTime": interface.created_at,
            "DeleteOnTermination": interface.delete_with_device,
        },
    }
    if ipv4:
        shape |= {"PrivateIpAddress": ipv4[0].address, **_public(ipv4[0])}
    return shape


def _public(address: GuestAddress) -> dict[str, Any]:
    if address.floating is None or address.floating_project is None:
        return {}
    owner = address.floating_project.hex
    return {"Association": {"PublicIp": address.floating, "PublicDnsName": address.floating, "IpOwnerId": owner}}


FIXED_OPTIONS = {"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled"}
"""Metadata options with a fixed value; any other value is rejected."""


def options_shape(row: MetadataOptions | None) -> dict[str, Any]:
    """Return the representation of an instance's metadata options."""
    return {
        "State": "applied",
        "HttpTokens": row.http_tokens if row else DEFAULT_TOKENS,
        "HttpPutResponseHopLimit": row.hop_limit if row else DEFAULT_HOPS,
        **FIXED_OPTIONS,
    }


def _add_reason(shape: dict[str, Any], instance: Instance, state: str, related: Related) -> None:
    """Add the reason for the state of an instance that is stopped, terminated or failed."""
    fault = related.faults.get(instance.id)
    if instance.vm_state == VmState.ERROR and fault is not None:
        code = "Server.InternalError" if fault.code >= 500 else "Client.InternalError"
        shape["StateReason"] = {"Code": code, "Message": fault.message}
        shape["StateTransitionReason"] = f"{code}: {fault.message}"
    elif state in {states.TERMINATED, states.STOPPED}:
        words = "terminated" if state == states.TERMINATED else "stopped"
        shape["StateReason"] = {"Code": "Client.UserInitiatedShutdown", "Message": f"The instance was {words}"}
