"""Representations of instances that a caller may see, with their related records, and EC2's six instance states with
the server states that each represents.

A failed launch is ``terminated``, as EC2 has no error state. Every server that can be started again is ``stopped``:
stopped, suspended, paused and shelved servers.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.api.ec2.frame import Arguments, Call, Shape, names, tags
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.disks import device_names
from provisioning.compute.models import BlockDevice, Instance, InstanceFault
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.compute.states import PowerState, TaskState, VmState
from provisioning.ec2 import given
from provisioning.ec2.given import DEFAULT_HOPS, DEFAULT_TOKENS, options_of
from provisioning.ec2.models import MetadataOptions
from provisioning.network import selectors as network
from provisioning.network.selectors import GuestAddress, GuestInterface

PENDING, RUNNING, SHUTTING_DOWN, TERMINATED, STOPPING, STOPPED = (
    "pending",
    "running",
    "shutting-down",
    "terminated",
    "stopping",
    "stopped",
)
CODES = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48, STOPPING: 64, STOPPED: 80}
_OF_TASK = {
    TaskState.DELETING: SHUTTING_DOWN,
    TaskState.SOFT_DELETING: SHUTTING_DOWN,
    TaskState.POWERING_ON: PENDING,
    TaskState.UNPAUSING: PENDING,
    TaskState.RESUMING: PENDING,
    TaskState.UNSHELVING: PENDING,
    TaskState.POWERING_OFF: STOPPING,
    TaskState.PAUSING: STOPPING,
    TaskState.SUSPENDING: STOPPING,
    TaskState.SHELVING: STOPPING,
    TaskState.SHELVING_IMAGE_UPLOADING: STOPPING,
}
_OF_STATE = {
    VmState.BUILDING: PENDING,
    VmState.ACTIVE: RUNNING,
    VmState.RESCUED: RUNNING,
    VmState.STOPPED: STOPPED,
    VmState.PAUSED: STOPPED,
    VmState.SUSPENDED: STOPPED,
    VmState.SHELVED: STOPPED,
    VmState.SHELVED_OFFLOADED: STOPPED,
}
_ON = (PowerState.RUNNING, PowerState.PAUSED)
_GONE = (VmState.DELETED, VmState.SOFT_DELETED)


def name_of(instance: Instance) -> str:
    """Return EC2's name of the instance's state."""
    if instance.vm_state in _GONE:
        return TERMINATED
    task = _OF_TASK.get(TaskState(instance.task_state)) if instance.task_state else None
    if task is not None:
        return task
    if instance.vm_state == VmState.ERROR and instance.launched_at is None:
        return TERMINATED
    state = _OF_STATE.get(VmState(instance.vm_state))
    return state or (RUNNING if instance.power_state in _ON else STOPPED)


def condition(states: Sequence[str]) -> Q:
    """Return the filter condition for instances in one of these states, which are names as ``name_of`` returns them."""
    gone, launched = Q(vm_state__in=_GONE), Q(launched_at__isnull=False)
    stable = Q(vm_state__in=[state for state, name in _OF_STATE.items() if name in states])
    if TERMINATED in states:
        stable |= Q(vm_state=VmState.ERROR) & ~launched
    if RUNNING in states:
        stable |= Q(vm_state=VmState.ERROR, power_state__in=_ON) & launched
    if STOPPED in states:
        stable |= Q(vm_state=VmState.ERROR) & ~Q(power_state__in=_ON) & launched
    tasks = Q(task_state__in=[task for task, name in _OF_TASK.items() if name in states])
    matching = ~gone & (tasks | (stable & ~Q(task_state__in=_OF_TASK)))
    return matching | gone if TERMINATED in states else matching


def condition_of_codes(codes: Sequence[str]) -> Q:
    """Return the condition of instances whose state has one of these codes."""
    return condition([name for name, code in CODES.items() if str(code) in codes])


def state_shape(name: str) -> dict[str, object]:
    return {"Code": CODES[name], "Name": name}


SHOWN_AFTER_END = timedelta(hours=1)
"""How long a terminated instance is shown."""
ORDER = ("created_at", "reservation_id", "launch_index", "id")
"""This order keeps the instances of one launch adjacent."""


@dataclass(frozen=True)
class Related:
    """Records that instances refer to, fetched with a constant number of queries."""

    ids: names.Ids
    interfaces: Mapping[uuid.UUID, Sequence[GuestInterface]] = field(default_factory=dict)
    """Instance → its interfaces."""
    volumes: Mapping[uuid.UUID, Sequence[BlockDevice]] = field(default_factory=dict)
    """Instance → its volumes."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    faults: Mapping[uuid.UUID, InstanceFault] = field(default_factory=dict)
    metadata_options: Mapping[uuid.UUID, MetadataOptions] = field(default_factory=dict)
    given: Mapping[uuid.UUID, Arguments] = field(default_factory=dict)
    """Instance or disk → values from client requests (``ec2.given``)."""


def visible_rows(context: RequestContext) -> QuerySet[Instance]:
    """Return the project's instances with their groups, including instances terminated in the last hour."""
    return selectors.rows_with_ended(context, timezone.now() - SHOWN_AFTER_END).select_related("server_group")


