"""How a hypervisor looks in an answer: every field at the microversions that the reference gives it."""

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
"""From this version on a hypervisor tells its uptime, and not what it has and gives."""
ALWAYS_SERVERS = (2, 75)
Servers = Mapping[uuid.UUID, Sequence[tuple[str, uuid.UUID]]]
"""Host → (name, id) of its servers."""


def ident(host: Host, version: Version) -> str | int:
    """The id of a hypervisor, and of its service, as the version writes it."""
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
    """One hypervisor whole: memory in MiB, disk in GiB; ``workload`` counts what is going on with its servers."""
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
    """For how long the host has run, as it said last; None for one that is down, or has not said."""
    return host.uptime or None if is_alive(host, timezone.now()) else None


def resources(host: Host, workload: int) -> dict[str, int]:
    """What a hypervisor has and gives; what is promised to servers counts as used, and so does what is kept back."""
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
    """Add a hypervisor's servers; before 2.75 the field is left out where there are none."""
    found = servers.get(host.id, ())
    if not found and version < ALWAYS_SERVERS:
        return shape
    return shape | {"servers": [{"name": name, "uuid": str(server)} for name, server in found]}


def cpu_info(host: Host) -> dict[str, Any]:
    """The processor: architecture, model, vendor, features and topology, as far as its host has said."""
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
