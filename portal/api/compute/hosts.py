"""Hosts, up to microversion 2.42 (Compute API reference, "Hosts"); replaced by hypervisors and services."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import OLDEST
from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import TEXT, Schema, Version, last
from provisioning.common.errors import NotFoundError, NotOfferedError
from provisioning.compute.selectors.compute_services import compute_services_for
from provisioning.compute.selectors.hosts import shares_of
from provisioning.compute.services.hosts import change_host
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import hosts_for

LAST = (2, 42)
"""The last microversion that has hosts."""
WORDS = {word: word.lower() == "enable" for word in ("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE")}
"""Valid values of ``status`` and ``maintenance_mode`` → whether they enable."""
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


class HostBase(ComputeView):
    """Base of the host views."""

    versions = dict.fromkeys(("GET", "PUT"), (OLDEST, LAST))

    def host(self, name: str) -> Host:
        """Return the host. Raises NotFoundError."""
        for host in hosts_for(self.context):
            if host.name == name:
                return host
        raise NotFoundError(f"Compute host {name[:64]} could not be found.")


class HostsView(HostBase):
    """``GET /os-hosts``."""

    rules = {"GET": "os_compute_api:os-hosts:list"}
    queries = {"GET": listing}

    def get(self, request: Request) -> Response:
        """List the enabled services of all hosts, filtered by ``zone`` and ``service``; empty filters are ignored."""
        query = self.checked_query()
        zone, kind = last(query, "zone") or None, last(query, "service") or None
        hosts = [
            {"host_name": service.host, "service": service.binary.removeprefix("nova-"), "zone": service.zone}
            for service in compute_services_for(self.context)
            if service.enabled
        ]
        return Response(
            {"hosts": [host for host in hosts if zone in {None, host["zone"]} and kind in {None, host["service"]}]}
        )


class HostView(HostBase):
    """``GET`` and ``PUT /os-hosts/{host_name}``."""

    rules = {"GET": "os_compute_api:os-hosts:show", "PUT": "os_compute_api:os-hosts:update"}
    schemas = {"PUT": UPDATE}

    def get(self, request: Request, host_name: str) -> Response:
        """Show the host's capacity, its usage, the sum of its servers' flavors, and the share of each project."""
        host = self.host(host_name)
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
        return Response(
            {
                "host": [
                    {"resource": {"host": host.name, "project": who, "cpu": cpu, "memory_mb": memory, "disk_gb": disk}}
                    for who, cpu, memory, disk in rows
                ]
            }
        )

    def put(self, request: Request, host_name: str) -> Response:
        """Enable or disable a host. There is no maintenance mode: disable the host and migrate its servers."""
        body = self.checked_body()
        host = self.host(host_name)
        if "maintenance_mode" in body:
            raise NotOfferedError("A maintenance mode is not offered by this cloud: disable the host instead.")
        changed = change_host(self.context, host.id, enabled=WORDS[body["status"]])
        return Response({"host": changed.name, "status": "enabled" if changed.enabled else "disabled"})


class HostPowerView(HostBase):
    """``GET /os-hosts/{host_name}/startup``, ``…/shutdown`` and ``…/reboot``: not supported."""

    rules = {"GET": "os_compute_api:os-hosts:start"}
    verb: ClassVar[str] = "Starting"

    def get(self, request: Request, host_name: str) -> Response:
        """Refused: the cloud does not control the power of its hosts."""
        self.host(host_name)
        raise NotOfferedError(f"{self.verb} a host is not offered by this cloud: do it on the machine itself.")


class HostShutdownView(HostPowerView):
    """``GET /os-hosts/{host_name}/shutdown``."""

    rules = {"GET": "os_compute_api:os-hosts:shutdown"}
    verb = "Shutting down"


class HostRebootView(HostPowerView):
    """``GET /os-hosts/{host_name}/reboot``."""

    rules = {"GET": "os_compute_api:os-hosts:reboot"}
    verb = "Rebooting"
