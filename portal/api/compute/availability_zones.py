"""Availability zones (Compute API reference, "Availability zones")."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.timestamps import timestamp_micro
from provisioning.compute.selectors.compute_services import ComputeService, compute_services_for
from provisioning.hosts import selectors


class ZonesView(ComputeView):
    """``GET /os-availability-zone``."""

    rules = {"GET": "os_compute_api:os-availability-zone:list"}

    def get(self, request: Request) -> Response:
        """List the zones that a launch may specify, zones with a host that is up first. The zone of the workers is
        omitted.
        """
        return Response(
            {"availabilityZoneInfo": [_zone(zone, None, open_=on) for zone, on in _sorted(selectors.zones())]}
        )


class ZonesDetailView(ComputeView):
    """``GET /os-availability-zone/detail``."""

    rules = {"GET": "os_compute_api:os-availability-zone:detail"}

    def get(self, request: Request) -> Response:
        """List the zones with their hosts and workers; a zone without an enabled host has only its name."""
        inside: dict[str, dict[str, Any]] = {}
        zones: dict[str, bool] = {}
        for service in compute_services_for(self.context):
            zones[service.zone] = zones.get(service.zone, False) or service.enabled
            if service.enabled:
                inside.setdefault(service.zone, {}).setdefault(service.host, {})[service.binary] = _service(service)
        return Response(
            {"availabilityZoneInfo": [_zone(zone, inside.get(zone), open_=on) for zone, on in _sorted(zones)]}
        )


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
