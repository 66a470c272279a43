"""RunInstances: launch instances, with their block device mappings."""

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portal.api.ec2.actions.images.describe import root_gb
from portal.api.ec2.actions.instances import shapes
from portal.api.ec2.actions.instances.attributes import read_options
from portal.api.ec2.actions.placement_groups import of_placement
from portal.api.ec2.actions.places import flavor_of_type
from portal.api.ec2.frame import Arguments, Call, Ec2Error, Shape, action, errors, names, tags
from portal.common.http import rate_limits
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.lock import lock
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.image_disks import disks_of as disks_named_by
from provisioning.compute.launch.request import DiskRequest, LaunchRequest, NetworkRequest, Networks
from provisioning.compute.models import BlockDevice, Instance
from provisioning.ec2 import creation_tags, given
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use
from provisioning.network import selectors as network
from provisioning.network.errors import AmbiguousNetworkError, SubnetNotFoundError
from provisioning.network.selectors.vpcs import default_group_of, default_network

ROOT_NAMES = frozenset({"/dev/vda", "vda", "/dev/sda1", "sda1", "/dev/sda", "/dev/xvda"})
"""Names of the root device."""
_TAKEN_OF_DEVICES = frozenset(
    {"SnapshotId", "VolumeSize", "VolumeType", "DeleteOnTermination", "Encrypted", "Iops", "Throughput"}
)


@dataclass(frozen=True, slots=True)
class RequestedDisk:
    """A disk of the request, with values that only the EC2 API shows."""

    disk: DiskRequest
    name: str
    aws_type: Arguments | None = None
    """An AWS volume type, as returned by ``volume_types.of_amazon``."""


def disks_of(call: Call) -> tuple[RequestedDisk, ...]:
    """Return the disks. Raises Ec2Error InvalidBlockDeviceMapping for an invalid mapping.

    A mapping in the request overrides the image's mapping with the same device name.
    """
    mappings: Sequence[Arguments] = call.get("BlockDeviceMappings", [])
    if not mappings:
        return ()
    seen = [mapping.get("DeviceName") for mapping in mappings]
    if len(seen) != len(set(seen)):
        raise _invalid("A device name is given twice")
    image = images_of_use(call.project_id, listed=False).filter(pk=names.resource(names.IMAGE, call.get("ImageId", "")))
    own = _Image(image.first())
    dropped = {_key(mapping["DeviceName"]) for mapping in mappings if "NoDevice" in mapping and "DeviceName" in mapping}
    requested = [each for mapping in mappings if (each := _disk(call, mapping, own)) is not None]
    by_device = {_key(each.name): each for each in requested}
    if len(by_device) < len(requested):
        raise _invalid("Two device names refer to the same disk")
    if by_device.keys().isdisjoint(own.disks) and not dropped:
        return tuple(by_device.values())
    named = {key: RequestedDisk(disk, "") for key, disk in own.disks.items() if key not in dropped}
    return tuple((named | by_device).values())


class _Image:
    """The image of a launch and its block device mapping."""

    def __init__(self, image: Image | None) -> None:
        self.image = image
        every = disks_named_by(image.properties) if image is not None else ()
        self.disks = {("" if disk.boot_index == 0 else names.guest_name(disk.device_name)): disk for disk in every}
        """Device name in the guest → disk; the key of the root disk is empty."""


def _key(name: str) -> str:
    return "" if name in ROOT_NAMES else names.guest_name(name)


def _disk(call: Call, mapping: Arguments, image: _Image) -> RequestedDisk | None:
    name = mapping.get("DeviceName", "")
    if "NoDevice" in mapping:
        return None
    if not name:
        raise errors.missing_parameter("BlockDeviceMapping.DeviceName")
    virtual, volume = mapping.get("VirtualName"), mapping.get("Ebs")
    if virtual and volume:
        raise _invalid(f"{name[:64]} is either a virtual device or a volume")
    if virtual:
        return RequestedDisk(_local(name, virtual), name)
    if volume is None:
        raise _invalid(f"{name[:64]} has neither Ebs nor VirtualName nor NoDevice")
    disk = _volume(call, name, volume, image)
    return RequestedDisk(disk, name, names.of_amazon(volume, disk.volume_type))


def _local(name: str, virtual: str) -> DiskRequest:
    number = virtual.removeprefix("ephemeral")
    if virtual.startswith("ephemeral") and number.isascii() and number.isdigit():
        return DiskRequest(
            "blank", "local", boot_index=-1, delete_on_termination=True, device_name=names.guest_name(name)
        )
    raise _invalid(f"{virtual[:64]!r} is not a virtual device")


