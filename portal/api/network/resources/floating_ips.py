"""Floating IPs, their pools, which are the IPv4 subnets of external networks, and their port forwardings (Networking
API v2.0 reference, "Floating IPs", "Floating IP pools", "Floating IPs port forwarding").
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django.db.models import F, Q
from rest_framework.request import Request

from portal.api.frame import Call, Filter, Json, Operation, Schema, Values, endpoint, number, parts
from portal.api.network.dialect import Attribute, DnsDomain, DnsName, Resource, bodies, kinds, standard, views
from portal.api.network.dialect.query import FIELDS, PAGES, fields_of, query_of, read_query
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.errors import BadRequestError
from provisioning.network.models import FloatingIP, PortForwarding
from provisioning.network.selectors import routing
from provisioning.network.selectors.routing import floating_ip_pools_for
from provisioning.network.services.floating_ips.port_forwardings import PROTOCOLS, ForwardingRequest, Ports

FLOATING_IP_POOL = Resource(
    name="floatingip_pool",
    path="floatingip_pools",
    list=Operation(floating_ip_pools_for),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="subnet_id", kind=kinds.ID, column="id", sort=True),
        Attribute(name="subnet_name", kind=kinds.TEXT, column="name", sort=True),
        Attribute(name="network_id", kind=kinds.ID, sort=True),
        Attribute(name="cidr", kind=kinds.TEXT, sort=True),
        Attribute(name="project_id", kind=kinds.PROJECT_ID, column="caller_id", filter=False),
        Attribute(name="tenant_id", kind=kinds.PROJECT_ID, column="caller_id", filter=False),
    ),
)


def _create_floating_ip(context: RequestContext, values: Values) -> FloatingIP:
    everybody = values["project_id"] != context.project_id
    port, subnet = values.get("port_id"), values.get("subnet_id")
    columns = {name: values[name] for name in ("description", "dns_name", "dns_domain") if name in values}
    outside = values["floating_network_id"]
    try:
        network = selectors.network_for(context, outside, all_projects=policy.allows(context, views.ALL_PROJECTS))
    except NotFoundError as error:
        msg = f"Bad floatingip request: Network {outside} is not a valid external network."
        raise BadRequestError(msg, field="floating_network_id") from error
    return services.create_floating_ip(
        values["project_id"],
        network,
        subnet=selectors.subnet_for(context, subnet, all_projects=True) if subnet else None,
        address=values.get("floating_ip_address"),
        port=selectors.port_for(context, port, all_projects=everybody) if port else None,
        fixed_address=values.get("fixed_ip_address"),
        **columns,
    )


def _update_floating_ip(context: RequestContext, row: FloatingIP, values: Values, revision: int | None) -> FloatingIP:
    changes: dict[str, object] = {}
    if "description" in values:
        changes["description"] = values["description"]
    if "port_id" in values or "fixed_ip_address" in values:
        port = values.get("port_id", row.fixed_port_id if "port_id" not in values else None)
        changes["port"] = selectors.port_for(context, port, all_projects=True) if port else None
    return services.update_floating_ip(row, changes, revision, fixed_address=values.get("fixed_ip_address"))


def _delete_floating_ip(context: RequestContext, row: FloatingIP, revision: int | None) -> None:
    services.delete_floating_ip(row, revision)


def _details(row: FloatingIP) -> Json | None:
    port = row.fixed_port
    if port is None:
        return None
    return {
        "name": port.name,
        "network_id": str(port.network_id),
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.shown_status,
        "device_id": str(port.device_id) if port.device_id else port.device_text,
        "device_owner": port.device_owner,
    }


def _forwardings(row: FloatingIP) -> list[Json]:
    return [
        {
            "id": str(each.id),
            "protocol": each.protocol,
            "internal_port_id": str(each.internal_port_id),
            "internal_ip_address": each.internal_ip_address,
            **{f"{side}_port": port_of(each, side=side) for side in ("external", "internal")},
        }
        for each in sorted(row.port_forwardings.all(), key=lambda each: (each.created_at, each.id))
    ]


def port_of(row: PortForwarding, *, side: str) -> int | None:
    """Return a forwarding's single port on a side, ``external`` or ``internal``; None for a range."""
    first, last = _ends(row, side)
    return first if first == last else None


def range_of(row: PortForwarding, *, side: str) -> str:
    """Return a forwarding's ports on a side as a range; a single port is a range of one port."""
    first, last = _ends(row, side)
    return f"{first}:{last}"


