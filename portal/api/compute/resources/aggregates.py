"""Host aggregates and availability zones (Compute API reference, "Host aggregates", "Availability zones")."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.request import Request

from portal.api.compute import dialect
from portal.api.frame import NEWEST, Attribute, Call, Checked, Json, Operation, Schema, Values, body, inner, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import Aggregate
from provisioning.compute.selectors.compute_services import (
    ComputeService,
    aggregate_for,
    aggregates_for,
    compute_services_for,
)
from provisioning.compute.services import aggregates as services
from provisioning.hosts import selectors

Act = Callable[[RequestContext, int, Any], Aggregate]
_ZONE: Schema = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\s)[^:\x00-\x1f\x7f]*(?<!\s)\Z",
}
_METADATA: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9_:. -]{1,255}\Z": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}
UPDATE = body(
    "aggregate",
    {"name": {"type": "string", "minLength": 1, "maxLength": 255}, "availability_zone": _ZONE},
)
UPDATE["properties"]["aggregate"]["anyOf"] = [{"required": ["name"]}, {"required": ["availability_zone"]}]
ACTIONS: dict[str, Schema] = {
    "add_host": body("add_host", {"host": dialect.HOST}, ("host",)),
    "remove_host": body("remove_host", {"host": dialect.HOST}, ("host",)),
    "set_metadata": body("set_metadata", {"metadata": _METADATA}, ("metadata",)),
}
"""The body of each action."""
ACTION: Schema = {"oneOf": [*ACTIONS.values()]}
_IMAGE = inner({"id": {"type": "string", "format": "uuid"}}, ("id",))
_IMAGES: Schema = {"type": "array", "minItems": 1, "items": _IMAGE}


def _show(view: dialect.ResourceView, identity: str) -> Aggregate:
    return aggregate_for(view.context, dialect.read_number(identity))


def _create(view: dialect.ResourceView, values: Values) -> Aggregate:
    return services.create_aggregate(view.context, **values)


def _update(view: dialect.ResourceView, identity: str, values: Values) -> Aggregate:
    return services.update_aggregate(view.context, dialect.read_number(identity), values)


def _delete(view: dialect.ResourceView, identity: str) -> None:
    services.delete_aggregate(view.context, dialect.read_number(identity))


def _zone_of(row: Aggregate) -> dict[str, str]:
    return {"availability_zone": row.availability_zone} if row.availability_zone else {}


_OWN = (
    Attribute("id", dialect.SHOWN, column="pk"),
    Attribute("name", Checked(dialect.NAME), post=True, put=True, required=True),
    Attribute("availability_zone", Checked(_ZONE, writer=lambda zone: zone or None), post=True, put=True),
    Attribute("created_at", dialect.TIME),
    Attribute("updated_at", dialect.TIME),
    Attribute("deleted", dialect.SHOWN, show=lambda row: False),
    Attribute("deleted_at", dialect.SHOWN, show=lambda row: None),
    Attribute("uuid", dialect.ID, since=(2, 41)),
)
AGGREGATE = dialect.Resource(
    name="aggregate",
    path="os-aggregates",
    list=Operation(lambda view, query: aggregates_for(view.context), "os_compute_api:os-aggregates:index"),
    show=Operation(_show, "os_compute_api:os-aggregates:show"),
    create=Operation(_create, "os_compute_api:os-aggregates:create", "Create an aggregate without hosts.", shows=_OWN),
    update=Operation(_update, "os_compute_api:os-aggregates:update", "Update the name, the zone or both.", body=UPDATE),
    delete=Operation(_delete, "os_compute_api:os-aggregates:delete", "Delete an aggregate that has no hosts."),
    attributes=(
        *_OWN,
        Attribute("hosts", dialect.SHOWN, show=lambda row: sorted(host.name for host in row.hosts.all())),
        Attribute("metadata", dialect.SHOWN, show=lambda row: row.metadata | _zone_of(row)),
    ),
)


class AggregateActionView(dialect.ResourceView):
    """``POST /os-aggregates/{id}/action``: the body's only key is the name of the action."""

    resource = AGGREGATE
    rules = {"POST": "os_compute_api:os-aggregates:show"}
    action_rules = {name: f"os_compute_api:os-aggregates:{name}" for name in ACTIONS}
    schemas = {"POST": ACTION}
    acts: ClassVar[Mapping[str, Act]] = {
        "add_host": lambda context, number, body: services.add_host(context, number, body["host"]),
        "remove_host": lambda context, number, body: services.remove_host(context, number, body["host"]),
        "set_metadata": lambda context, number, body: services.set_aggregate_metadata(
            context, number, body["metadata"]
        ),
    }

    def post(self, request: Request, identity: str) -> Json:
        """Add or remove a host, or change metadata."""
        number, name = dialect.read_number(identity), self._named()
        body = self.body(ACTIONS[name])[name]
        [shape] = self.shapes([self.acts[name](self.context, number, body)])
        return {"aggregate": shape}

    def _named(self) -> str:
        """Return the name of the action in the body. Raises InvalidInputError."""
        body = self.request.data
        names = [str(name) for name in body] if isinstance(body, dict) else []
        if len(names) != 1 or names[0] not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise InvalidInputError(f"There is no such action: the body must name one of {known}.")
        return names[0]


