"""``/servers/{id}/os-interface``: the network interfaces of a server."""

from typing import Any, NamedTuple

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Schema, Version
from portal.api.compute.servers.fields import IPV4, IPV6, TAG, UUID
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.compute.selectors.interfaces import tags_of_interfaces
from provisioning.network import selectors as network
from provisioning.network.models import Port

TAGS_TAKEN: Version = (2, 49)
TAGS_SHOWN: Version = (2, 70)


def attach(version: Version) -> Schema:
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


def _shape(view: ComputeView, interface: Interface) -> dict[str, Any]:
    port = interface.port
    shape: dict[str, Any] = {
        "port_state": _state(interface.instance, port),
        "port_id": str(port.id),
        "net_id": str(port.network_id),
        "mac_addr": port.mac_address,
        "fixed_ips": [
            {"ip_address": fixed.address, "subnet_id": str(fixed.subnet_id)} for fixed in port.fixed_ips.all()
        ],
    }
    return shape | ({"tag": interface.tag} if view.microversion >= TAGS_SHOWN else {})


def _list(context: RequestContext, server_id: str) -> list[Interface]:
    instance = selectors.instance_for(context, server_id)
    tags = tags_of_interfaces(instance)
    return [Interface(instance, port, tags.get(str(port.id))) for port in network.interfaces_of(instance.id)]


def _show(context: RequestContext, server_id: str, port_id: str) -> Interface:
    """Return the interface of a port. Raises NotFoundError if the port is not attached to the server."""
    requested = read_id(port_id)
    for found in _list(context, server_id):
        if found.port.id == requested:
            return found
    raise NotFoundError(f"Instance {server_id[:64]} does not have a port with id {port_id[:64]}")


def _attach(context: RequestContext, server_id: str, body: dict[str, Any]) -> Interface:
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
    return _show(context, server_id, str(attach_interface(context, server_id, request)))


def _state(instance: Instance, port: Port) -> str:
    if port.shown_status == "BUILD":
        return "BUILD"
    return "ACTIVE" if instance.vm_state == "active" and port.shown_status == "ACTIVE" else "DOWN"


_RULE = "os_compute_api:os-attach-interfaces:"
PARTS = parts(
    ComputeView,
    "servers/{server_id}/os-interface",
    {
        "GET": Call(
            _list,
            f"{_RULE}list",
            "List the interfaces in order.",
            name="interfaceAttachments",
            shape=lambda view, interfaces: [_shape(view, interface) for interface in interfaces],
        ),
        "POST": Call(
            _attach,
            f"{_RULE}create",
            "Attach an interface; the response shows it while the host is still attaching it.",
            name="interfaceAttachment",
            shape=_shape,
            body=attach,
        ),
        "GET /{port_id}": Call(_show, f"{_RULE}show", name="interfaceAttachment", shape=_shape),
        "DELETE /{port_id}": Call(
            detach_interface,
            f"{_RULE}delete",
            "Detach an interface. The host removes the interface when the guest has released it.",
            status=202,
        ),
    },
)