def instances_named(call: Call, specified: Sequence[str]) -> list[Instance]:
    """Return the instances with these ids in the order of the ids. Raises Ec2Error."""
    return names.those(names.INSTANCE, specified, visible_rows(call.context))


def related_records(instances: Sequence[Instance]) -> Related:
    """Fetch the related records of these instances."""
    keys = [instance.id for instance in instances]
    if not keys:
        return Related({})
    interfaces, volumes = network.interfaces_of_all(keys), volumes_shown(keys)
    every = [interface for each in interfaces.values() for interface in each]
    ports = [interface.port_id for interface in every]
    devices = [device for each in volumes.values() for device in each]
    requested = given.values_of([*keys, *(device.id for device in devices)])
    ec2_ids = names.ids_of(
        {
            names.INSTANCE: keys,
            names.IMAGE: [
                *(instance.image_id for instance in instances),
                *(uuid.UUID(each[given.IMAGE]) for each in requested.values() if given.IMAGE in each),
                *(device.source_id for device in devices if device.source_type == "image" and device.source_id),
            ],
            names.INTERFACE: ports,
            names.ATTACHMENT: ports,
            names.VPC: [interface.network_id for interface in every],
            names.SUBNET: [address.subnet_id for interface in every for address in interface.addresses],
            names.GROUP: [group for interface in every for group in interface.groups],
            names.VOLUME: [device.volume_id for device in devices],
            names.PLACEMENT_GROUP: [instance.server_group_id for instance in instances],
        }
    )
    return Related(
        ids=ec2_ids,
        interfaces=interfaces,
        volumes=volumes,
        tags=tags.shapes(names.INSTANCE, keys),
        faults=selectors.fault_of(instances),
        metadata_options=options_of(keys),
        given=requested,
    )


VIRTUALIZATION, ARCHITECTURE = "hvm", "x86_64"


def reservation(instances: Sequence[Instance], related: Related) -> Shape:
    """Return the reservation of the instances of one launch."""
    first = instances[0]
    return {
        "ReservationId": first.reservation_id,
        "OwnerId": first.project_id.hex,
        "Groups": [],
        "Instances": [instance_shape(instance, related) for instance in instances],
    }


def instance_shape(instance: Instance, related: Related) -> Shape:
    """Return the representation of an instance in DescribeInstances and RunInstances."""
    interfaces = related.interfaces.get(instance.id, ())
    state, image = name_of(instance), image_of(instance, related)
    shape: Shape = {
        "InstanceId": related.ids[names.INSTANCE][instance.id],
        "ImageId": related.ids[names.IMAGE].get(image, "") if image else "",
        "State": state_shape(state),
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


def _placement(instance: Instance, related: Related) -> Shape:
    group = instance.server_group
    placement = {"AvailabilityZone": zone_of(instance), "Tenancy": "default", "GroupName": group.name if group else ""}
    return placement | ({"GroupId": related.ids[names.PLACEMENT_GROUP][group.id]} if group else {})


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


def block_devices(instance: Instance, related: Related) -> list[Shape]:
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


def _groups(interfaces: Sequence[GuestInterface], related: Related) -> list[Shape]:
    groups = {key: name for interface in interfaces for key, name in interface.groups.items()}
    return [
        {"GroupId": related.ids[names.GROUP][key], "GroupName": name}
        for key, name in sorted(groups.items(), key=lambda each: each[1])
    ]


def _add_addresses(shape: Shape, interfaces: Sequence[GuestInterface], related: Related) -> None:
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


def _interface(interface: GuestInterface, related: Related) -> Shape:
    addresses, ipv4 = interface.addresses, _of_version(interface, 4)
    shape: Shape = {
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


def _public(address: GuestAddress) -> Shape:
    if address.floating is None or address.floating_project is None:
        return {}
    owner = address.floating_project.hex
    return {"Association": {"PublicIp": address.floating, "PublicDnsName": address.floating, "IpOwnerId": owner}}


FIXED_OPTIONS = {"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled"}
"""Metadata options with a fixed value; any other value is rejected."""


def options_shape(row: MetadataOptions | None) -> Shape:
    """Return the representation of an instance's metadata options."""
    return {
        "State": "applied",
        "HttpTokens": row.http_tokens if row else DEFAULT_TOKENS,
        "HttpPutResponseHopLimit": row.hop_limit if row else DEFAULT_HOPS,
        **FIXED_OPTIONS,
    }


def _add_reason(shape: Shape, instance: Instance, state: str, related: Related) -> None:
    """Add the reason for the state of an instance that is stopped, terminated or failed."""
    fault = related.faults.get(instance.id)
    if instance.vm_state == VmState.ERROR and fault is not None:
        code = "Server.InternalError" if fault.code >= 500 else "Client.InternalError"
        shape["StateReason"] = {"Code": code, "Message": fault.message}
        shape["StateTransitionReason"] = f"{code}: {fault.message}"
    elif state in {TERMINATED, STOPPED}:
        words = "terminated" if state == TERMINATED else "stopped"
        shape["StateReason"] = {"Code": "Client.UserInitiatedShutdown", "Message": f"The instance was {words}"}
