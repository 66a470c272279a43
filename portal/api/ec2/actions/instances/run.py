"""RunInstances: launch instances."""

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.actions.instances import shapes
from portal.api.ec2.actions.instances.block_devices import Asked, disks_of, store_requested
from portal.api.ec2.actions.instances.metadata import read as read_options
from portal.api.ec2.actions.placement_groups import of_placement
from portal.api.ec2.actions.places import flavor_of_type
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from portal.common import rate_limits
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.lock import lock
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.request import LaunchRequest, NetworkRequest, Networks
from provisioning.compute.models import Instance
from provisioning.ec2 import creation_tags, given
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network.errors import AmbiguousNetworkError, SubnetNotFoundError
from provisioning.network.selectors.vpcs import default_group_of, default_network

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
SEVERAL_NETWORKS = "No VPC is the default one, since there are several: name a SubnetId."


@action(
    "RunInstances",
    "os_compute_api:servers:create",
    takes="ImageId InstanceType MinCount MaxCount KeyName SecurityGroupIds SecurityGroups UserData BlockDeviceMappings "
    "NetworkInterfaces SubnetId PrivateIpAddress Placement ClientToken TagSpecifications DisableApiTermination "
    "InstanceInitiatedShutdownBehavior Monitoring EbsOptimized MetadataOptions",
    passes_over="AdditionalInfo CreditSpecification PrivateDnsNameOptions MaintenanceOptions HibernationOptions",
    missing="InvalidParameterValue",
    conflict="InvalidParameterCombination",
)
def run_instances(call: Call) -> dict[str, Any]:
    """Launch as many instances as the quota allows, between ``MinCount`` and ``MaxCount``."""
    _check_supported(call)
    wanted_tags = tags.specified(call, names.INSTANCE, CREATED_LATER, NEVER_CREATED)
    options = read_options(call.get("MetadataOptions", {}))
    disks = disks_of(call)
    request = _request(call, wanted_tags.get(names.INSTANCE.resource_type, {}), options, disks)
    rate_limits.check(call.context, rate_limits.LAUNCHES, request.max_count)
    try:
        made = launch(call.context, request)
    except InvalidInputError as error:
        raise Ec2Error(_CODES.get(error.field or "", "InvalidParameterValue"), error.message) from error
    except AmbiguousNetworkError as error:
        raise Ec2Error("VPCIdNotSpecified", SEVERAL_NETWORKS) from error
    tags.write(call, names.INSTANCE, [instance.id for instance in made], wanted_tags)
    later = {kind.resource_type: wanted_tags.get(kind.resource_type, {}) for kind in CREATED_LATER}
    creation_tags.keep(call.project_id, [instance.id for instance in made], later)
    store_requested(made, disks, names.resource(names.IMAGE, call.arguments["ImageId"]))
    _keep_type(call, made)
    if call.get("DisableApiTermination", False):
        policy.enforce(call.context, "os_compute_api:os-lock-server:lock")
        made = [lock(call.context, instance.id, reason="disableApiTermination") for instance in made]
    return shapes.reservation(made, reading.related(made))


def _keep_type(call: Call, made: Sequence[Instance]) -> None:
    """Store the requested instance type if it is an alias of the flavor."""
    requested = call.get("InstanceType", TYPE_OF_OLD_CLIENTS)
    for instance in made:
        if instance.flavor["name"] != requested:
            given.keep(instance.project_id, instance.id, {given.INSTANCE_TYPE: [requested, instance.flavor["name"]]})


def _request(
    call: Call, own_tags: Mapping[str, str], options: Mapping[str, Any], disks: Sequence[Asked]
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
    interfaces: Sequence[Mapping[str, Any]] = call.get("NetworkInterfaces", [])
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


def _interface(call: Call, specified: Mapping[str, Any]) -> NetworkRequest:
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
    """Return the UUIDs of the EC2 ids ``specified``, followed by the names ``named``; None without any, which means
    the project's default group.
    """
    found = names.resources(names.GROUP, specified)
    return (*(str(found[each]) for each in specified), *named) or None