def _volume(call: Call, name: str, volume: Arguments, image: _Image) -> DiskRequest:
    strange = sorted(each for each, value in volume.items() if value and each not in _TAKEN_OF_DEVICES)
    if strange:
        raise errors.unsupported(f"The parameter BlockDeviceMapping.Ebs.{strange[0]} is not supported by this cloud")
    if volume.get("Encrypted"):
        raise errors.unsupported("The volume type determines whether a volume is encrypted: specify an encrypted type")
    key, size, snapshot = _key(name), volume.get("VolumeSize"), volume.get("SnapshotId")
    before = image.disks.get(key)
    if size is None and not snapshot and key and before is None:
        raise errors.missing_parameter("BlockDeviceMapping.Ebs.VolumeSize")
    if size is not None and size < 1:
        raise errors.invalid_value("VolumeSize", size, "It must be at least 1 (GiB).")
    volume_type = names.requested_type(call.context, volume.get("VolumeType"))
    keeps = volume.get("DeleteOnTermination")
    if before is not None and not snapshot:
        return replace(
            before,
            size=size or before.size,
            volume_type=volume_type or before.volume_type,
            delete_on_termination=before.delete_on_termination if keeps is None else keeps,
        )
    disk = DiskRequest(
        source_type="snapshot" if snapshot else "blank" if key else "image",
        destination_type="volume",
        source_id=str(names.resource(names.SNAPSHOT, snapshot)) if snapshot else None,
        boot_index=-1 if key else 0,
        size=size,
        volume_type=volume_type,
        delete_on_termination=True if keeps is None else keeps,
        device_name=key,
    )
    return disk if key or snapshot else _of_image(call, disk, image)


def _of_image(call: Call, root: DiskRequest, image: _Image) -> DiskRequest:
    """Return the root disk as a volume that is created from the image."""
    source = names.resource(names.IMAGE, call.get("ImageId", ""))
    least = root_gb(image.image) if image.image is not None else 1
    return replace(root, source_id=str(source), size=root.size or least)


def store_requested(instances: Sequence[Instance], requested: Sequence[RequestedDisk], image: uuid.UUID) -> None:
    """Store the device names of a launch, and the image of its root volumes."""
    devices: dict[uuid.UUID, list[BlockDevice]] = {}
    for device in BlockDevice.objects.filter(instance__in=instances).order_by("position") if requested else ():
        devices.setdefault(device.instance_id, []).append(device)
    for instance in instances:
        # Disks of the image come first, unless a mapping has replaced them.
        for device, each in zip(devices[instance.id][-len(requested) :], requested, strict=True) if requested else ():
            values: dict[str, object] = {given.DEVICE: each.name} if each.name else {}
            if each.aws_type:
                values[given.VOLUME_TYPE] = each.aws_type
            given.keep(instance.project_id, device.id, values)
        if instance.image_id is None:
            given.keep(instance.project_id, instance.id, {given.IMAGE: image.hex})


def _invalid(why: str) -> Ec2Error:
    return Ec2Error("InvalidBlockDeviceMapping", why)


TYPE_OF_OLD_CLIENTS = "m1.small"
"""EC2's default instance type."""
_CODES = {
    "imageRef": "InvalidAMIID.NotFound",
    "key_name": "InvalidKeyPair.NotFound",
    "security_groups": "InvalidGroup.NotFound",
    "availability_zone": "InvalidParameterValue",
    "block_device_mapping_v2": "InvalidBlockDeviceMapping",
    "group": "InvalidPlacementGroup.Unknown",
}
"""Field that a launch rejects → error code."""
CREATED_LATER = (names.VOLUME, names.INTERFACE)
"""Kinds of resources created after scheduling."""
NEVER_CREATED = ("elastic-gpu", "spot-instances-request")
"""Resource types that may be tagged in a launch, but do not exist in this cloud."""
SEVERAL_NETWORKS = "There are several VPCs, and none of them is the default: specify a SubnetId."


