"""Routers (Networking API v2.0 reference, "Routers")."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from portal.api.frame import Call, Filter, Json, Operation, Schema, Service, Values, identity, parts
from portal.api.network.dialect import ZONES, Attribute, Resource, bodies, kinds, query, standard, views
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import Router, Subnet
from provisioning.network.selectors import routing
from provisioning.network.selectors.zones import zones_of_routers
from provisioning.network.services import Gateway, RouterInterface

GATEWAY = kinds.Record(
    {
        "network_id": kinds.ID,
        "enable_snat": kinds.BOOLEAN,
        "external_fixed_ips": kinds.Many(kinds.Record({"subnet_id": kinds.ID, "ip_address": kinds.ADDRESS})),
    },
    required=("network_id",),
)
ROUTE = kinds.Record({"destination": kinds.CIDR, "nexthop": kinds.ADDRESS}, required=("destination", "nexthop"))
INFO = "external_gateway_info"


@dataclass(frozen=True)
class WayOut(kinds.Kind):
    """An external gateway; null or an empty object for none."""

    @property
    def schema(self) -> Schema:
        return {"anyOf": [GATEWAY.schema, {"type": "null"}]}

    def read(self, value: object) -> Json | None:
        return None if value is None or value == {} else GATEWAY.read(value)


WAY_OUT = WayOut()


@dataclass(frozen=True)
class Distributed(kinds.Boolean):
    """True, or null for the default: every router is on each host with guests behind it."""

    def read(self, value: object) -> bool:
        if value is not None and not super().read(value):
            raise ValueError("every router of this cloud is distributed")
        return True


def _gateway(context: RequestContext, gateway: Json | None, verb: str, owner: object) -> Gateway | None:
    """Return the external gateway in a body; null and ``{}`` mean no gateway.

    Raises NetworkNotFoundError, ForbiddenError.
    """
    if not gateway:
        return None
    for name in ("enable_snat", "external_fixed_ips"):
        if name in gateway:
            policy.enforce(context, f"{verb}_router:{INFO}:{name}", {"project_id": owner})
    return Gateway(
        selectors.network_for(context, gateway["network_id"], all_projects=policy.allows(context, views.ALL_PROJECTS)),
        gateway.get("enable_snat", True),
        tuple({name: str(value) for name, value in each.items()} for each in gateway.get("external_fixed_ips", ())),
    )


def _create(context: RequestContext, values: Values) -> Router:
    fields = bodies.columns(ROUTER, values)
    fields.pop("distributed", None)
    gateway = _gateway(context, fields.pop(INFO, None), "create", values["project_id"])
    return services.create_router(**fields, gateway=gateway)


def _update(context: RequestContext, row: Router, values: Values, revision: int | None) -> Router:
    fields = bodies.columns(ROUTER, values)
    fields.pop("distributed", None)
    if INFO in fields:
        fields["gateway"] = _gateway(context, fields.pop(INFO), "update", row.project_id)
    return services.update_router(row, fields, revision)


def _delete(context: RequestContext, row: Router, revision: int | None) -> None:
    services.delete_router(row, revision)


def _info(row: Router) -> Json | None:
    port = row.gateway_port
    if port is None:
        return None
    fixed = [{"subnet_id": str(each.subnet_id), "ip_address": each.address} for each in port.fixed_ips.all()]
    return {"network_id": str(port.network_id), "enable_snat": row.enable_snat, "external_fixed_ips": fixed}


def _zones(context: RequestContext, rows: Sequence[Router]) -> dict[UUID, Json]:
    """Return the zones of the hosts that the routers are on."""
    zones = zones_of_routers([row.id for row in rows])
    return {row.id: {"availability_zones": zones.get(row.id, [])} for row in rows}


ROUTER = Resource(
    name="router",
    quota="routers",
    list=Operation(routing.routers_for),
    show=Operation(routing.router_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    related=("gateway_port__fixed_ips",),
    more=_zones,
    attributes=(
        *standard(),
        Attribute(name="admin_state_up", kind=kinds.BOOLEAN, post=True, put=True, default=True, sort=True),
        Attribute(name="status", kind=kinds.TEXT, sort=True),
        Attribute(
            name=INFO,
            kind=WAY_OUT,
            post=True,
            put=True,
            filter=False,
            show=_info,
            parts=("enable_snat", "external_fixed_ips"),
        ),
        Attribute(name="routes", kind=kinds.Many(ROUTE, null=True), put=True, filter=False),
        Attribute(
            name="distributed",
            kind=Distributed(),
            post=True,
            put=True,
            filter=query.constant("distributed", value=True),
            show=lambda row: True,
            guards=("get", "create", "update"),
        ),
        Attribute(
            name="ha",
            kind=kinds.BOOLEAN,
            filter=query.constant("ha", value=False),
            show=lambda row: False,
        ),
        *ZONES,
        Attribute(name="flavor_id", kind=kinds.OrNone(kinds.ID), filter=False, show=lambda row: None),
    ),
    filters=(Filter(f"{INFO}:network_id", "gateway_port__network_id", identity),),
)


INTERFACE = kinds.Record({"subnet_id": kinds.ID, "port_id": kinds.ID})
ROUTES_BODY = kinds.Record({"router": kinds.Record({"routes": kinds.Many(ROUTE)}, ("routes",))}, ("router",))


def _read(kind: kinds.Record, body: object) -> Json:
    try:
        return kind.read(body)
    except ValueError as error:
        raise bodies.HTTPBadRequestError(f"Invalid input for router. Reason: {error}.") from None


def _add_interface(router: Router, values: Json, *, context: RequestContext, operator: bool) -> RouterInterface:
    """Attach the router to a network, by subnet or by port."""
    if "subnet_id" in values and "port_id" in values:
        raise bodies.HTTPBadRequestError("Bad router request: Cannot specify both subnet-id and port-id.")
    if "port_id" in values:
        port = selectors.port_for(context, values["port_id"], all_projects=operator)
        return services.add_interface_by_port(router, port, anywhere=operator)
    subnet = _subnet(values, context, operator=operator)
    return services.add_interface_by_subnet(router, subnet, anywhere=operator)


def _remove_interface(router: Router, values: Json, *, context: RequestContext, operator: bool) -> RouterInterface:
    """Detach the router from a network, by subnet, by port, or by both, which must match."""
    if "port_id" in values:
        subnet_id = str(values["subnet_id"]) if "subnet_id" in values else None
        return services.remove_interface_by_port(router, str(values["port_id"]), subnet_id)
    return services.remove_interface_by_subnet(router, _subnet(values, context, operator=operator))


def _subnet(values: Json, context: RequestContext, *, operator: bool) -> Subnet:
    if "subnet_id" not in values:
        raise bodies.HTTPBadRequestError("Bad router request: Either subnet_id or port_id must be specified.")
    return selectors.subnet_for(context, values["subnet_id"], all_projects=operator)


def _interface(view: views.PartView, interface: RouterInterface) -> Json:
    """Return Neutron's representation of an interface that was added or removed."""
    router, port, subnet = interface.router, interface.port, interface.subnet
    return {
        "id": str(router.id),
        "tenant_id": router.project_id.hex,
        "project_id": router.project_id.hex,
        "port_id": str(port.id),
        "network_id": str(port.network_id),
        "subnet_id": str(subnet.id),
        "subnet_ids": [str(subnet.id)],
        "tags": [],
    }


def _on_interfaces(service: Service, rule: str, description: str) -> Call:
    return Call(
        service,
        rule,
        description,
        shape=_interface,
        body=INTERFACE.schema,
        read=partial(_read, INTERFACE),
        more=lambda view: {"context": view.context, "operator": view.operator},
    )


def _on_routes(service: Service, rule: str, description: str) -> Call:
    return Call(
        service,
        rule,
        description,
        name="router",
        shape=lambda view, router: view.shape_of(router.pk),
        body=ROUTES_BODY.schema,
        read=lambda body: _read(ROUTES_BODY, body)["router"]["routes"],
    )


PARTS = parts(
    views.PartView,
    "routers/{identity}/",
    {
        "PUT add_router_interface": _on_interfaces(
            _add_interface, "add_router_interface", "Attach the router to a network."
        ),
        "PUT remove_router_interface": _on_interfaces(
            _remove_interface, "remove_router_interface", "Detach the router from a network."
        ),
        "PUT add_extraroutes": _on_routes(services.add_routes, "add_extraroutes", "Add routes to the existing ones."),
        "PUT remove_extraroutes": _on_routes(
            services.remove_routes, "remove_extraroutes", "Remove routes from the existing ones."
        ),
    },
    resource=ROUTER,
)
