"""DescribeInstanceAttribute, ModifyInstanceAttribute, ResetInstanceAttribute; options of the metadata service
(ModifyInstanceMetadataOptions, and of a launch), and the images of instances (DescribeInstanceImageMetadata).

``disableApiTermination`` is the lock of a server. Unlike in EC2, a locked instance cannot be stopped either, except by
operators. The host applies ``HttpTokens`` and ``HttpPutResponseHopLimit``; the other options of the metadata service
are fixed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from portal.api.ec2.actions.images.describe import image_shapes
from portal.api.ec2.actions.instances import shapes
from portal.api.ec2.actions.places import flavor_of_type
from portal.api.ec2.describe import NOTHING, Column, Described, Narrowed, members
from portal.api.ec2.frame import Arguments, Call, Ec2Error, Shape, action, errors, names
from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.actions.resize import change_type
from provisioning.compute.actions.security_groups import add_security_group, remove_security_group
from provisioning.compute.actions.volumes import keep_or_delete
from provisioning.compute.errors import NoRoomError
from provisioning.compute.models import Instance
from provisioning.ec2 import given
from provisioning.ec2_services.metadata_options import set_metadata_options
from provisioning.images.selectors import images_of_use
from provisioning.network import services
from provisioning.network.models import Port
from provisioning.network.selectors import port_for


def _shapes(call: Call, instances: Sequence[Instance]) -> list[Shape]:
    related = shapes.related_records(instances)
    of_instances = {instance.id: shapes.image_of(instance, related) for instance in instances}
    used = {image for image in of_instances.values() if image is not None}
    images = list(images_of_use(call.project_id, listed=False).filter(pk__in=used)) if used else []
    by_image = {image.id: shape for image, shape in zip(images, image_shapes(call, images), strict=True)}
    result = []
    for instance in instances:
        whole, image = shapes.instance_shape(instance, related), of_instances[instance.id]
        shape = {name: whole[name] for name in ("InstanceId", "InstanceType", "LaunchTime", "State", "Tags")}
        zone = shapes.zone_of(instance)
        shape |= {"AvailabilityZone": zone, "ZoneId": zone, "OwnerId": instance.project_id.hex}
        result.append(shape | {"ImageMetadata": _metadata(whole["ImageId"], by_image.get(image) if image else None)})
    return result


def _metadata(ec2_id: str, image: Shape | None) -> Shape:
    """Return the metadata of an image; of an image that is deleted or no longer shared, only the id."""
    if image is None:
        return {"ImageId": ec2_id}
    same = {name: image[name] for name in ("ImageId", "Name", "OwnerId", "State", "CreationDate")}
    return same | {"IsPublic": image["Public"], "ImageAllowed": True}


DESCRIBE_INSTANCE_IMAGE_METADATA = Described(
    action="DescribeInstanceImageMetadata",
    rule="os_compute_api:servers:detail",
    member="InstanceImageMetadata",
    kind=names.INSTANCE,
    ids="InstanceIds",
    ids_exclude_pages=True,
    rows=lambda call: shapes.visible_rows(call.context),
    shape=_shapes,
    order=shapes.ORDER,
    filters={
        **members("AvailabilityZone InstanceType LaunchTime ZoneId"),
        "image-allowed": "ImageMetadata.ImageAllowed",
        "instance-id": Column("InstanceId", "pk", names.INSTANCE),
        "instance-state-name": Narrowed("State.Name", shapes.condition, exact=True),
        "owner-alias": NOTHING,
        "owner-id": Column("OwnerId", "project_id"),
    },
)


MOST_HOPS = 64


def read_options(specified: Arguments) -> dict[str, Any]:
    """Return the columns for the ``MetadataOptions`` of a request. Raises Ec2Error."""
    for name, present in shapes.FIXED_OPTIONS.items():
        if specified.get(name, present) != present:
            raise errors.unsupported(f"MetadataOptions.{name} is {present} for every instance of this cloud")
    columns: dict[str, Any] = {}
    tokens, hops = specified.get("HttpTokens"), specified.get("HttpPutResponseHopLimit")
    if tokens is not None:
        columns["http_tokens"] = tokens
    if hops is not None:
        if not 1 <= hops <= MOST_HOPS:
            raise errors.invalid_value("HttpPutResponseHopLimit", hops, f"It must be from 1 to {MOST_HOPS}.")
        columns["hop_limit"] = hops
    return columns


@action(
    "ModifyInstanceMetadataOptions",
    "os_compute_api:servers:update",
    takes="InstanceId HttpTokens HttpPutResponseHopLimit HttpEndpoint HttpProtocolIpv6 InstanceMetadataTags",
    missing="InvalidInstanceID.NotFound",
)
def modify_instance_metadata_options(call: Call) -> Shape:
    """Update the metadata options of an instance."""
    (instance,) = shapes.instances_named(call, [call.arguments["InstanceId"]])
    columns = read_options(call.arguments)
    set_metadata_options(call.context, instance.id, columns)
    return {
        "InstanceId": names.INSTANCE.id_of(instance.id),
        "InstanceMetadataOptions": shapes.options_shape(given.options_of([instance.id]).get(instance.id)),
    }


MISSING, INCORRECT = "InvalidInstanceID.NotFound", "IncorrectInstanceState"
LOCK_REASON = "disableApiTermination"
USER_DATA_RULE = "os_compute_api:servers:rebuild"
"""The policy rule that also protects user data in the Compute API."""
Reader = Callable[[Call, Instance, shapes.Related], Shape]


def _value(value: object) -> Shape:
    return {"Value": value}


def _user_data(call: Call, instance: Instance, related: shapes.Related) -> Shape:
    call.enforce(USER_DATA_RULE)
    return {"UserData": {"Value": instance.user_data} if instance.user_data else {}}


def _groups(call: Call, instance: Instance, related: shapes.Related) -> Shape:
    return {"Groups": shapes.instance_shape(instance, related)["SecurityGroups"]}


def _source_check(call: Call, instance: Instance, related: shapes.Related) -> Shape:
    return {"SourceDestCheck": _value(shapes.instance_shape(instance, related)["SourceDestCheck"])}


_READERS: dict[str, Reader] = {
    "instanceType": lambda call, instance, related: {"InstanceType": _value(shapes.type_of(instance, related))},
    "kernel": lambda call, instance, related: {"KernelId": {}},
    "ramdisk": lambda call, instance, related: {"RamdiskId": {}},
    "userData": _user_data,
    "disableApiTermination": lambda call, instance, related: {"DisableApiTermination": _value(instance.locked)},
    "disableApiStop": lambda call, instance, related: {"DisableApiStop": _value(instance.locked)},
    "instanceInitiatedShutdownBehavior": lambda call, instance, related: {
        "InstanceInitiatedShutdownBehavior": _value("stop")
    },
    "rootDeviceName": lambda call, instance, related: {"RootDeviceName": _value(shapes.root_device(instance, related))},
    "blockDeviceMapping": lambda call, instance, related: {
        "BlockDeviceMappings": shapes.block_devices(instance, related)
    },
    "productCodes": lambda call, instance, related: {"ProductCodes": []},
    "sourceDestCheck": _source_check,
    "groupSet": _groups,
    "ebsOptimized": lambda call, instance, related: {"EbsOptimized": {"Value": False}},
    "enaSupport": lambda call, instance, related: {"EnaSupport": {"Value": False}},
    "sriovNetSupport": lambda call, instance, related: {"SriovNetSupport": {}},
    "enclaveOptions": lambda call, instance, related: {"EnclaveOptions": {"Enabled": False}},
}


@action("DescribeInstanceAttribute", "os_compute_api:servers:show", takes="InstanceId Attribute", missing=MISSING)
def describe_instance_attribute(call: Call) -> Shape:
    """Show one attribute of an instance."""
    instance = shapes.instances_named(call, [call.arguments["InstanceId"]])[0]
    reader = _READERS[call.arguments["Attribute"]]
    return {"InstanceId": call.arguments["InstanceId"], **reader(call, instance, shapes.related_records([instance]))}


@action(
    "ModifyInstanceAttribute",
    "os_compute_api:servers:update",
    takes="InstanceId Attribute Value DisableApiTermination Groups BlockDeviceMappings SourceDestCheck "
    "InstanceInitiatedShutdownBehavior InstanceType EbsOptimized EnaSupport DisableApiStop",
    missing=MISSING,
    conflict=INCORRECT,
)
def modify_instance_attribute(call: Call) -> Shape:
    """Update one attribute: termination protection, security groups, deletion of volumes on termination, source check.

    Read-only attributes may be set to their current value.
    """
    instance = shapes.instances_named(call, [call.arguments["InstanceId"]])[0]
    requested = _requested_attributes(call)
    if len(requested) != 1:
        raise errors.combination("Exactly one attribute may be specified")
    ((name, value),) = requested.items()
    _WRITERS[name](call, instance, value)
    return {}


def _requested_attributes(call: Call) -> dict[str, Any]:
    """Return the attributes to update, in either form of the request."""
    requested: dict[str, Any] = {
        name: call.arguments[name] for name in _WRITERS if call.arguments.get(name) is not None
    }
    for name in requested.keys() & _OF_ONE_VALUE:
        requested[name] = requested[name].get("Value")
    attribute = call.get("Attribute")
    if attribute is not None:
        by_name = {name[0].lower() + name[1:]: name for name in _OF_ONE_VALUE}
        if attribute not in {*by_name, "blockDeviceMapping"}:
            raise errors.unsupported(f"The attribute {attribute} cannot be changed by this cloud")
        if attribute in by_name:
            value: object = call.get("Value")
            if value is None:
                raise errors.missing_parameter("Value")
            requested[by_name[attribute]] = value if by_name[attribute] in _OF_TEXT else str(value).lower() == "true"
    return requested


def _set_lock(call: Call, instance: Instance, value: object) -> None:
    if bool(value) == instance.locked:
        return
    call.enforce(f"os_compute_api:os-lock-server:{'lock' if value else 'unlock'}")
    if value:
        lock(call.context, instance.id, reason=LOCK_REASON)
    else:
        Unlock.begin(call.context, instance.id)


def _set_groups(call: Call, instance: Instance, specified: Sequence[str]) -> None:
    """Replace the security groups of all interfaces of the instance."""
    call.enforce("os_compute_api:os-security-groups:add")
    call.enforce("os_compute_api:os-security-groups:remove")
    requested = {str(key) for key in names.resources(names.GROUP, specified).values()}
    if not requested:
        raise errors.missing_parameter("GroupId")
    interfaces = shapes.related_records([instance]).interfaces.get(instance.id, ())
    present = {str(group) for interface in interfaces for group in interface.groups}
    for group in sorted(requested - present):
        add_security_group(call.context, instance.id, group)
    for group in sorted(present - requested):
        remove_security_group(call.context, instance.id, group)


def _set_kept(call: Call, instance: Instance, mappings: Sequence[Shape]) -> None:
    """Update ``DeleteOnTermination`` of volumes."""
    call.enforce("os_compute_api:os-volumes-attachments:update")
    related = shapes.related_records([instance])
    devices = related.volumes.get(instance.id, ())
    by_name = {name: device for device in devices for name in (device.device_name, shapes.device_name(device, related))}
    for mapping in mappings:
        device = by_name.get(mapping.get("DeviceName", ""))
        requested = mapping.get("Ebs", {}).get("DeleteOnTermination")
        if device is None or device.volume_id is None:
            name = mapping.get("DeviceName")
            raise Ec2Error("InvalidInstanceAttributeValue", f"No device is currently mapped at {str(name)[:64]}")
        if requested is None:
            raise errors.missing_parameter("BlockDeviceMapping.Ebs.DeleteOnTermination")
        keep_or_delete(call.context, instance.id, str(device.volume_id), delete_on_termination=requested)


def _set_shutdown(call: Call, instance: Instance, value: object) -> None:
    if value != "stop":
        raise errors.unsupported("An instance that shuts itself down is stopped: this cannot be changed")


def check_sources(call: Call, port: Port, *, requested: bool) -> None:
    """Enable or disable port security.

    It cannot be disabled on an interface with security groups, because the groups would no longer filter. Raises
    Ec2Error.
    """
    owner = port.network.project_id
    target = {"project_id": port.project_id, "network:project_id": owner, "network:tenant_id": owner}
    call.enforce("update_port:port_security_enabled", target=target)
    if not requested and port.security_groups.all():
        msg = (
            "Without the source check no security group filters here: remove the interface from its groups by the"
            " Network API first, or add allowed address pairs to it there (allowed_address_pairs)"
        )
        raise errors.unsupported(msg)
    services.update_port(port, {"port_security_enabled": requested})


def _set_source_check(call: Call, instance: Instance, value: object) -> None:
    interfaces = shapes.related_records([instance]).interfaces.get(instance.id, ())
    if len(interfaces) != 1:
        raise Ec2Error(
            "InvalidInstanceID",
            "The instance does not have exactly one interface: change the attribute of the interface instead",
        )
    if value == interfaces[0].port_security:
        return
    call.enforce("update_port", target={"project_id": interfaces[0].project_id})
    check_sources(call, port_for(call.context, interfaces[0].port_id), requested=bool(value))


def _set_type(call: Call, instance: Instance, value: object) -> None:
    """Resize a stopped instance.

    The new type is shown immediately, and the instance may be started during the resize.
    """
    flavor = flavor_of_type(call, str(value))
    if flavor.flavorid != instance.flavor["flavorid"]:
        for rule in ("resize", "confirm_resize"):
            call.enforce(f"os_compute_api:servers:{rule}")
        if shapes.name_of(instance) != shapes.STOPPED:
            why = f"The instance '{call.arguments['InstanceId']}' is not in the 'stopped' state."
            raise Ec2Error(INCORRECT, why)
        try:
            change_type(call.context, instance.id, flavor.flavorid)
        except NoRoomError as error:
            raise Ec2Error("InsufficientInstanceCapacity", error.message) from error
    given.keep(instance.project_id, instance.id, {given.INSTANCE_TYPE: [str(value), flavor.name]})


def _stays(name: str) -> Callable[[Call, Instance, Any], None]:
    """Return a writer for a read-only attribute, which raises Ec2Error unless the value equals the current value."""

    def check(call: Call, instance: Instance, value: object) -> None:
        present = _READERS[name[0].lower() + name[1:]](call, instance, shapes.Related({}))[name]["Value"]
        if bool(value) != present:
            raise errors.unsupported(f"{name} cannot be changed in this cloud")

    return check


_OF_TEXT = frozenset({"InstanceInitiatedShutdownBehavior", "InstanceType"})
_OF_ONE_VALUE = _OF_TEXT | {"DisableApiTermination", "SourceDestCheck", "EbsOptimized", "EnaSupport", "DisableApiStop"}
"""Attributes whose value is a structure with ``Value``."""
_WRITERS: dict[str, Callable[[Call, Instance, Any], None]] = {
    "DisableApiTermination": _set_lock,
    "Groups": _set_groups,
    "BlockDeviceMappings": _set_kept,
    "InstanceInitiatedShutdownBehavior": _set_shutdown,
    "InstanceType": _set_type,
    "SourceDestCheck": _set_source_check,
    **{name: _stays(name) for name in ("EbsOptimized", "EnaSupport", "DisableApiStop")},
}