def _ends(row: PortForwarding, side: str) -> tuple[int, int]:
    return getattr(row, f"{side}_port_first"), getattr(row, f"{side}_port_last")


FLOATING_IP = Resource(
    name="floatingip",
    quota="floatingips",
    list=Operation(routing.floating_ips_for),
    show=Operation(routing.floating_ip_for),
    create=Operation(_create_floating_ip),
    update=Operation(_update_floating_ip),
    delete=Operation(_delete_floating_ip),
    attributes=(
        *standard(named=False),
        Attribute(name="floating_network_id", kind=kinds.ID, column="network_id", post=True, required=True, sort=True),
        Attribute(
            name="floating_ip_address", kind=kinds.OrNone(kinds.ADDRESS), column="address", post=True, default=None,
            guards=("create",), sort=True,
        ),
        Attribute(name="subnet_id", kind=kinds.OrNone(kinds.ID), post=True, shown=False, filter=False),
        Attribute(name="port_id", kind=kinds.OrNone(kinds.ID, empty=True), column="fixed_port_id", post=True, put=True),
        Attribute(
            name="fixed_ip_address",
            kind=kinds.OrNone(kinds.ADDRESS, empty=True),
            column="fixed_address",
            post=True,
            put=True,
            sort=True,
        ),
        Attribute(name="router_id", kind=kinds.OrNone(kinds.ID)),
        Attribute(name="status", kind=kinds.TEXT, sort=True),
        Attribute(name="dns_name", kind=DnsName(), post=True),
        Attribute(name="dns_domain", kind=DnsDomain(), post=True),
        Attribute(name="port_details", kind=kinds.OrNone(kinds.Free()), filter=False, show=_details),
        Attribute(name="port_forwardings", kind=kinds.Many(kinds.Free()), filter=False, show=_forwardings),
    ),
)  # fmt: skip


_RANGE = re.compile(r"([0-9]{1,5}):([0-9]{1,5})", re.ASCII)
SIDES = ("external", "internal")


@dataclass(frozen=True)
class PortRange(kinds.Kind):
    """A range of ports as text, ``8000:8010``."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> Ports:
        found = _RANGE.fullmatch(str(value))
        if found is None:
            raise ValueError(f"{kinds.quoted(value)} is not a range of ports such as 8000:8010")
        return int(found[1]), int(found[2])


PORT, RANGE = kinds.Integer(1, 65535), PortRange()


def _of_port(side: str) -> Filter:
    """Match forwardings of exactly this port."""
    first, last = f"{side}_port_first", f"{side}_port_last"
    return Filter(f"{side}_port", read=number, condition=lambda values: Q(**{f"{first}__in": values, last: F(first)}))


def _of_range(side: str) -> Filter:
    """Match forwardings of exactly these ranges; malformed ranges match nothing."""

    def condition(values: list[str]) -> Q:
        found = Q(pk__in=[])
        for each in filter(None, map(_RANGE.fullmatch, values)):
            found |= Q(**{f"{side}_port_first": int(each[1]), f"{side}_port_last": int(each[2])})
        return found

    return Filter(f"{side}_port_range", condition=condition)


def _ports(side: str) -> tuple[Attribute, Attribute]:
    """Return the attributes for the ports of one side (internal or external); a body sets one of them."""
    attribute = partial(Attribute, post=True, put=True, filter=False, sort=f"{side}_port_first")
    return (
        attribute(name=f"{side}_port", kind=kinds.OrNone(PORT), show=partial(port_of, side=side)),
        attribute(name=f"{side}_port_range", kind=kinds.OrNone(RANGE), show=partial(range_of, side=side)),
    )


PORT_FORWARDING = Resource(
    name="port_forwarding",
    list=Operation(routing.port_forwardings_of),
    tagged=False,
    attributes=(
        Attribute(name="id", kind=kinds.ID, sort=True),
        Attribute(name="protocol", kind=kinds.Choice(PROTOCOLS), post=True, put=True, required=True, sort=True),
        Attribute(name="internal_port_id", kind=kinds.ID, post=True, put=True, required=True, sort=True),
        Attribute(name="internal_ip_address", kind=kinds.OrNone(kinds.ADDRESS), post=True, put=True, sort=True),
        Attribute(name="description", kind=kinds.TEXT, post=True, put=True, sort=True),
        *_ports("external"),
        *_ports("internal"),
    ),
    filters=(*map(_of_port, SIDES), *map(_of_range, SIDES)),
)
"""Forwardings are read only through their floating IP, which is an argument of ``list``."""


class ForwardingView(views.PartView):
    """Base class of the views: reads the floating IP, and the fields of a forwarding."""

    resource = FLOATING_IP

    def request_of(self, values: Values) -> Values:
        """Return the values of a body as fields of ``ForwardingRequest``."""
        found: Values = {name: values[name] for name in ("protocol", "description") if name in values}
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

    def forwardings(self, rows: Sequence[PortForwarding], fields: frozenset[str] = frozenset()) -> list[Json]:
        """Return forwardings in Neutron's format, with only the ``fields`` if any are specified."""
        attributes = PORT_FORWARDING.attributes
        return super().shapes(rows, [each for each in attributes if not fields or each.name in fields])

    def forwarding(self, row: PortForwarding, fields: frozenset[str] = frozenset()) -> Json:
        return {PORT_FORWARDING.name: self.forwardings([row], fields)[0]}


