"""How a server looks in an answer: one builder, every field at the microversion the reference gives it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.models import Host, Instance, InstanceFault
from provisioning.compute.states import api_status
from provisioning.identity import policy
from provisioning.network.selectors import PortAddress

Microversion = tuple[int, int]
_PROGRESS_STATUSES = {"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"}
_FAULT_STATUSES = {"ERROR", "DELETED"}


@dataclass(frozen=True)
class Around:
    """What stands around a page of servers, fetched with one query each."""

    base: str  # ".../compute/v2.1"
    bookmark: str  # ".../compute"
    addresses: Mapping[UUID, Sequence[PortAddress]]
    security_groups: Mapping[UUID, Sequence[str]]
    faults: Mapping[UUID, InstanceFault]


def timestamp(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00Z``, as the Compute API writes times."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_micro(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00.000000``: actions and usage times carry microseconds and no zone."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def host_id(project_id: UUID, host: str) -> str:
    """The host as a project may know it: equal for two servers on one host, different for every project."""
    return hashlib.sha224(f"{project_id.hex}{host}".encode()).hexdigest() if host else ""


def links(around: Around, resource: str, ident: str) -> list[dict[str, str]]:
    """``self`` and ``bookmark`` of a resource."""
    return [
        {"rel": "self", "href": f"{around.base}/{resource}/{ident}"},
        {"rel": "bookmark", "href": f"{around.bookmark}/{resource}/{ident}"},
    ]


def brief(instance: Instance, around: Around) -> dict[str, Any]:
    """An entry of ``GET /servers``."""
    return {"id": str(instance.id), "name": instance.name, "links": links(around, "servers", str(instance.id))}


def addresses(found: Sequence[PortAddress]) -> dict[str, list[dict[str, Any]]]:
    """Addresses by network name, as ``server.addresses`` has them."""
    networks: dict[str, list[dict[str, Any]]] = {}
    for entry in found:
        networks.setdefault(entry.network_name, []).append(
            {
                "version": entry.version,
                "addr": entry.address,
                "OS-EXT-IPS:type": "fixed",
                "OS-EXT-IPS-MAC:mac_addr": entry.mac,
            }
        )
    return networks


def _flavor(instance: Instance, around: Around, microversion: Microversion) -> dict[str, Any]:
    flavor = instance.flavor
    if microversion < (2, 47):
        ident = str(flavor["flavorid"])
        return {"id": ident, "links": [links(around, "flavors", ident)[1]]}
    return {
        "vcpus": flavor["vcpus"],
        "ram": flavor["memory_mb"],
        "disk": flavor["root_gb"],
        "ephemeral": flavor["ephemeral_gb"],
        "swap": flavor["swap_mb"],
        "original_name": flavor["name"],
        "extra_specs": flavor["extra_specs"],
    }


def _image(instance: Instance, around: Around) -> dict[str, Any] | str:
    if instance.image_id is None:
        return ""
    ident = str(instance.image_id)
    return {"id": ident, "links": [links(around, "images", ident)[1]]}


def _fault(fault: InstanceFault, *, operator: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "code": fault.code,
        "created": timestamp(fault.created_at),
        "message": fault.message,
    }
    if operator and fault.details:
        shape["details"] = fault.details
    return shape


def _operator_fields(instance: Instance, microversion: Microversion) -> dict[str, Any]:
    host = instance.host
    fields: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": host.name if host else None,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{instance.id.hex[:8]}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": host.hypervisor_hostname if host else None,
    }
    if microversion >= (2, 3):
        fields |= {
            "OS-EXT-SRV-ATTR:reservation_id": instance.reservation_id,
            "OS-EXT-SRV-ATTR:launch_index": instance.launch_index,
            "OS-EXT-SRV-ATTR:hostname": instance.hostname,
            "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
            "OS-EXT-SRV-ATTR:user_data": instance.user_data,
        }
    if microversion >= (2, 16):
        fields["host_status"] = _host_status(host)
    return fields


def _host_status(host: Host | None) -> str:
    if host is None:
        return ""
    if not host.enabled:
        return "MAINTENANCE"
    return "UP" if selectors.is_alive(host, timezone.now()) else "DOWN"


def detail(instance: Instance, around: Around, context: RequestContext, microversion: Microversion) -> dict[str, Any]:
    """One server whole; operators also see where it is."""
    status = api_status(instance.vm_state, instance.task_state)
    host = instance.host
    sees_host = policy.allows(context, "compute:servers:show:host")
    shape: dict[str, Any] = {
        "id": str(instance.id),
        "name": instance.name,
        "status": status,
        "tenant_id": instance.project_id.hex,
        "user_id": instance.user_id.hex,
        "metadata": instance.metadata,
        "hostId": host_id(instance.project_id, host.name if host else ""),
        "image": _image(instance, around),
        "flavor": _flavor(instance, around, microversion),
        "created": timestamp(instance.created_at),
        "updated": timestamp(instance.updated_at),
        "addresses": addresses(around.addresses.get(instance.id, ())),
        "accessIPv4": "",
        "accessIPv6": "",
        "links": links(around, "servers", str(instance.id)),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": host.availability_zone if host else instance.availability_zone,
        "config_drive": "True" if instance.config_drive else "",
        "key_name": instance.key_name,
        "OS-SRV-USG:launched_at": timestamp_micro(instance.launched_at),
        "OS-SRV-USG:terminated_at": timestamp_micro(instance.terminated_at),
        "OS-EXT-STS:task_state": instance.task_state,
        "OS-EXT-STS:vm_state": instance.vm_state,
        "OS-EXT-STS:power_state": instance.power_state,
        "os-extended-volumes:volumes_attached": [],
    }
    groups = around.security_groups.get(instance.id, ())
    if groups:
        shape["security_groups"] = [{"name": name} for name in groups]
    if status in _PROGRESS_STATUSES:
        shape["progress"] = 100 if status == "ACTIVE" else 0
    fault = around.faults.get(instance.id)
    if fault is not None and status in _FAULT_STATUSES:
        shape["fault"] = _fault(fault, operator=sees_host)
    if sees_host:
        shape |= _operator_fields(instance, microversion)
    late: dict[Microversion, dict[str, Any]] = {
        (2, 9): {"locked": instance.locked},
        (2, 19): {"description": instance.description},
        (2, 26): {"tags": instance.tags},
        (2, 63): {"trusted_image_certificates": None},
        (2, 71): {"server_groups": []},
        (2, 73): {"locked_reason": None},
    }
    for since, fields in late.items():
        if microversion >= since:
            shape |= fields
    return shape
