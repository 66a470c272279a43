"""Availability zones (Compute API reference, "Availability zones")."""

from typing import Any

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.timestamps import timestamp_micro
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.compute.selectors.compute_services import ComputeService, compute_services_for
from provisioning.hosts import selectors


def _with_hosts(context: RequestContext) -> list[dict[str, Any]]:
    """Return the zones with their hosts and workers; a zone without an enabled host has only its name."""
    inside: dict[str, dict[str, Any]] = {}
    zones: dict[str, bool] = {}
    for service in compute_services_for(context):
        zones[service.zone] = zones.get(service.zone, False) or service.enabled
        if service.enabled:
            inside.setdefault(service.zone, {}).setdefault(service.host, {})[service.binary] = _service(service)
    return [_zone(zone, inside.get(zone), open_=on) for zone, on in _sorted(zones)]


def _sorted(zones: dict[str, bool]) -> list[tuple[str, bool]]:
    return sorted(zones.items(), key=lambda item: (not item[1], item[0]))


def _zone(name: str, inside: dict[str, Any] | None, *, open_: bool) -> dict[str, Any]:
    return {"zoneName": name, "zoneState": {"available": open_}, "hosts": inside}


def _service(service: ComputeService) -> dict[str, Any]:
    return {
        "available": service.up,
        "active": service.enabled,
        "updated_at": timestamp_micro(service.updated_at),
    }


PARTS = parts(
    ComputeView,
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
