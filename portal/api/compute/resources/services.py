"""Compute services, and the hosts that they replaced in 2.43 (Compute API reference, "Compute services", "Hosts")."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from django.utils import timezone
from rest_framework.request import Request

from portal.api.compute import dialect
from portal.api.frame import Attribute, Call, Json, Operation, Parameter, Schema, Version, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NotOfferedError
from provisioning.common.values.ids import read_id
from provisioning.compute.selectors import compute_services as selectors
from provisioning.compute.selectors.compute_services import ComputeService, compute_services_for
from provisioning.compute.selectors.hosts import shares_of
from provisioning.compute.services.hosts import change_host, forget_host
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import hosts_for

LAST_NUMBERS, BY_ID = (2, 52), (2, 53)
"""The last version with numbers as ids, and the first with UUIDs."""
FORCED_DOWN = (2, 11)
_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def _body(version: Version) -> Schema:
    """Return the schema of ``PUT /os-services/{id}``, and before 2.53 of ``PUT /os-services/enable`` and similar
    paths.
    """
    properties: Schema = {"disabled_reason": _WORD}
    if version >= FORCED_DOWN:
        properties["forced_down"] = dialect.BOOLEAN
    required = []
    if version >= BY_ID:
        properties["status"] = {"enum": ["enabled", "disabled"]}
    else:
        properties |= {"host": dialect.HOST, "binary": _WORD}
        required = ["host", "binary"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(view: dialect.ListView, query: Mapping[str, str]) -> list[ComputeService]:
    return selectors.compute_services_for(
        view.context, host=query.get("host") or None, binary=query.get("binary") or None
    )


def _ident(view: dialect.ResourceView, text: str) -> uuid.UUID | int:
    """Read an id in the microversion's format. Raises InvalidInputError."""
    if view.microversion < BY_ID:
        return dialect.read_number(text)
    found = read_id(text)
    if found is None:
        raise InvalidInputError(f"Invalid uuid {text[:64]}", field="service_id")
    return found


def _delete(view: dialect.ResourceView, identity: str) -> None:
    service = selectors.compute_service_for(view.context, _ident(view, identity))
    if service.binary != selectors.COMPUTE:
        raise ConflictError(f"The {service.binary} of {service.host} is up; stop it to remove it from the list.")
    forget_host(view.context, service.id)


def _refuse_worker(service: ComputeService) -> None:
    if service.binary != selectors.COMPUTE:
        raise InvalidInputError(
            f"Updating a {service.binary} service is not supported. Only nova-compute services can be updated.",
            field="binary",
        )


class ServiceView(dialect.DetailView):
    """``PUT`` and ``DELETE /os-services/{id}``; before 2.53 ``PUT`` is to ``enable``, ``disable`` and similar paths."""

    rules = {"PUT": "os_compute_api:os-services:update"}
    schemas = {"PUT": _body}

    def put(self, request: Request, identity: str) -> Json:
        """Enable or disable a host, or force it down."""
        if self.microversion < BY_ID:
            return {"service": self._by_name(identity)}
        ident = _ident(self, identity)
        body = self.checked_body()
        service = selectors.compute_service_for(self.context, ident)
        _refuse_worker(service)
        requested = body.get("status")
        if "disabled_reason" in body and requested != "disabled":
            raise InvalidInputError(
                "Specifying 'disabled_reason' is only allowed when status is 'disabled'.", field="disabled_reason"
            )
        if requested is None and "forced_down" not in body:
            raise InvalidInputError(
                "No updates were requested. Fields 'status' or 'forced_down' should be specified.", field="status"
            )
        host = change_host(
            self.context,
            service.id,
            enabled=None if requested is None else requested == "enabled",
            reason=body.get("disabled_reason", ""),
            forced_down=dialect.boolean(body["forced_down"]) if "forced_down" in body else None,
        )
        [shape] = self.shapes([selectors.service_of(host, timezone.now())])
        return {"service": shape}

    def _by_name(self, verb: str) -> Json:
        """Update the service that the body specifies by host and binary, and return the changed fields."""
        if verb not in {"enable", "disable", "disable-log-reason", *(["force-down"] * (self.microversion >= (2, 11)))}:
            raise NotFoundError("Unknown action")
        body = self.checked_body()
        named = {"host": body["host"], "binary": body["binary"]}
        found = selectors.compute_services_for(self.context, **named)
        if not found:
            raise NotFoundError(f"Could not find binary {body['binary']} on host {body['host']}.")
        _refuse_worker(found[0])
        if verb == "force-down":
            if "forced_down" not in body:
                raise InvalidInputError("Missing forced_down field", field="forced_down")
            host = change_host(self.context, found[0].id, forced_down=dialect.boolean(body["forced_down"]))
            return named | {"forced_down": host.forced_down}
        reason = body.get("disabled_reason", "")
        if verb == "disable-log-reason" and not reason:
            raise InvalidInputError("Missing disabled reason field", field="disabled_reason")
        logged = verb == "disable-log-reason"
        host = change_host(self.context, found[0].id, enabled=verb == "enable", reason=reason if logged else "")
        status = {"status": "enabled" if host.enabled else "disabled"}
        return named | status | ({"disabled_reason": host.disabled_reason} if logged else {})


