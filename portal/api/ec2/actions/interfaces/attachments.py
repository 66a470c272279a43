"""AttachNetworkInterface and DetachNetworkInterface."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.instances.related import wanted as wanted_instances
from portal.api.ec2.actions.interfaces.create import IN_USE
from portal.api.ec2.actions.interfaces.lookups import interface_named, interface_rows, is_attached, is_free
from portal.api.ec2.actions.vpcs.lookups import unless
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.launch.request import NetworkRequest
from provisioning.ec2 import ids
from provisioning.network import selectors
from provisioning.network.services.ports.interfaces import MAX_INTERFACES


@action(
    "AttachNetworkInterface",
    "os_compute_api:os-attach-interfaces:create",
    takes="NetworkInterfaceId InstanceId DeviceIndex NetworkCardIndex",
    missing=names.INSTANCE.missing,
    conflict="IncorrectInstanceState",
)
def attach_network_interface(call: Call) -> dict[str, Any]:
    """Attach an interface to an instance, as its last interface."""
    unless(call, "NetworkCardIndex", present=0, why="an instance has one network card")
    port = interface_named(call, call.arguments["NetworkInterfaceId"])
    if not is_free(port):
        raise Ec2Error(IN_USE, f"Interface: [{call.arguments['NetworkInterfaceId']}] in use.")
    (instance,) = wanted_instances(call, [call.arguments["InstanceId"]])
    _check_index(call, [each.device_index for each in selectors.interfaces_of(instance.id)])
    attach_interface(call.context, instance.id, NetworkRequest(port_id=str(port.id)))
    return {"AttachmentId": ids.id_of(names.ATTACHMENT.prefix, port.id), "NetworkCardIndex": 0}


def _check_index(call: Call, taken: list[int]) -> None:
    """Raise Ec2Error for a device index other than the next free one."""
    index, instance = call.arguments["DeviceIndex"], call.arguments["InstanceId"]
    if len(taken) >= MAX_INTERFACES:
        raise Ec2Error("AttachmentLimitExceeded", f"An instance has at most {MAX_INTERFACES} network interfaces")
    if index in taken:
        msg = f"Instance '{instance}' already has an interface attached at device index '{index}'."
        raise Ec2Error("InvalidParameterValue", msg)
    place = max(taken, default=-1) + 1
    if index != place:
        raise errors.invalid_value("DeviceIndex", index, f"The next interface of {instance} has the index {place}.")


@action(
    "DetachNetworkInterface",
    "os_compute_api:os-attach-interfaces:delete",
    takes="AttachmentId",
    passes_over="Force",
    missing=names.ATTACHMENT.missing,
    conflict="IncorrectInstanceState",
)
def detach_network_interface(call: Call) -> dict[str, Any]:
    """Detach an interface. An interface that was created with the instance is also deleted."""
    given = call.arguments["AttachmentId"]
    port = names.one(names.ATTACHMENT, given, interface_rows(call))
    if not is_attached(port) or port.device_id is None:
        raise names.not_found(names.ATTACHMENT, [given])
    if port.device_index == 0:
        msg = "The network interface at device index 0 cannot be detached."
        raise Ec2Error("OperationNotPermitted", msg)
    detach_interface(call.context, port.device_id, str(port.id))
    return {}
