"""Availability zones, compute services and hypervisors, as the Compute API reference has them."""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.server_shapes import timestamp_micro
from portal.api.compute.views import ComputeView
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import existing_id
from provisioning.compute import selectors, services
from provisioning.compute.models import Host

_STATUS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["enabled", "disabled"]},
        "disabled_reason": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "required": ["status"],
    "additionalProperties": False,
}


class ZonesView(ComputeView):
    """``GET /os-availability-zone``."""

    rules = {"GET": "compute:availability_zones:list"}

    def get(self, request: Request) -> Response:
        """The zones one may name in a launch."""
        return Response(
            {
                "availabilityZoneInfo": [
                    {"zoneName": zone, "zoneState": {"available": True}, "hosts": None}
                    for zone in selectors.availability_zones()
                ]
            }
        )


class ZonesDetailView(ComputeView):
    """``GET /os-availability-zone/detail``."""

    rules = {"GET": "compute:availability_zones:detail"}

    def get(self, request: Request) -> Response:
        """The zones with their hosts."""
        zones: dict[str, dict[str, Any]] = {}
        now = timezone.now()
        for host in selectors.hosts_for(self.context):
            service = {
                "available": selectors.is_alive(host, now),
                "active": host.enabled,
                "updated_at": timestamp_micro(host.last_seen_at),
            }
            zones.setdefault(host.availability_zone, {})[host.name] = {"nova-compute": service}
        return Response(
            {
                "availabilityZoneInfo": [
                    {"zoneName": zone, "zoneState": {"available": True}, "hosts": hosts}
                    for zone, hosts in sorted(zones.items())
                ]
            }
        )


class ServicesView(ComputeView):
    """``GET /os-services``."""

    rules = {"GET": "compute:services:list"}

    def get(self, request: Request) -> Response:
        """The agents of the hosts, under Nova's name for them."""
        wanted = request.query_params.get("host")
        binary = request.query_params.get("binary")
        found = selectors.hosts_for(self.context)
        return Response(
            {
                "services": [
                    self.shape(host)
                    for host in found
                    if wanted in {None, host.name} and binary in {None, "nova-compute"}
                ]
            }
        )

    def shape(self, host: Host) -> dict[str, Any]:
        """One service."""
        shape: dict[str, Any] = {
            "id": str(host.id) if self.microversion >= (2, 53) else host.id.int % 2**31,
            "binary": "nova-compute",
            "host": host.name,
            "zone": host.availability_zone,
            "status": "enabled" if host.enabled else "disabled",
            "state": "up" if selectors.is_alive(host, timezone.now()) else "down",
            "updated_at": timestamp_micro(host.last_seen_at),
            "disabled_reason": host.disabled_reason or None,
        }
        if self.microversion >= (2, 11):
            shape["forced_down"] = False
        return shape


class ServiceView(ServicesView):
    """``PUT /os-services/{id}`` (2.53)."""

    http_method_names = ["put"]
    rules = {"GET": "compute:services:list", "PUT": "compute:services:update"}

    def put(self, request: Request, host_id: str) -> Response:
        """Enable or disable a host."""
        body = self.body(_STATUS_SCHEMA)
        ident = existing_id(host_id, "Service")
        if body["status"] == "enabled":
            host = services.enable_host(self.context, ident)
        else:
            host = services.disable_host(self.context, ident, body.get("disabled_reason", ""))
        return Response({"service": self.shape(host)})


class HypervisorsView(ComputeView):
    """``GET /os-hypervisors``."""

    rules = {"GET": "compute:hypervisors:list"}
    detailed = False

    def get(self, request: Request) -> Response:
        """The hypervisors."""
        pattern = request.query_params.get("hypervisor_hostname_pattern", "")
        found = [host for host in selectors.hosts_for(self.context) if pattern in host.name]
        return Response({"hypervisors": [self.shape(host) if self.detailed else self.brief(host) for host in found]})

    def brief(self, host: Host) -> dict[str, Any]:
        """An entry of the plain list."""
        return {
            "id": str(host.id) if self.microversion >= (2, 53) else host.id.int % 2**31,
            "hypervisor_hostname": host.hypervisor_hostname or host.name,
            "state": "up" if selectors.is_alive(host, timezone.now()) else "down",
            "status": "enabled" if host.enabled else "disabled",
        }

    def shape(self, host: Host) -> dict[str, Any]:
        """One hypervisor whole: memory in MiB, disk in GiB."""
        service_id = str(host.id) if self.microversion >= (2, 53) else host.id.int % 2**31
        return self.brief(host) | {
            "host_ip": host.host_ip,
            "hypervisor_type": host.hypervisor_type,
            "hypervisor_version": host.hypervisor_version,
            "cpu_info": host.cpu_info if self.microversion >= (2, 28) else _as_text(host.cpu_info),
            "vcpus": host.vcpus_total,
            "vcpus_used": host.vcpus_allocated,
            "memory_mb": host.memory_mb_total,
            "memory_mb_used": host.memory_mb_allocated + host.reserved_memory_mb,
            "free_ram_mb": host.memory_mb_total - host.memory_mb_allocated - host.reserved_memory_mb,
            "local_gb": host.disk_gb_total,
            "local_gb_used": host.disk_gb_allocated + host.reserved_disk_gb,
            "free_disk_gb": host.disk_gb_total - host.disk_gb_allocated - host.reserved_disk_gb,
            "disk_available_least": host.disk_gb_total - host.disk_gb_used,
            "running_vms": host.running_vms,
            "current_workload": 0,
            "service": {"id": service_id, "host": host.name, "disabled_reason": host.disabled_reason or None},
        }


class HypervisorsDetailView(HypervisorsView):
    """``GET /os-hypervisors/detail``."""

    rules = {"GET": "compute:hypervisors:list_detail"}
    detailed = True


class HypervisorView(HypervisorsView):
    """``GET /os-hypervisors/{id}``."""

    rules = {"GET": "compute:hypervisors:show"}

    def get(self, request: Request, host_id: str = "") -> Response:
        """Show one hypervisor."""
        for host in selectors.hosts_for(self.context):
            if host_id in {str(host.id), str(host.id.int % 2**31)}:
                return Response({"hypervisor": self.shape(host)})
        raise NotFoundError(f"Hypervisor with ID '{host_id[:64]}' could not be found.")


class ExtensionsView(ComputeView):
    """``GET /extensions``: the API is one piece since 2.1, so the list is empty."""

    rules = {"GET": "compute:extensions:list"}

    def get(self, request: Request) -> Response:
        """No extensions."""
        return Response({"extensions": []})


def _as_text(info: dict[str, Any]) -> str:
    """``cpu_info`` before 2.28 was a JSON text."""
    return json.dumps(info)