class AggregateImagesView(dialect.ResourceView):
    """``POST /os-aggregates/{id}/images`` (2.81): not supported."""

    resource = AGGREGATE
    rules = {"POST": "compute:aggregates:images"}
    schemas = {"POST": inner({"cache": _IMAGES}, ("cache",))}
    versions = {"POST": ((2, 81), NEWEST)}

    def post(self, request: Request, identity: str) -> Json:
        """Refuse to cache images in advance: a host downloads and caches an image for the first server that uses it."""
        images = [image["id"] for image in self.checked_body()["cache"]]
        if len(set(images)) < len(images):
            raise InvalidInputError("Duplicate images in request", field="cache")
        self.row(identity)
        raise InvalidInputError(
            "This cloud does not support preloading of images: a host fetches an image for the first server that"
            " needs it, and caches it.",
            field="cache",
        )


def _with_hosts(context: RequestContext) -> list[Json]:
    """Return the zones with their hosts and workers; a zone without an enabled host has only its name."""
    inside: dict[str, Json] = {}
    zones: dict[str, bool] = {}
    for service in compute_services_for(context):
        zones[service.zone] = zones.get(service.zone, False) or service.enabled
        if service.enabled:
            inside.setdefault(service.zone, {}).setdefault(service.host, {})[service.binary] = _service(service)
    return [_zone(zone, inside.get(zone), open_=on) for zone, on in _sorted(zones)]


def _sorted(zones: dict[str, bool]) -> list[tuple[str, bool]]:
    return sorted(zones.items(), key=lambda item: (not item[1], item[0]))


def _zone(name: str, inside: Json | None, *, open_: bool) -> Json:
    return {"zoneName": name, "zoneState": {"available": open_}, "hosts": inside}


def _service(service: ComputeService) -> Json:
    return {
        "available": service.up,
        "active": service.enabled,
        "updated_at": dialect.timestamp_micro(service.updated_at),
    }


AVAILABILITY_ZONES = parts(
    dialect.ComputeView,
    "os-availability-zone",
    {
        "GET": Call(
            lambda context: [_zone(zone, None, open_=on) for zone, on in _sorted(selectors.zones())],
            "os_compute_api:os-availability-zone:list",
            "List the zones that a launch may specify, zones with a host that is up first. The zone of the workers is"
            " omitted.",
            name="availabilityZoneInfo",
        ),
        "GET /detail": Call(
            _with_hosts,
            "os_compute_api:os-availability-zone:detail",
            "List the zones with their hosts and workers; a zone without an enabled host has only its name.",
            name="availabilityZoneInfo",
        ),
    },
)
