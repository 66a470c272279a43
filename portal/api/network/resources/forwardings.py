"""Port forwardings of a floating IP (Networking API v2.0 reference, "Floating IPs port forwarding")."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django.db.models import F, Q
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.common.validation import Schema
from portal.api.common.views import Schemas
from portal.api.frame.lists import number
from portal.api.frame.parts import Call, parts
from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute
from portal.api.network.dialect.bodies import (
    HTTPBadRequestError,
    changes_body,
    new_body,
    read_changes,
    read_new,
    read_revision,
)
from portal.api.network.dialect.kinds import ADDRESS, ID, TEXT, Choice, Integer, Kind, OrNone, quoted
from portal.api.network.dialect.query import FIELDS, PAGES, Made, fields_of, query_of, read_query
from portal.api.network.dialect.resource import Resource
from portal.api.network.dialect.views import PartView, page_of
from portal.api.network.resources.floating_ips import FLOATING_IP, port_of, range_of
from provisioning.network import selectors, services
from provisioning.network.models import FloatingIP, PortForwarding
from provisioning.network.selectors import routing
from provisioning.network.services.floating_ips.port_forwardings import PROTOCOLS, ForwardingRequest, Ports

_RANGE = re.compile(r"([0-9]{1,5}):([0-9]{1,5})", re.ASCII)
SIDES = ("external", "internal")


@dataclass(frozen=True)
class PortRange(Kind):
    """A range of ports as text, ``8000:8010``."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> Ports:
        found = _RANGE.fullmatch(str(value))
        if found is None:
            raise ValueError(f"{quoted(value)} is not a range of ports such as 8000:8010")
        return int(found[1]), int(found[2])


PORT, RANGE = Integer(1, 65535), PortRange()


def _of_port(side: str) -> Made:
    """Match forwardings of exactly this port."""
    first, last = f"{side}_port_first", f"{side}_port_last"
    return Made(lambda values: Q(**{f"{first}__in": [number(value) for value in values], last: F(first)}))


def _of_range(side: str) -> Made:
    """Match forwardings of exactly these ranges; malformed ranges match nothing."""

    def condition(values: list[str]) -> Q:
        found = Q(pk__in=[])
        for each in filter(None, map(_RANGE.fullmatch, values)):
            found |= Q(**{f"{side}_port_first": int(each[1]), f"{side}_port_last": int(each[2])})
        return found

    return Made(condition)


def _ports(side: str) -> tuple[Attribute, Attribute]:
    """Return the attributes for the ports of a side; a body sets one of them."""
    options: dict[str, Any] = {"post": True, "put": True, "filter": False, "sort": f"{side}_port_first"}
    return (
        Attribute(name=f"{side}_port", kind=OrNone(PORT), show=partial(port_of, side=side), **options),
        Attribute(name=f"{side}_port_range", kind=OrNone(RANGE), show=partial(range_of, side=side), **options),
    )


PORT_FORWARDING = Resource(
    name="port_forwarding",
    list=Operation(routing.port_forwardings_of),
    tagged=False,
    attributes=(
        Attribute(name="id", kind=ID, sort=True),
        Attribute(name="protocol", kind=Choice(PROTOCOLS), post=True, put=True, required=True, sort=True),
        Attribute(name="internal_port_id", kind=ID, post=True, put=True, required=True, sort=True),
        Attribute(name="internal_ip_address", kind=OrNone(ADDRESS), post=True, put=True, sort=True),
        Attribute(name="description", kind=TEXT, post=True, put=True, sort=True),
        *_ports("external"),
        *_ports("internal"),
    ),
    filters={
        **{f"{side}_port": _of_port(side) for side in SIDES},
        **{f"{side}_port_range": _of_range(side) for side in SIDES},
    },
)
"""Forwardings are read only through their floating IP, which is an argument of ``list``."""