SERVICE = dialect.Resource(
    name="service",
    path="os-services",
    list=Operation(
        _list,
        "os_compute_api:os-services:list",
        "List the agents of the hosts and the workers, under Nova's names.",
        parameters=(Parameter("host", dialect.TEXT), Parameter("binary", dialect.TEXT)),
    ),
    delete=Operation(_delete, "os_compute_api:os-services:delete", "Remove a host that has no servers.", status=204),
    attributes=(
        Attribute("id", dialect.SHOWN, column="number", until=LAST_NUMBERS),
        Attribute("id", dialect.ID, since=BY_ID),
        Attribute("binary", dialect.SHOWN),
        Attribute("host", dialect.SHOWN),
        Attribute("zone", dialect.SHOWN),
        Attribute("status", dialect.SHOWN, show=lambda row: "enabled" if row.enabled else "disabled"),
        Attribute("state", dialect.SHOWN, show=lambda row: "up" if row.up else "down"),
        Attribute("updated_at", dialect.TIME),
        Attribute("disabled_reason", dialect.TEXT_OR_NULL),
        Attribute("forced_down", dialect.SHOWN, since=FORCED_DOWN),
    ),
)
SERVICES = replace(dialect.COMPUTE, details=ServiceView)


LAST_WITH_HOSTS = (2, 42)
"""The last microversion that has hosts."""
WORDS = {word: word.lower() == "enable" for word in ("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE")}
"""Valid value of ``status`` and ``maintenance_mode`` → whether it enables."""
HOST_UPDATE: Schema = {
    "type": "object",
    "properties": {"status": {"enum": [*WORDS]}, "maintenance_mode": {"enum": [*WORDS]}},
    "anyOf": [{"required": ["status"]}, {"required": ["maintenance_mode"]}],
    "additionalProperties": False,
}


def hosts_query(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-hosts``."""
    return {
        "type": "object",
        "properties": {
            "zone": {"type": "array", "items": dialect.TEXT},
            "service": {"type": "array", "items": dialect.TEXT},
        },
        "additionalProperties": True,
    }


def _host(context: RequestContext, name: str) -> Host:
    for host in hosts_for(context):
        if host.name == name:
            return host
    raise NotFoundError(f"Compute host {name[:64]} could not be found.")


def _list_hosts(context: RequestContext, *, zone: str | None, service: str | None) -> list[dict[str, str]]:
    hosts = [
        {"host_name": each.host, "service": each.binary.removeprefix("nova-"), "zone": each.zone}
        for each in compute_services_for(context)
        if each.enabled
    ]
    return [host for host in hosts if zone in {None, host["zone"]} and service in {None, host["service"]}]


def _host_filters(view: dialect.ComputeView) -> dict[str, str | None]:
    return {name: dialect.last(view.checked_query(), name) or None for name in ("zone", "service")}


def _host_shape(view: dialect.ComputeView, host: Host) -> list[Json]:
    shares = shares_of(host)
    most = [sum(share.vcpus for share in shares), sum(share.memory_mb for share in shares)]
    rows = [
        ("(total)", host.vcpus_total, host.memory_mb_total, host.disk_gb_total),
        (
            "(used_now)",
            host.vcpus_allocated,
            host.memory_mb_allocated + host.reserved_memory_mb,
            host.disk_gb_allocated + host.reserved_disk_gb,
        ),
        ("(used_max)", *most, sum(share.disk_gb for share in shares)),
        *((share.project_id.hex, share.vcpus, share.memory_mb, share.disk_gb) for share in shares),
    ]
    return [
        {"resource": {"host": host.name, "project": who, "cpu": cpu, "memory_mb": memory, "disk_gb": disk}}
        for who, cpu, memory, disk in rows
    ]


def _update_host(context: RequestContext, name: str, body: dict[str, str]) -> Host:
    host = _host(context, name)
    if "maintenance_mode" in body:
        raise NotOfferedError("A maintenance mode is not offered by this cloud: disable the host instead.")
    return change_host(context, host.id, enabled=WORDS[body["status"]])


def _refuse_power(verb: str, rule: str) -> Call:
    """Return the declaration of a power operation, which is always rejected."""

    def refuse(context: RequestContext, name: str) -> NoReturn:
        _host(context, name)
        raise NotOfferedError(f"{verb} a host is not offered by this cloud: do it on the machine itself.")

    return Call(refuse, rule, "Refused: the cloud does not control the power of its hosts.", until=LAST_WITH_HOSTS)


HOSTS = parts(
    dialect.ComputeView,
    "os-hosts",
    {
        "GET": Call(
            _list_hosts,
            "os_compute_api:os-hosts:list",
            "List the enabled services of all hosts, filtered by ``zone`` and ``service``; empty filters are ignored.",
            name="hosts",
            query=hosts_query,
            more=_host_filters,
            until=LAST_WITH_HOSTS,
        ),
        "GET /{host_name}": Call(
            _host,
            "os_compute_api:os-hosts:show",
            "Show the host's capacity, its usage, the sum of its servers' flavors, and the share of each project.",
            name="host",
            shape=_host_shape,
            until=LAST_WITH_HOSTS,
        ),
        "PUT /{host_name}": Call(
            _update_host,
            "os_compute_api:os-hosts:update",
            "Enable or disable a host. There is no maintenance mode: disable the host and migrate its servers.",
            shape=lambda view, host: {"host": host.name, "status": "enabled" if host.enabled else "disabled"},
            body=HOST_UPDATE,
            until=LAST_WITH_HOSTS,
        ),
        "GET /{host_name}/startup": _refuse_power("Starting", "os_compute_api:os-hosts:start"),
        "GET /{host_name}/shutdown": _refuse_power("Shutting down", "os_compute_api:os-hosts:shutdown"),
        "GET /{host_name}/reboot": _refuse_power("Rebooting", "os_compute_api:os-hosts:reboot"),
    },
)
