"""Port forwardings of a floating IP (Networking API v2.0 reference, "Floating IPs port forwarding")."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.common.views import Schemas
from portal.api.network.floating_ips.resource import FLOATING_IP, ports_of
from portal.api.network.frame.bodies import HTTPBadRequestError
from portal.api.network.frame.kinds import ADDRESS, ID, Choice, Integer, Kind, Record, Text, quoted
from portal.api.network.frame.views import ResourceView
from provisioning.network import selectors, services
from provisioning.network.models import FloatingIP, PortForwarding
from provisioning.network.selectors import routing
from provisioning.network.services.port_forwardings import PROTOCOLS, Ports, Wanted

NAME = "port_forwarding"
_RANGE = re.compile(r"([0-9]{1,5}):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True)
class PortRange(Kind):
    """``8000:8010``."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> Ports:
        found = _RANGE.fullmatch(str(value))
        if found is None:
            raise ValueError(f"{quoted(value)} is not a range of ports such as 8000:8010")
        return int(found[1]), int(found[2])


PORT = Integer(1, 65535)
BODY = Record(
    {
        "protocol": Choice(PROTOCOLS),
        "external_port": PORT,
        "external_port_range": PortRange(),
        "internal_port": PORT,
        "internal_port_range": PortRange(),
        "internal_port_id": ID,
        "internal_ip_address": ADDRESS,
        "description": Text(),
    }
)
REQUIRED = ("protocol", "internal_port_id")
SCHEMA = {"type": "object", "properties": {NAME: BODY.schema}, "required": [NAME]}


class ForwardingView(ResourceView):
    """Base: finds the floating IP of the address and reads what a body says of a forwarding."""

    resource = FLOATING_IP

    def floating(self, identity: str) -> FloatingIP:
        """Return the floating IP, if the caller may do with its forwardings what the method does."""
        row: FloatingIP = self.row(identity)
        self.enforce([self.rules[str(self.request.method)]], self.resource.target(row))
        return row

    def said(self, request: Request) -> dict[str, Any]:
        """Return the body as fields of ``Wanted``."""
        body = request.data.get(NAME) if isinstance(request.data, dict) else None
        try:
            read = BODY.read(body)
        except ValueError as error:
            raise HTTPBadRequestError(f"Invalid input for {NAME}. Reason: {error}.") from None
        found: dict[str, Any] = {name: read[name] for name in ("protocol", "description") if name in read}
        for side in ("external", "internal"):
            if f"{side}_port_range" in read:
                found[side] = read[f"{side}_port_range"]
            elif f"{side}_port" in read:
                found[side] = (read[f"{side}_port"], read[f"{side}_port"])
        if "internal_ip_address" in read:
            found["internal_address"] = read["internal_ip_address"]
        if "internal_port_id" in read:
            port = selectors.port_for(self.context, read["internal_port_id"], all_projects=self.operator)
            found["internal_port"] = port
            own = [row.address for row in port.fixed_ips.all() if ":" not in row.address]
            if own:
                found.setdefault("internal_address", own[0])
        return found


class Forwardings(ForwardingView):
    """``/network/v2.0/floatingips/{id}/port_forwardings``."""

    rules = {"GET": "get_floatingip_port_forwarding", "POST": "create_floatingip_port_forwarding"}
    http_method_names = ["get", "post", "head"]
    schemas: ClassVar[Schemas] = {"POST": SCHEMA}

    def get(self, request: Request, identity: str) -> Response:
        """List them, the oldest first."""
        rows = self.row(identity).port_forwardings.order_by("created_at", "id")
        return Response({"port_forwardings": [shape(row) for row in rows]})

    def post(self, request: Request, identity: str) -> Response:
        """Forward ports."""
        floating, said = self.floating(identity), self.said(request)
        wanted = ("protocol", "external", "internal_port", "internal_address", "internal")
        missing = [name for name in wanted if name not in said]
        if missing:
            raise HTTPBadRequestError(f"Invalid input for {NAME}. Reason: {missing[0]} is required.")
        row = services.create_port_forwarding(floating, Wanted(**said))
        return Response({NAME: shape(row)}, status=201)


class Forwarding(ForwardingView):
    """``/network/v2.0/floatingips/{id}/port_forwardings/{id}``."""

    rules = {
        "GET": "get_floatingip_port_forwarding",
        "PUT": "update_floatingip_port_forwarding",
        "DELETE": "delete_floatingip_port_forwarding",
    }
    http_method_names = ["get", "put", "delete", "head"]
    schemas: ClassVar[Schemas] = {"PUT": SCHEMA}

    def get(self, request: Request, identity: str, forwarding: str) -> Response:
        return Response({NAME: shape(routing.port_forwarding_for(self.row(identity), forwarding))})

    def put(self, request: Request, identity: str, forwarding: str) -> Response:
        """Change one."""
        row = routing.port_forwarding_for(self.floating(identity), forwarding)
        return Response({NAME: shape(services.update_port_forwarding(row, self.said(request)))})

    def delete(self, request: Request, identity: str, forwarding: str) -> Response:
        """Forward these ports no more."""
        services.delete_port_forwarding(routing.port_forwarding_for(self.floating(identity), forwarding))
        return Response(status=204)


def shape(row: PortForwarding) -> dict[str, Any]:
    """Return a forwarding in Neutron's words."""
    return {
        "id": str(row.id),
        "protocol": row.protocol,
        "internal_port_id": str(row.internal_port_id),
        "internal_ip_address": row.internal_ip_address,
        "description": row.description,
        **ports_of(row),
    }
