"""DescribeInstanceAttribute, ModifyInstanceAttribute, ResetInstanceAttribute.

``disableApiTermination`` is the lock of a server. Unlike in EC2, a locked instance cannot be stopped either, except by
operators.
"""

from collections.abc import Callable, Sequence
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.actions.instances import shapes, states
from portal.api.ec2.actions.instances.related import Related
from portal.api.ec2.actions.places import flavor_of_type
from portal.api.ec2.actions.source_checks import check_sources
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.actions.security_groups import add_security_group, remove_security_group
from provisioning.compute.actions.type_changes import change_type
from provisioning.compute.actions.volumes import keep_or_delete
from provisioning.compute.errors import NoRoomError
from provisioning.compute.models import Instance
from provisioning.ec2 import given
from provisioning.identity import policy
from provisioning.network.selectors import port_for

MISSING, INCORRECT = "InvalidInstanceID.NotFound", "IncorrectInstanceState"
LOCK_REASON = "disableApiTermination"
USER_DATA_RULE = "os_compute_api:servers:rebuild"
"""The policy rule that also protects user data in the Compute API."""
Reader = Callable[[Call, Instance, Related], dict[str, Any]]


def _value(value: object) -> dict[str, Any]:
    return {"Value": value}


def _user_data(call: Call, instance: Instance, related: Related) -> dict[str, Any]:
    policy.enforce(call.context, USER_DATA_RULE)
    return {"UserData": {"Value": instance.user_data} if instance.user_data else {}}


def _groups(call: Call, instance: Instance, related: Related) -> dict[str, Any]:
    return {"Groups": shapes.instance_shape(instance, related)["SecurityGroups"]}


def _source_check(call: Call, instance: Instance, related: Related) -> dict[str, Any]:
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
def describe_instance_attribute(call: Call) -> dict[str, Any]:
    """Show one attribute of an instance."""
    instance = reading.wanted(call, [call.arguments["InstanceId"]])[0]
    reader = _READERS[call.arguments["Attribute"]]
    return {"InstanceId": call.arguments["InstanceId"], **reader(call, instance, reading.related([instance]))}


@action(
    "ModifyInstanceAttribute",
    "os_compute_api:servers:update",
    takes="InstanceId Attribute Value DisableApiTermination Groups BlockDeviceMappings SourceDestCheck "
    "InstanceInitiatedShutdownBehavior InstanceType EbsOptimized EnaSupport DisableApiStop",
    missing=MISSING,
    conflict=INCORRECT,
)
def modify_instance_attribute(call: Call) -> dict[str, Any]:
    """Update one attribute: termination protection, security groups, deletion of volumes on termination, source check.

    Read-only attributes may be set to their current value.
    """
    instance = reading.wanted(call, [call.arguments["InstanceId"]])[0]
    requested = _asked(call)
    if len(requested) != 1:
        raise errors.combination("Exactly one attribute may be specified")
    ((name, value),) = requested.items()
    _WRITERS[name](call, instance, value)
    return {}


def _asked(call: Call) -> dict[str, Any]:
    """Return the attributes to update, in either form of the request."""
    requested: dict[str, Any] = {
        name: call.arguments[name] for name in _WRITERS if call.arguments.get(name) is not None
    }
    for name in requested.keys() & _OF_ONE_VALUE:
        requested[name] = requested[name].get("Value")
    attribute = call.get("Attribute")
    if attribute is not None:
        known = {name[0].lower() + name[1:]: name for name in _OF_ONE_VALUE}
        if attribute not in {*known, "blockDeviceMapping"}:
            raise errors.unsupported(f"The attribute {attribute} cannot be changed by this cloud")
        if attribute in known:
            value: object = call.get("Value")
            if value is None:
                raise errors.missing_parameter("Value")
            requested[known[attribute]] = value if known[attribute] in _OF_TEXT else str(value).lower() == "true"
    return requested


def _set_lock(call: Call, instance: Instance, value: object) -> None:
    if bool(value) == instance.locked:
        return
    policy.enforce(call.context, f"os_compute_api:os-lock-server:{'lock' if value else 'unlock'}")
    if value:
        lock(call.context, instance.id, reason=LOCK_REASON)
    else:
        Unlock.begin(call.context, instance.id)


def _set_groups(call: Call, instance: Instance, specified: Sequence[str]) -> None:
    """Replace the security groups of all interfaces of the instance."""
    policy.enforce(call.context, "os_compute_api:os-security-groups:add")
    policy.enforce(call.context, "os_compute_api:os-security-groups:remove")
    requested = {str(key) for key in names.resources(names.GROUP, specified).values()}
    if not requested:
        raise errors.missing_parameter("GroupId")
    interfaces = reading.related([instance]).interfaces.get(instance.id, ())
    present = {str(group) for interface in interfaces for group in interface.groups}
    for group in sorted(requested - present):
        add_security_group(call.context, instance.id, group)
    for group in sorted(present - requested):
        remove_security_group(call.context, instance.id, group)


def _set_kept(call: Call, instance: Instance, mappings: Sequence[dict[str, Any]]) -> None:
    """Update ``DeleteOnTermination`` of volumes."""
    policy.enforce(call.context, "os_compute_api:os-volumes-attachments:update")
    known = reading.related([instance])
    devices = known.volumes.get(instance.id, ())
    by_name = {name: device for device in devices for name in (device.device_name, shapes.device_name(device, known))}
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


def _set_source_check(call: Call, instance: Instance, value: object) -> None:
    interfaces = reading.related([instance]).interfaces.get(instance.id, ())
    if len(interfaces) != 1:
        raise Ec2Error("InvalidInstanceID", "The instance has not one interface: change the attribute of an interface")
    if value == interfaces[0].port_security:
        return
    policy.enforce(call.context, "update_port", {"project_id": interfaces[0].project_id})
    check_sources(call, port_for(call.context, interfaces[0].port_id), requested=bool(value))


def _set_type(call: Call, instance: Instance, value: object) -> None:
    """Resize a stopped instance.

    The new type is shown immediately, and the instance may be started during the resize.
    """
    flavor = flavor_of_type(call, str(value))
    if flavor.flavorid != instance.flavor["flavorid"]:
        for rule in ("resize", "confirm_resize"):
            policy.enforce(call.context, f"os_compute_api:servers:{rule}")
        if states.name_of(instance) != states.STOPPED:
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
        present = _READERS[name[0].lower() + name[1:]](call, instance, Related({}))[name]["Value"]
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
