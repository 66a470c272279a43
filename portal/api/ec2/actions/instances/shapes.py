"""How instances look in EC2's answers."""

from collections.abc import Sequence
from typing import Any

from portal.api.ec2 import tags
from portal.api.ec2.actions.instances import states
from portal.api.ec2.actions.instances.related import Related
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.states import VmState
from provisioning.network.models import FixedIP, FloatingIP, Port

ROOT = "/dev/vda"
VIRTUALIZATION, ARCHITECTURE = "hvm", "x86_64"


def reservation(instances: Sequence[Instance], related: Related) -> dict[str, Any]:
    """Return the instances of one launch."""
    first = instances[0]
    return {
        "ReservationId": first.reservation_id,
        "OwnerId": first.project_id.hex,
        "Groups": [],
        "Instances": [instance_shape(instance, related) for instance in instances],
    }


def instance_shape(instance: Instance, related: Related) -> dict[str, Any]:
    """Return one instance, as DescribeInstances and RunInstances show it."""
    ports = related.ports.get(instance.id, ())
    state = states.name_of(instance)
    shape: dict[str, Any] = {
        "InstanceId": related.ids[instance.id],
        "ImageId": related.images[instance.image_id] if instance.image_id else "",
        "State": states.shape(state),
        "InstanceType": instance.flavor["name"],
        "KeyName": instance.key_name,
        "AmiLaunchIndex": instance.launch_index,
        "ProductCodes": [],
        "LaunchTime": instance.created_at,
        "Placement": {"AvailabilityZone": zone_of(instance), "Tenancy": "default", "GroupName": ""},
        "Monitoring": {"State": "disabled"},
        "Architecture": ARCHITECTURE,
        "RootDeviceType": "ebs" if _boots_from_volume(instance, related) else "instance-store",
        "RootDeviceName": root_device(related.volumes.get(instance.id, ())),
        "BlockDeviceMappings": block_devices(instance, related),
        "VirtualizationType": VIRTUALIZATION,
        "EbsOptimized": False,
        "PrivateDnsName": instance.hostname,
        "PublicDnsName": "",
        "StateTransitionReason": "",
        "Tags": tags.shape(related.tags.get(instance.id, {})),
        "SecurityGroups": _groups(ports, related),
        "NetworkInterfaces": [_interface(port, related) for port in ports],
        "SourceDestCheck": all(port.port_security_enabled for port in ports[:1]),
    }
    _add_addresses(shape, ports, related)
    _add_reason(shape, instance, state, related)
    return shape


def zone_of(instance: Instance) -> str:
    """Return the zone an instance is in, or the one that was asked for while it is nowhere."""
    return instance.host.availability_zone if instance.host else instance.availability_zone


def root_device(volumes: Sequence[BlockDevice]) -> str:
    return next((device.device_name for device in volumes if device.is_root and device.device_name), ROOT)


def block_devices(instance: Instance, related: Related) -> list[dict[str, Any]]:
    """Return the volumes of an instance, as far as they are there."""
    return [
        {
            "DeviceName": device.device_name,
            "Ebs": {
                "VolumeId": related.volume_ids[device.volume_id],
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


def _groups(ports: Sequence[Port], related: Related) -> list[dict[str, Any]]:
    found = {group.id: group.name for port in ports for group in port.security_groups.all()}
    return [
        {"GroupId": related.groups[key], "GroupName": name}
        for key, name in sorted(found.items(), key=lambda each: each[1])
    ]


def _add_addresses(shape: dict[str, Any], ports: Sequence[Port], related: Related) -> None:
    """Say where the first interface is, as EC2 has it at the instance itself."""
    if not ports:
        return
    first = ports[0]
    shape["VpcId"] = related.networks[first.network_id]
    fixed = _of_version(first, 4)
    if fixed is not None:
        shape |= {"PrivateIpAddress": fixed.address, "SubnetId": related.subnets[fixed.subnet_id]}
    elif first.fixed_ips.all():
        shape["SubnetId"] = related.subnets[first.fixed_ips.all()[0].subnet_id]
    sixth = _of_version(first, 6)
    if sixth is not None:
        shape["Ipv6Address"] = sixth.address
    public = next((floating for port in ports for floating in port.floating_ips.all()), None)
    if public is not None:
        shape |= {"PublicIpAddress": public.address, "PublicDnsName": public.address}


def _of_version(port: Port, version: int) -> FixedIP | None:
    return next((fixed for fixed in port.fixed_ips.all() if fixed.subnet.ip_version == version), None)


def _interface(port: Port, related: Related) -> dict[str, Any]:
    leads = {floating.fixed_address: floating for floating in port.floating_ips.all()}
    fourth = [fixed for fixed in port.fixed_ips.all() if fixed.subnet.ip_version == 4]
    shape: dict[str, Any] = {
        "NetworkInterfaceId": related.port_ids[port.id],
        "VpcId": related.networks[port.network_id],
        "SubnetId": related.subnets[port.fixed_ips.all()[0].subnet_id] if port.fixed_ips.all() else None,
        "Description": port.description,
        "OwnerId": port.project_id.hex,
        "Status": "in-use",
        "MacAddress": port.mac_address,
        "SourceDestCheck": port.port_security_enabled,
        "InterfaceType": "interface",
        "Groups": _groups([port], related),
        "Ipv6Addresses": [
            {"Ipv6Address": fixed.address} for fixed in port.fixed_ips.all() if fixed.subnet.ip_version == 6
        ],
        "PrivateIpAddresses": [
            {"PrivateIpAddress": fixed.address, "Primary": number == 0, **_public(leads.get(fixed.address))}
            for number, fixed in enumerate(fourth)
        ],
        "Attachment": {
            "AttachmentId": related.attachments[port.id],
            "DeviceIndex": port.device_index,
            "Status": "detaching" if port.leaving else "attached",
            "AttachTime": port.created_at,
            "DeleteOnTermination": port.delete_with_device,
        },
    }
    if fourth:
        shape |= {"PrivateIpAddress": fourth[0].address, **_public(leads.get(fourth[0].address))}
    return shape


def _public(floating: FloatingIP | None) -> dict[str, Any]:
    if floating is None:
        return {}
    owner = floating.project_id.hex
    return {"Association": {"PublicIp": floating.address, "PublicDnsName": floating.address, "IpOwnerId": owner}}


def _add_reason(shape: dict[str, Any], instance: Instance, state: str, related: Related) -> None:
    """Say why an instance is not there."""
    fault = related.faults.get(instance.id)
    if instance.vm_state == VmState.ERROR and fault is not None:
        code = "Server.InternalError" if fault.code >= 500 else "Client.InternalError"
        shape["StateReason"] = {"Code": code, "Message": fault.message}
        shape["StateTransitionReason"] = f"{code}: {fault.message}"
    elif state in {states.TERMINATED, states.STOPPED}:
        words = "terminated" if state == states.TERMINATED else "stopped"
        shape["StateReason"] = {"Code": "Client.UserInitiatedShutdown", "Message": f"The instance was {words}"}
