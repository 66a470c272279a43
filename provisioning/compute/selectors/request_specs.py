"""The scheduler's request for a server."""

import json
import uuid
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Literal

from provisioning.compute.flavors.extra_specs import aggregate_specs, capabilities
from provisioning.compute.flavors.guest_hardware import host_needs
from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.models import Instance
from provisioning.compute.selectors.server_groups import group_of, hosts_of_servers
from provisioning.scheduler import GroupSpec, HostNeed, RequestSpec

_ROOT_POOL = "--root-disks", "the pool of its root disk"


class _Unread(Enum):
    GROUP = "group"


def spec_of(
    instance: Instance,
    *,
    flavor: Mapping[str, Any] | None = None,
    excluded: Iterable[uuid.UUID] = (),
    group: GroupSpec | Literal[_Unread.GROUP] | None = _Unread.GROUP,
    root_pool: str = "",
) -> RequestSpec:
    """Return the scheduler's request for a server in its current state, which may be unsaved.

    ``flavor`` replaces the server's own; ``excluded`` are hosts to exclude in addition to those on which a build of
    the server has failed. ``group`` is the server's group if the caller has read it. ``root_pool`` is the trait of the
    hosts that can acquire the server's root disk (``root_pools.shared_pool``).
    """
    chosen = instance.flavor if flavor is None else flavor
    room, hints, specs = room_of(chosen), instance.scheduler_hints, chosen.get("extra_specs", {})
    properties, pool = instance.image_properties, (HostNeed(*_ROOT_POOL, root_pool),) if root_pool else ()
    return RequestSpec(
        vcpus=room.vcpus,
        memory_mb=room.memory_mb,
        disk_gb=room.disk_gb,
        availability_zone=instance.availability_zone,
        excluded_hosts=frozenset(uuid.UUID(text) for text in instance.excluded_hosts).union(excluded),
        requested_host=instance.requested_host,
        same_hosts=hosts_of_servers(instance.project_id, hints["same_host"]) if "same_host" in hints else None,
        different_hosts=hosts_of_servers(instance.project_id, hints.get("different_host")),
        group=group_of(instance) if group is _Unread.GROUP else group,
        architecture=_property(properties, "hw_architecture", "architecture"),
        aggregate_specs=aggregate_specs(specs),
        ignored_hosts=frozenset(str(name) for name in hints.get("ignore_hosts", ())),
        hypervisor_type=_property(properties, "img_hv_type", "hypervisor_type"),
        hypervisor_versions=_property(properties, "img_hv_requested_version", "hypervisor_version_requires"),
        capabilities=capabilities(specs),
        query=_query(hints.get("query")),
        host_needs=(*host_needs(properties, chosen), *pool),
        image_id=instance.snapshot_image_id or instance.image_id,
    )


def _property(properties: Mapping[str, Any], name: str, old_name: str) -> str:
    """Return an image property by its name, otherwise by its old name."""
    return str(properties.get(name) or properties.get(old_name) or "")


def _query(hint: object) -> object:
    """Return the condition of the hint ``query``, which callers may pass as JSON text."""
    return json.loads(hint) if isinstance(hint, str) else hint
