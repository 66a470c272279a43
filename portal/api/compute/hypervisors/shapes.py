"""Representations of a hypervisor; each field appears at the microversions of the reference."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from portal.api.compute.hypervisors.schemas import BY_UUID
from portal.api.compute.schemas import Version
from provisioning.compute.selectors.compute_services import number_of
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive

NO_RESOURCES = (2, 88)
"""From this version on a hypervisor shows its uptime, and no longer its resources."""
ALWAYS_SERVERS = (2, 75)
Servers = Mapping[uuid.UUID, Sequence[tuple[str, uuid.UUID]]]
"""Host → (name, id) of its servers."""


def ident(host: Host, version: Version) -> str | int:
    """The id of a hypervisor or its service, in the version's format."""
    return str(host.id) if version >= BY_UUID else number_of(host.id)


def brief(host: Host, version: Version) -> dict[str, Any]:
    return {
        "id": ident(host, version),
        "hypervisor_hostname": hostname(host),
        "state": "up" if is_alive(host, timezone.now()) else "down",
        "status": "enabled" if host.enabled else "disabled",
    }


def hostname(host: Host) -> str:
    return host.hypervisor_hostname or host.name


def detailed(host: Host, version: Version, workload: int) -> dict[str, Any]:
    """A hypervisor in full: memory in MiB, disk in GiB; ``workload`` is the number of its servers' running tasks."""
    shape = brief(host, version) | {
        "host_ip": host.host_ip,
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "service": {
            "id": ident(host, version),
            "host": host.name,
            "disabled_reason": host.disabled_reason or None,
        },
    }
    if version >= NO_RESOURCES:
        return shape | {"uptime": uptime(host)}
    info = cpu_info(host)
    return shape | resources(host, workload) | {"cpu_info": info if version >= (2, 28) else json.dumps(info)}


def uptime(host: Host) -> str | None:
    """The host's uptime as last reported; None if it is down or has not reported it."""
    return host.uptime or None if is_alive(host, timezone.now()) else None


def resources(host: Host, workload: int) -> dict[str, int]:
    """Capacity and usage of a hypervisor; allocated and reserved resources count as used."""
    memory_used = host.memory_mb_allocated + host.reserved_memory_mb
    disk_used = host.disk_gb_allocated + host.reserved_disk_gb
    return {
        "vcpus": host.vcpus_total,
        "vcpus_used": host.vcpus_allocated,
        "memory_mb": host.memory_mb_total,
        "memory_mb_used": memory_used,
        "free_ram_mb": host.memory_mb_total - memory_used,
        "local_gb": host.disk_gb_total,
        "local_gb_used": disk_used,
        "free_disk_gb": host.disk_gb_total - disk_used,
        "disk_available_least": host.disk_gb_total - host.disk_gb_used,
        "running_vms": host.running_vms,
        "current_workload": workload,
    }


def with_servers(shape: dict[str, Any], host: Host, servers: Servers, version: Version) -> dict[str, Any]:
    """Add a hypervisor's servers; before 2.75 the field is omitted if there are none."""
    found = servers.get(host.id, ())
    if not found and version < ALWAYS_SERVERS:
        return shape
    return shape | {"servers": [{"name": name, "uuid": str(server)} for name, server in found]}


def cpu_info(host: Host) -> dict[str, Any]:
    """The processor as the host reported it: architecture, model, vendor, features and topology."""
    said = host.cpu_info
    if not said:
        return {}
    topology = {name: int(said[name]) for name in ("sockets", "cores", "threads") if _is_count(said.get(name))}
    return {
        "arch": said.get("arch") or host.architecture,
        "model": said.get("model", ""),
        "vendor": said.get("vendor", ""),
        "features": [name for name in str(said.get("features", "")).split(",") if name],
        "topology": topology,
    }


def _is_count(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 6
