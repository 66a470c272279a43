"""Hosts, up to microversion 2.42 (Compute API reference, "Hosts"); replaced by hypervisors and services."""

from typing import Any, NoReturn

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import TEXT, Schema, Version, last
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, NotOfferedError
from provisioning.compute.selectors.compute_services import compute_services_for
from provisioning.compute.selectors.hosts import shares_of
from provisioning.compute.services.hosts import change_host
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import hosts_for

LAST = (2, 42)
"""The last microversion that has hosts."""
WORDS = {word: word.lower() == "enable" for word in ("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE")}
"""Valid value of ``status`` and ``maintenance_mode`` → whether it enables."""
UPDATE: Schema = {
    "type": "object",
    "properties": {"status": {"enum": [*WORDS]}, "maintenance_mode": {"enum": [*WORDS]}},
    "anyOf": [{"required": ["status"]}, {"required": ["maintenance_mode"]}],
    "additionalProperties": False,
}


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-hosts``."""
    return {
        "type": "object",
        "properties": {"zone": {"type": "array", "items": TEXT}, "service": {"type": "array", "items": TEXT}},
        "additionalProperties": True,
    }


def _host(context: RequestContext, name: str) -> Host:
    for host in hosts_for(context):
        if host.name == name:
            return host
    raise NotFoundError(f"Compute host {name[:64]} could not be found.")


def _list(context: RequestContext, *, zone: str | None, service: str | None) -> list[dict[str, str]]:
    hosts = [
        {"host_name": each.host, "service": each.binary.removeprefix("nova-"), "zone": each.zone}
        for each in compute_services_for(context)
        if each.enabled
    ]
    return [host for host in hosts if zone in {None, host["zone"]} and service in {None, host["service"]}]


def _filters(view: ComputeView) -> dict[str, str | None]:
    return {name: last(view.checked_query(), name) or None for name in ("zone", "service")}


def _shape(view: ComputeView, host: Host) -> list[dict[str, Any]]:
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


def _update(context: RequestContext, name: str, body: dict[str, str]) -> Host:
    host = _host(context, name)
    if "maintenance_mode" in body:
        raise NotOfferedError("A maintenance mode is not offered by this cloud: disable the host instead.")
    return change_host(context, host.id, enabled=WORDS[body["status"]])


def _refuse(verb: str, rule: str) -> Call:
    """Return the declaration of a power operation, which is always rejected."""

    def refuse(context: RequestContext, name: str) -> NoReturn:
        _host(context, name)
        raise NotOfferedError(f"{verb} a host is not offered by this cloud: do it on the machine itself.")

    return Call(refuse, rule, "Refused: the cloud does not control the power of its hosts.", until=LAST)


PARTS = parts(
    ComputeView,
    "os-hosts",
    {
        "GET": Call(
            _list,
            "os_compute_api:os-hosts:list",
            "List the enabled services of all hosts, filtered by ``zone`` and ``service``; empty filters are ignored.",
            name="hosts",
            query=listing,
            more=_filters,
            until=LAST,
        ),
        "GET /{host_name}": Call(
            _host,
            "os_compute_api:os-hosts:show",
            "Show the host's capacity, its usage, the sum of its servers' flavors, and the share of each project.",
            name="host",
            shape=_shape,
            until=LAST,
        ),
        "PUT /{host_name}": Call(
            _update,
            "os_compute_api:os-hosts:update",
            "Enable or disable a host. There is no maintenance mode: disable the host and migrate its servers.",
            shape=lambda view, host: {"host": host.name, "status": "enabled" if host.enabled else "disabled"},
            body=UPDATE,
            until=LAST,
        ),
        "GET /{host_name}/startup": _refuse("Starting", "os_compute_api:os-hosts:start"),
        "GET /{host_name}/shutdown": _refuse("Shutting down", "os_compute_api:os-hosts:shutdown"),
        "GET /{host_name}/reboot": _refuse("Rebooting", "os_compute_api:os-hosts:reboot"),
    },
)
