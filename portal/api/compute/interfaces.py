"""``/servers/{id}/os-interface``: the network cards of a server."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.views import ComputeView
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.network import selectors as network


class InterfacesView(ComputeView):
    """``GET /servers/{id}/os-interface``."""

    rules = {"GET": "compute:server_interfaces:list"}

    def get(self, request: Request, server_id: str, port_id: str | None = None) -> Response:
        """The ports of a server, in order of its cards."""
        instance = selectors.instance_for(self.context, server_id)
        ports: dict[str, dict[str, Any]] = {}
        for ref in network.port_refs(instance.id):
            ports[ref.id] = {
                "port_state": "ACTIVE" if instance.vm_state == "active" else "DOWN",
                "port_id": ref.id,
                "net_id": ref.network.id,
                "mac_addr": ref.mac_address,
                "fixed_ips": [{"ip_address": ip.address, "subnet_id": ip.subnet_id} for ip in ref.fixed_ips],
            }
        if port_id is None:
            return Response({"interfaceAttachments": list(ports.values())})
        if port_id not in ports:
            raise NotFoundError(f"Port id {port_id[:64]} could not be found.")
        return Response({"interfaceAttachment": ports[port_id]})


class InterfaceView(InterfacesView):
    """``GET /servers/{id}/os-interface/{port}``."""

    rules = {"GET": "compute:server_interfaces:show"}