@action(
    "RunInstances",
    "os_compute_api:servers:create",
    takes="ImageId InstanceType MinCount MaxCount KeyName SecurityGroupIds SecurityGroups UserData BlockDeviceMappings "
    "NetworkInterfaces SubnetId PrivateIpAddress Placement ClientToken TagSpecifications DisableApiTermination "
    "InstanceInitiatedShutdownBehavior Monitoring EbsOptimized MetadataOptions",
    ignored="AdditionalInfo CreditSpecification PrivateDnsNameOptions MaintenanceOptions HibernationOptions",
    missing="InvalidParameterValue",
    conflict="InvalidParameterCombination",
)
def run_instances(call: Call) -> Shape:
    """Launch as many instances as the quota allows, between ``MinCount`` and ``MaxCount``."""
    _check_supported(call)
    specified = tags.specified(call, names.INSTANCE, CREATED_LATER, NEVER_CREATED)
    options = read_options(call.get("MetadataOptions", {}))
    disks = disks_of(call)
    request = _request(call, specified.get(names.INSTANCE.resource_type, {}), options, disks)
    rate_limits.check(call.context, rate_limits.LAUNCHES, request.max_count)
    try:
        made = launch(call.context, request)
    except InvalidInputError as error:
        raise Ec2Error(_CODES.get(error.field or "", "InvalidParameterValue"), error.message) from error
    except AmbiguousNetworkError as error:
        raise Ec2Error("VPCIdNotSpecified", SEVERAL_NETWORKS) from error
    tags.write(call, names.INSTANCE, [instance.id for instance in made], specified)
    later = {kind.resource_type: specified.get(kind.resource_type, {}) for kind in CREATED_LATER}
    creation_tags.keep(call.project_id, [instance.id for instance in made], later)
    store_requested(made, disks, names.resource(names.IMAGE, call.arguments["ImageId"]))
    _keep_type(call, made)
    if call.get("DisableApiTermination", False):
        call.enforce("os_compute_api:os-lock-server:lock")
        made = [lock(call.context, instance.id, reason="disableApiTermination") for instance in made]
    return shapes.reservation(made, shapes.related_records(made))


def _keep_type(call: Call, made: Sequence[Instance]) -> None:
    """Store the requested instance type if it is an alias of the flavor."""
    requested = call.get("InstanceType", TYPE_OF_OLD_CLIENTS)
    for instance in made:
        if instance.flavor["name"] != requested:
            given.keep(instance.project_id, instance.id, {given.INSTANCE_TYPE: [requested, instance.flavor["name"]]})


def _request(
    call: Call, own_tags: Mapping[str, str], options: Arguments, disks: Sequence[RequestedDisk]
) -> LaunchRequest:
    least, most = call.arguments["MinCount"], call.arguments["MaxCount"]
    if not 1 <= least <= most:
        raise errors.invalid_value("minCount", least, f"It must be at least 1 and at most maxCount ({most}).")
    flavor = flavor_of_type(call, call.get("InstanceType", TYPE_OF_OLD_CLIENTS))
    image = call.get("ImageId")
    if image is None:
        raise errors.missing_parameter("ImageId")
    placement = call.get("Placement", {})
    group = of_placement(call, placement)
    networks, groups = _networks(call, most)
    groups = groups or _default_groups(call, networks)
    return LaunchRequest(
        name=own_tags.get("Name") or f"ec2-{uuid.uuid4().hex[:8]}",
        image_id=str(names.resource(names.IMAGE, image)),
        flavor_ref=flavor.flavorid,
        networks=networks,
        key_name=call.get("KeyName"),
        security_groups=groups,
        user_data=_user_data(call.get("UserData")),
        min_count=least,
        max_count=most,
        availability_zone=placement.get("AvailabilityZone") or None,
        scheduler_hints={} if group is None else {"group": str(group.id)},
        disks=tuple(each.disk for each in disks),
        metadata_options=options,
    )


_PLACEMENT = frozenset({"AvailabilityZone", "GroupId", "GroupName", "Tenancy"})


def _check_supported(call: Call) -> None:
    """Reject arguments of which this cloud supports only one value. Raises Ec2Error."""
    placement = call.get("Placement", {})
    strange = sorted(name for name, value in placement.items() if value and name not in _PLACEMENT)
    if strange:
        raise errors.unsupported(f"The parameter Placement.{strange[0]} is not supported by this cloud")
    refused = {
        "Placement.Tenancy": placement.get("Tenancy", "default") != "default",
        "Monitoring.Enabled": call.get("Monitoring", {}).get("Enabled", False),
        "EbsOptimized": call.get("EbsOptimized", False),
        "InstanceInitiatedShutdownBehavior": call.get("InstanceInitiatedShutdownBehavior", "stop") != "stop",
    }
    for name, supported in refused.items():
        if supported:
            raise errors.unsupported(f"This value of the parameter {name} is not supported by this cloud")


