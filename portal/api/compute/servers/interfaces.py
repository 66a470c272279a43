"""``/servers/{id}/os-interface``: the network interfaces of a server."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import Schema, Version
from portal.api.compute.servers.fields import IPV4, IPV6, TAG, UUID
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
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


class InterfaceShapes(ComputeView):
    """Base of the views of all interfaces and of one interface."""

    def shape(self, instance: Instance, port: Port, tags: dict[str, str]) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "port_state": _state(instance, port),
            "port_id": str(port.id),
            "net_id": str(port.network_id),
            "mac_addr": port.mac_address,
            "fixed_ips": [
                {"ip_address": fixed.address, "subnet_id": str(fixed.subnet_id)} for fixed in port.fixed_ips.all()
            ],
        }
        if self.microversion >= TAGS_SHOWN:
            shape["tag"] = tags.get(str(port.id))
        return shape

    def one(self, instance: Instance, port_id: str) -> Response:
        """Answer with the interface of a port. Raises NotFoundError if the port is not attached to the server."""
        wanted = read_id(port_id)
        for port in network.interfaces_of(instance.id):
            if port.id == wanted:
                return Response({"interfaceAttachment": self.shape(instance, port, tags_of_interfaces(instance))})
        raise NotFoundError(f"Instance {instance.id} does not have a port with id {port_id[:64]}")


class InterfacesView(InterfaceShapes):
    """``GET`` and ``POST``: the interfaces of a server."""

    rules = {"GET": "os_compute_api:os-attach-interfaces:list", "POST": "os_compute_api:os-attach-interfaces:create"}
    schemas: ClassVar = {"POST": attach}

    def get(self, request: Request, server_id: str) -> Response:
        """List the interfaces in order."""
        instance = selectors.instance_for(self.context, server_id)
        tags = tags_of_interfaces(instance)
        shapes = [self.shape(instance, port, tags) for port in network.interfaces_of(instance.id)]
        return Response({"interfaceAttachments": shapes})

    def post(self, request: Request, server_id: str) -> Response:
        """Attach an interface; the response shows it while the host is still attaching it."""
        wanted = self.checked_body().get("interfaceAttachment", {})
        addresses = wanted.get("fixed_ips", [])
        if "net_id" in wanted and "port_id" in wanted:
            raise InvalidInputError("Must not input both network_id and port_id", field="port_id")
        if addresses and "net_id" not in wanted:
            raise InvalidInputError("Must input network_id when request IP address", field="net_id")
        wanted = NetworkRequest(
            network_id=wanted.get("net_id"),
            port_id=wanted.get("port_id"),
            fixed_ip=addresses[0]["ip_address"] if addresses else None,
            tag=wanted.get("tag", ""),
        )
        port_id = attach_interface(self.context, server_id, wanted)
        return self.one(selectors.instance_for(self.context, server_id), str(port_id))


class InterfaceView(InterfaceShapes):
    """One interface of a server."""

    rules = {"GET": "os_compute_api:os-attach-interfaces:show", "DELETE": "os_compute_api:os-attach-interfaces:delete"}

    def get(self, request: Request, server_id: str, port_id: str) -> Response:
        return self.one(selectors.instance_for(self.context, server_id), port_id)

    def delete(self, request: Request, server_id: str, port_id: str) -> Response:
        """Detach an interface. The host removes the interface when the guest has released it."""
        detach_interface(self.context, server_id, port_id)
        return Response(status=202)


def _state(instance: Instance, port: Port) -> str:
    if port.shown_status == "BUILD":
        return "BUILD"
    return "ACTIVE" if instance.vm_state == "active" and port.shown_status == "ACTIVE" else "DOWN"