class Forwardings(ForwardingView):
    """``/network/v2.0/floatingips/{id}/port_forwardings``."""

    rules = {"GET": "get_floatingip_port_forwarding", "POST": "create_floatingip_port_forwarding"}
    http_method_names = ["get", "post", "head"]
    successes = {"POST": 201}
    schemas = {"POST": bodies.new_body(PORT_FORWARDING)}
    queries = {"GET": query_of(PORT_FORWARDING.every_filter, PORT_FORWARDING.sort_keys)}

    def get(self, request: Request, identity: str) -> Json:
        """List the forwardings that match the filters, sorted and paged."""
        resource, floating = PORT_FORWARDING, self.row(identity)
        query = read_query(request, resource.every_filter, resource.sort_keys)
        rows = views.page_of(resource, resource.list.call(floating), query.part)
        body: Json = {resource.plural: self.forwardings(rows, query.fields)}
        url = f"{endpoint(request, 'network')}/v2.0/{FLOATING_IP.path}/{floating.id}/{resource.plural}"
        links = PAGES.links(request, query.page, [str(row.pk) for row in rows], url)
        return body | ({f"{resource.plural}_links": links} if links else {})

    def post(self, request: Request, identity: str) -> Json:
        """Create one port forwarding or several; all or none."""
        (floating,) = self.arguments(identity)
        items, many = bodies.read_new(PORT_FORWARDING, request.data)
        rows = services.create_all([self.maker(floating, values) for values in items], {})
        if many:
            return {PORT_FORWARDING.plural: self.forwardings(rows)}
        return self.forwarding(rows[0])

    def maker(self, floating: FloatingIP, values: Values) -> Callable[[], PortForwarding]:
        """Return a function that creates the forwarding. Raises HTTPBadRequestError for missing fields."""
        fields = self.request_of(values)
        for name, field in (("external", "external_port"), ("internal", "internal_port")):
            if name not in fields:
                msg = f"Invalid input for {field}. Reason: {field} or {field}_range is required."
                raise bodies.HTTPBadRequestError(msg, field=field)
        if "internal_address" not in fields:
            msg = "Invalid input for internal_ip_address. Reason: the port has no IPv4 address."
            raise bodies.HTTPBadRequestError(msg, field="internal_ip_address")
        return partial(services.create_port_forwarding, floating, ForwardingRequest(**fields))


class OneForwardingView(ForwardingView):
    """Base of the calls on ``/network/v2.0/floatingips/{id}/port_forwardings/{id}``.

    A forwarding has no revision, as in Neutron: ``If-Match`` is validated and otherwise ignored.
    """

    def arguments(self, identity: str = "", forwarding: str = "", **ids: str) -> tuple[PortForwarding]:
        (floating,) = super().arguments(identity)
        return (routing.port_forwarding_for(floating, forwarding),)


def _update_forwarding(row: PortForwarding, changes: Values, *, view: OneForwardingView) -> PortForwarding:
    bodies.read_revision(view.request.headers.get("If-Match"))
    return services.update_port_forwarding(row, view.request_of(changes))


def _delete_forwarding(row: PortForwarding, *, view: OneForwardingView) -> None:
    bodies.read_revision(view.request.headers.get("If-Match"))
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
            _update_forwarding,
            "update_floatingip_port_forwarding",
            "Update a port forwarding.",
            shape=OneForwardingView.forwarding,
            body=bodies.changes_body(PORT_FORWARDING),
            read=partial(bodies.read_changes, PORT_FORWARDING),
            more=lambda view: {"view": view},
        ),
        "DELETE": Call(
            _delete_forwarding,
            "delete_floatingip_port_forwarding",
            "Delete a port forwarding.",
            more=lambda view: {"view": view},
        ),
    },
    queries={"GET": FIELDS},
)