def _user_data(text: str | None) -> str | None:
    """Return user data in base64. Raises Ec2Error if it is not valid base64."""
    if not text:
        return None
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Ec2Error("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from error
    return "".join(text.split())


def _networks(call: Call, most: int) -> tuple[Networks, tuple[str, ...] | None]:
    """Return the requested interfaces, and the security groups that apply to all of them."""
    interfaces: Sequence[Arguments] = call.get("NetworkInterfaces", [])
    if not interfaces:
        groups = _groups(call.get("SecurityGroupIds", []), call.get("SecurityGroups", []))
        subnet, address = call.get("SubnetId"), call.get("PrivateIpAddress")
        if address and not subnet:
            raise errors.missing_parameter("SubnetId")
        return ((_on_subnet(call, subnet, address),) if subnet else None), groups
    if any(call.get(name) for name in ("SubnetId", "SecurityGroupIds", "SecurityGroups", "PrivateIpAddress")):
        raise errors.combination(
            "Network interfaces and an instance-level subnet ID or security groups may not be specified together"
        )
    ordered = sorted(interfaces, key=lambda each: each.get("DeviceIndex", 0))
    if [each.get("DeviceIndex", 0) for each in ordered] != list(range(len(ordered))):
        raise errors.invalid_value("NetworkInterface.DeviceIndex", "", "They must be 0, 1, … without gaps.")
    requested = {tuple(each.get("Groups", [])) for each in ordered if not each.get("NetworkInterfaceId")}
    if len(requested) > 1:
        raise errors.unsupported(
            "All new network interfaces in one RunInstances request must have the same security groups in this cloud."
        )
    return tuple(_interface(call, each) for each in ordered), _groups(next(iter(requested), ()), [])


def _default_groups(call: Call, networks: Networks | None) -> tuple[str, ...] | None:
    """Return the default group of the VPC if all new interfaces are on one VPC. None: the project's default group."""
    usual = default_network(call.context) if networks is None else None
    requested = [] if networks is None or isinstance(networks, str) else [each.network_id for each in networks]
    named = {each for each in requested if each} or ({str(usual.id)} if usual is not None else set())
    if len(named) != 1:
        return None
    group = default_group_of(uuid.UUID(named.pop()))
    return (str(group.id),) if group is not None and group.project_id == call.project_id else None


_TAKEN = frozenset(
    {"DeviceIndex", "SubnetId", "NetworkInterfaceId", "PrivateIpAddress", "Groups", "DeleteOnTermination"}
)


def _interface(call: Call, specified: Arguments) -> NetworkRequest:
    strange = sorted(name for name, value in specified.items() if value and name not in _TAKEN)
    if strange:
        raise errors.unsupported(f"The parameter NetworkInterface.{strange[0]} is not supported by this cloud")
    port = specified.get("NetworkInterfaceId")
    if port:
        if specified.get("SubnetId") or specified.get("PrivateIpAddress") or specified.get("Groups"):
            raise errors.combination("A network interface has its own subnet, addresses and security groups")
        return NetworkRequest(port_id=str(names.resource(names.INTERFACE, port)))
    if specified.get("DeleteOnTermination") is False:
        raise errors.unsupported("An interface that is created for an instance is deleted with it")
    subnet, address = specified.get("SubnetId"), specified.get("PrivateIpAddress")
    if subnet:
        return _on_subnet(call, subnet, address)
    usual = None if address else default_network(call.context)
    if usual is None:
        raise errors.missing_parameter("NetworkInterface.SubnetId")
    return NetworkRequest(network_id=str(usual.id))


def _on_subnet(call: Call, specified: str, address: str | None) -> NetworkRequest:
    requested = names.resource(names.SUBNET, specified)
    try:
        subnet = network.usable_subnet(call.context, requested) or network.subnet_for(call.context, requested)
    except SubnetNotFoundError as error:
        raise names.not_found(names.SUBNET, [specified]) from error
    return NetworkRequest(
        network_id=str(subnet.network_id), fixed_ip=address or None, subnet_id=None if address else str(subnet.id)
    )


def _groups(specified: Sequence[str], named: Sequence[str]) -> tuple[str, ...] | None:
    """Return the UUIDs of the EC2 ids ``specified``, followed by the names ``named``. If both are empty, return None,
    which means the project's default group.
    """
    by_id = names.resources(names.GROUP, specified)
    return (*(str(by_id[each]) for each in specified), *named) or None