class ForwardingView(PartView):
    """Base class of the views: reads the floating IP, and the fields of a forwarding."""

    resource = FLOATING_IP

    def request_of(self, values: Values) -> dict[str, Any]:
        """Return the values of a body as fields of ``ForwardingRequest``."""
        found: dict[str, Any] = {name: values[name] for name in ("protocol", "description") if name in values}
        for side in SIDES:
            if values.get(f"{side}_port_range") is not None:
                found[side] = values[f"{side}_port_range"]
            elif values.get(f"{side}_port") is not None:
                found[side] = (values[f"{side}_port"],) * 2
        if values.get("internal_ip_address") is not None:
            found["internal_address"] = values["internal_ip_address"]
        if "internal_port_id" in values:
            port = selectors.port_for(self.context, values["internal_port_id"], all_projects=self.operator)
            found["internal_port"] = port
            own = [row.address for row in port.fixed_ips.all() if ":" not in row.address]
            if own:
                found.setdefault("internal_address", own[0])
        return found

    def forwardings(self, rows: Sequence[PortForwarding], fields: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
        """Return forwardings in Neutron's format, with only the ``fields`` if any are specified."""
        attributes = PORT_FORWARDING.attributes
        return super().shapes(rows, [each for each in attributes if not fields or each.name in fields])

    def forwarding(self, row: PortForwarding, fields: frozenset[str] = frozenset()) -> dict[str, Any]:
        return {PORT_FORWARDING.name: self.forwardings([row], fields)[0]}


class Forwardings(ForwardingView):
    """``/network/v2.0/floatingips/{id}/port_forwardings``."""

    rules = {"GET": "get_floatingip_port_forwarding", "POST": "create_floatingip_port_forwarding"}
    http_method_names = ["get", "post", "head"]
    schemas: ClassVar[Schemas] = {"POST": new_body(PORT_FORWARDING)}
    queries: ClassVar[Schemas] = {"GET": query_of(PORT_FORWARDING.every_filter, PORT_FORWARDING.sort_keys)}

    def get(self, request: Request, identity: str) -> Response:
        """List the forwardings that match the filters, sorted and paged."""
        resource, floating = PORT_FORWARDING, self.row(identity)
        query = read_query(request, resource.every_filter, resource.sort_keys)
        rows = page_of(resource, resource.list.call(floating), query.part)
        body: dict[str, Any] = {resource.plural: self.forwardings(rows, query.fields)}
        url = f"{endpoint(request, 'network')}/v2.0/{FLOATING_IP.path}/{floating.id}/{resource.plural}"
        links = PAGES.links(request, query.page, [str(row.pk) for row in rows], url)
        return Response(body | ({f"{resource.plural}_links": links} if links else {}))

    def post(self, request: Request, identity: str) -> Response:
        """Create one port forwarding or several; all or none."""
        (floating,) = self.arguments(identity)
        items, many = read_new(PORT_FORWARDING, request.data)
        rows = services.create_all([self.maker(floating, values) for values in items], {})
        if many:
            return Response({PORT_FORWARDING.plural: self.forwardings(rows)}, status=201)
        return Response(self.forwarding(rows[0]), status=201)

    def maker(self, floating: FloatingIP, values: Values) -> Callable[[], PortForwarding]:
        """Return a function that creates the forwarding. Raises HTTPBadRequestError for missing fields."""
        fields = self.request_of(values)
        for name, field in (("external", "external_port"), ("internal", "internal_port")):
            if name not in fields:
                msg = f"Invalid input for {field}. Reason: {field} or {field}_range is required."
                raise HTTPBadRequestError(msg, field=field)
        if "internal_address" not in fields:
            msg = "Invalid input for internal_ip_address. Reason: the port has no IPv4 address."
            raise HTTPBadRequestError(msg, field="internal_ip_address")
        return partial(services.create_port_forwarding, floating, ForwardingRequest(**fields))


class OneForwardingView(ForwardingView):
    """Base of the calls on ``/network/v2.0/floatingips/{id}/port_forwardings/{id}``.

    A forwarding has no revision, as in Neutron: ``If-Match`` is validated and otherwise ignored.
    """

    def arguments(self, identity: str = "", forwarding: str = "", **ids: str) -> tuple[PortForwarding]:
        (floating,) = super().arguments(identity)
        return (routing.port_forwarding_for(floating, forwarding),)


def _update(row: PortForwarding, changes: Values, *, view: OneForwardingView) -> PortForwarding:
    read_revision(view.request.headers.get("If-Match"))
    return services.update_port_forwarding(row, view.request_of(changes))


def _delete(row: PortForwarding, *, view: OneForwardingView) -> None:
    read_revision(view.request.headers.get("If-Match"))
    services.delete_port_forwarding(row)


PARTS = parts(
    OneForwardingView,
    "floatingips/{identity}/port_forwardings/{forwarding}",
    {
        "GET": Call(
            lambda row: row,
            "get_floatingip_port_forwarding",
            "Show a port forwarding.",
            shape=lambda view, row: view.forwarding(row, fields_of(view.request)),
        ),
        "PUT": Call(
            _update,
            "update_floatingip_port_forwarding",
            "Update a port forwarding.",
            shape=OneForwardingView.forwarding,
            body=changes_body(PORT_FORWARDING),
            read=partial(read_changes, PORT_FORWARDING),
            more=lambda view: {"view": view},
        ),
        "DELETE": Call(
            _delete,
            "delete_floatingip_port_forwarding",
            "Delete a port forwarding.",
            more=lambda view: {"view": view},
        ),
    },
    queries={"GET": FIELDS},
)
