"""Network interfaces and volumes of a server: ``/servers/{id}/os-interface`` and
``/servers/{id}/os-volume_attachments`` (Compute API reference, "Port interfaces", "Servers with volume attachments").
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from portal.api.compute.dialect import BOOLEAN, COUNT, SHARED_VOLUMES, WITH_OFFSET, ComputeView, boolean, query
from portal.api.compute.servers.schemas import DEVICE, IPV4, IPV6, TAG, UUID
from portal.api.frame import Call, Json, Schema, Version, at_version, body, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.detach_volume import detach_volume
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.actions.swap_volume import swap_volume
from provisioning.compute.actions.volumes import find_device, keep_or_delete
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.selectors.block_devices import tags_of_interfaces, volumes_shown
from provisioning.compute.states import VmState
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network.models import Port

TAGS_TAKEN: Version = (2, 49)
TAGS_SHOWN: Version = (2, 70)


def interface_creation(version: Version) -> Schema:
    """Return the schema of ``POST``: a network or a port, at most one address, and from 2.49 on a tag. An empty body
    attaches the project's only network.
    """
    address: Schema = {
        "type": "object",
        "properties": {"ip_address": {"anyOf": [IPV4, IPV6]}},
        "required": ["ip_address"],
        "additionalProperties": False,
    }
    properties: Schema = {
        "net_id": UUID,
        "port_id": UUID,
        "fixed_ips": {"type": "array", "minItems": 1, "maxItems": 1, "items": address},
    }
    if version >= TAGS_TAKEN:
        properties["tag"] = TAG
    inner = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "object", "properties": {"interfaceAttachment": inner}, "additionalProperties": False}


class Interface(NamedTuple):
    """An interface of a server. The tag belongs to the server, not to the port."""

    instance: Instance
    port: Port
    tag: str | None


def _interface(view: ComputeView, interface: Interface) -> Json:
    port = interface.port
    shape: Json = {
        "port_state": _interface_state(interface.instance, port),
        "port_id": str(port.id),
        "net_id": str(port.network_id),
        "mac_addr": port.mac_address,
        "fixed_ips": [
            {"ip_address": fixed.address, "subnet_id": str(fixed.subnet_id)} for fixed in port.fixed_ips.all()
        ],
    }
    return shape | ({"tag": interface.tag} if view.microversion >= TAGS_SHOWN else {})


def _list_interfaces(context: RequestContext, server_id: str) -> list[Interface]:
    instance = selectors.instance_for(context, server_id)
    tags = tags_of_interfaces(instance)
    return [Interface(instance, port, tags.get(str(port.id))) for port in network.interfaces_of(instance.id)]


def _show_interface(context: RequestContext, server_id: str, port_id: str) -> Interface:
    """Return the interface of a port. Raises NotFoundError if the port is not attached to the server."""
    requested = read_id(port_id)
    for found in _list_interfaces(context, server_id):
        if found.port.id == requested:
            return found
    raise NotFoundError(f"Instance {server_id[:64]} does not have a port with id {port_id[:64]}")


def _attach_interface(context: RequestContext, server_id: str, body: Json) -> Interface:
    requested = body.get("interfaceAttachment", {})
    addresses = requested.get("fixed_ips", [])
    if "net_id" in requested and "port_id" in requested:
        raise InvalidInputError("Must not input both network_id and port_id", field="port_id")
    if addresses and "net_id" not in requested:
        raise InvalidInputError("Must input network_id when request IP address", field="net_id")
    request = NetworkRequest(
        network_id=requested.get("net_id"),
        port_id=requested.get("port_id"),
        fixed_ip=addresses[0]["ip_address"] if addresses else None,
        tag=requested.get("tag", ""),
    )
    return _show_interface(context, server_id, str(attach_interface(context, server_id, request)))


def _interface_state(instance: Instance, port: Port) -> str:
    if port.shown_status == "BUILD":
        return "BUILD"
    return "ACTIVE" if instance.vm_state == "active" and port.shown_status == "ACTIVE" else "DOWN"


_INTERFACES = "os_compute_api:os-attach-interfaces:"
INTERFACES = parts(
    ComputeView,
    "servers/{server_id}/os-interface",
    {
        "GET": Call(
            _list_interfaces,
            f"{_INTERFACES}list",
            "List the interfaces in order.",
            name="interfaceAttachments",
            shape=lambda view, interfaces: [_interface(view, interface) for interface in interfaces],
        ),
        "POST": Call(
            _attach_interface,
            f"{_INTERFACES}create",
            "Attach an interface; the response shows it while the host is still attaching it.",
            name="interfaceAttachment",
            shape=_interface,
            body=interface_creation,
        ),
        "GET /{port_id}": Call(_show_interface, f"{_INTERFACES}show", name="interfaceAttachment", shape=_interface),
        "DELETE /{port_id}": Call(
            detach_interface,
            f"{_INTERFACES}delete",
            "Detach an interface. The host removes the interface when the guest has released it.",
            status=202,
        ),
    },
)


ON_SHELF: Version = (2, 20)
"""From this version on the volumes of a shelved server can be changed."""
VOLUME_TAGS_SHOWN: Version = (2, 70)
KEPT_SHOWN: Version = (2, 79)
IDS_SHOWN: Version = (2, 89)
KEPT_CHANGED: Version = (2, 85)


def attachments_query(version: Version) -> Schema:
    return query(version, {"limit": COUNT, "offset": COUNT})


def attachment_creation(version: Version) -> Schema:
    """Return the schema of ``POST``: the volume to attach, a tag from 2.49 on, and ``delete_on_termination`` from 2.79
    on.
    """
    properties: Schema = {"volumeId": UUID, "device": {"oneOf": [DEVICE, {"type": "null"}]}}
    if version >= (2, 49):
        properties["tag"] = TAG
    if version >= KEPT_SHOWN:
        properties["delete_on_termination"] = BOOLEAN
    return body("volumeAttachment", properties, ("volumeId",))


def attachment_update(version: Version) -> Schema:
    """Return the schema of ``PUT``: the new volume, and ``delete_on_termination`` from 2.85 on."""
    properties: Schema = {"volumeId": UUID}
    if version >= KEPT_CHANGED:
        properties |= {
            "device": {"oneOf": [DEVICE, {"type": "null"}]},
            "tag": TAG,
            "delete_on_termination": BOOLEAN,
            "serverId": UUID,
            "id": UUID,
        }
    return body("volumeAttachment", properties, ("volumeId",))


def _refuse_on_shelf(context: RequestContext, server_id: str, action: str, version: Version) -> None:
    """Raise InstanceBusyError if the server is shelved and the microversion does not allow changes of its volumes.
    Raises NotFoundError for an unknown server.
    """
    if version < ON_SHELF:
        instance = selectors.instance_for(context, server_id)
        if instance.vm_state in {VmState.SHELVED, VmState.SHELVED_OFFLOADED}:
            raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)


def _volume_attachment(view: ComputeView, device: BlockDevice, *, new: bool = False) -> Json:
    """Return the attachment of a volume. From 2.89 on it has ``attachment_id`` and ``bdm_uuid`` instead of ``id``,
    except if ``new``: the response to ``POST`` has ``id`` at every microversion.
    """
    version = view.microversion
    shape: Json = {
        "id": str(device.volume_id),
        "volumeId": str(device.volume_id),
        "serverId": str(device.instance_id),
        "device": device.device_name or None,
    }
    if version >= VOLUME_TAGS_SHOWN:
        shape["tag"] = device.tag or None
    if version >= KEPT_SHOWN:
        shape["delete_on_termination"] = device.delete_on_termination
    if version >= IDS_SHOWN and not new:
        del shape["id"]
        shape["attachment_id"] = str(device.attachment_id) if device.attachment_id else None
        shape["bdm_uuid"] = str(device.id)
    return shape


def _list_volumes(context: RequestContext, server_id: str, *, part: slice) -> Sequence[BlockDevice]:
    instance = selectors.instance_for(context, server_id)
    return volumes_shown([instance.id]).get(instance.id, [])[part]


def _attach_volume(context: RequestContext, server_id: str, requested: Json, *, version: Version) -> BlockDevice:
    _refuse_on_shelf(context, server_id, "attach_volume", version)
    return attach_volume(
        context,
        server_id,
        VolumeToAttach(
            volume_id=requested["volumeId"],
            device=requested.get("device") or "",
            tag=requested.get("tag", ""),
            delete_on_termination=boolean(requested.get("delete_on_termination", False)),
            shared=version >= SHARED_VOLUMES,
        ),
    )


def _show_volume(context: RequestContext, server_id: str, volume_id: str) -> BlockDevice:
    return find_device(selectors.instance_for(context, server_id), volume_id)


def _change_attachment(
    context: RequestContext, server_id: str, volume_id: str, requested: Json, *, version: Version
) -> None:
    if requested["volumeId"] == volume_id and version >= KEPT_CHANGED:
        _keep_volume(context, server_id, volume_id, requested)
    else:
        policy.enforce(context, "os_compute_api:os-volumes-attachments:swap")
        swap_volume(context, server_id, volume_id, requested["volumeId"])


def _keep_volume(context: RequestContext, server_id: str, volume_id: str, requested: Json) -> None:
    device = _show_volume(context, server_id, volume_id)
    now = {
        "device": device.device_name,
        "tag": device.tag or None,
        "serverId": str(device.instance_id),
        "id": volume_id,
    }
    for name, value in now.items():
        if name in requested and requested[name] != value:
            raise InvalidInputError(f"The {name} cannot be changed.", field=name)
    if "delete_on_termination" in requested:
        kept = boolean(requested["delete_on_termination"])
        keep_or_delete(context, server_id, volume_id, delete_on_termination=kept)


def _detach_volume(context: RequestContext, server_id: str, volume_id: str, *, version: Version) -> None:
    _refuse_on_shelf(context, server_id, "detach_volume", version)
    detach_volume(context, server_id, volume_id)


_VOLUMES = "os_compute_api:os-volumes-attachments:"
VOLUME_ATTACHMENTS = parts(
    ComputeView,
    "servers/{server_id}/os-volume_attachments",
    {
        "GET": Call(
            _list_volumes,
            f"{_VOLUMES}index",
            "List the attachments in order.",
            name="volumeAttachments",
            shape=lambda view, devices: [_volume_attachment(view, device) for device in devices],
            query=attachments_query,
            more=lambda view: {"part": WITH_OFFSET.read_slice(view.request)},
        ),
        "POST": Call(
            _attach_volume,
            f"{_VOLUMES}create",
            "Attach a volume; the response shows the attachment while hosts are still working on it.",
            name="volumeAttachment",
            shape=partial(_volume_attachment, new=True),
            body=attachment_creation,
            more=at_version,
        ),
        "GET /{volume_id}": Call(_show_volume, f"{_VOLUMES}show", name="volumeAttachment", shape=_volume_attachment),
        "PUT /{volume_id}": Call(
            _change_attachment,
            f"{_VOLUMES}update",
            "Swap the volume for another, or from 2.85 on update ``delete_on_termination``.",
            body=attachment_update,
            more=at_version,
            status=202,
        ),
        "DELETE /{volume_id}": Call(
            _detach_volume,
            f"{_VOLUMES}delete",
            "Detach a volume; the attachment is removed when the guest has released it.",
            more=at_version,
            status=202,
        ),
    },
)
