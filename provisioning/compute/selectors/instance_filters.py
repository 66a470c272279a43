"""What a list of servers may be narrowed by."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django.db.models import Exists, OuterRef, Q, QuerySet

from provisioning.common.ids import read_id
from provisioning.compute.models import Instance, InstanceTag
from provisioning.compute.selectors.patterns import matching
from provisioning.compute.states import STATUSES, VmState
from provisioning.network.models import FixedIP

NOBODY = uuid.UUID(int=0)
"""The id of nothing."""


class Filters(TypedDict, total=False):
    """What a list may be narrowed by; absent and None mean the same.  A pattern is a part of the text, or a regular
    expression in the bounds of ``patterns``.
    """

    name: str | None
    """A pattern, as ``hostname``, ``description``, ``key_name``, ``node``, ``reservation_id``, ``availability_zone``,
    ``access_ip_v4``, ``access_ip_v6``, ``kernel_id`` and ``ramdisk_id``."""
    status: str | Sequence[str] | None
    """The API's words."""
    vm_state: str | None
    task_state: str | None
    image_id: str | None
    flavor_id: str | None
    """A flavor's id as in ``flavorRef``."""
    host: str | None
    """A host's name; for operators, ignored from anyone else, as ``node``, ``project_id`` and ``deleted``."""
    node: str | None
    availability_zone: str | None
    """The zone it is in, or while it is nowhere the one that was asked for."""
    user_id: uuid.UUID | None
    project_id: uuid.UUID | None
    reservation_id: str | None
    ids: Iterable[uuid.UUID] | None
    changes_before: datetime | None
    """Those that did not change after then, deleted ones too."""
    changes_since: datetime | None
    """Those that changed since then, deleted ones too."""
    deleted: bool | None
    """True: deleted ones only; None: only with ``changes_…`` are deleted ones there."""
    soft_deleted: bool | None
    """Whether servers that wait for their end are shown too; for operators."""
    ip: str | None
    """A pattern of an IPv4 address, ``ip6`` of an IPv6 address."""
    ip6: str | None
    hostname: str | None
    description: str | None
    key_name: str | None
    config_drive: bool | None
    power_state: int | None
    progress: int | None
    locked: bool | None
    launch_index: int | None
    disk_config: str | None
    access_ip_v4: str | None
    access_ip_v6: str | None
    kernel_id: str | None
    ramdisk_id: str | None
    created_at: datetime | None
    """To the second, as ``launched_at`` and ``terminated_at``."""
    launched_at: datetime | None
    terminated_at: datetime | None
    tags: Sequence[str] | None
    """Those with every tag; ``tags_any`` with one of them; ``not_tags`` and ``not_tags_any`` the others."""
    tags_any: Sequence[str] | None
    not_tags: Sequence[str] | None
    not_tags_any: Sequence[str] | None


_PATTERNS = {
    "name": "name",
    "hostname": "hostname",
    "description": "description",
    "key_name": "key_name",
    "node": "host__hypervisor_hostname",
    "reservation_id": "reservation_id",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
    "kernel_id": "image_properties__kernel_id",
    "ramdisk_id": "image_properties__ramdisk_id",
}
_EXACT = {
    "vm_state": "vm_state",
    "task_state": "task_state",
    "flavor_id": "flavor__flavorid",
    "host": "host__name",
    "user_id": "user_id",
    "project_id": "project_id",
    "config_drive": "config_drive",
    "power_state": "power_state",
    "locked": "locked",
    "launch_index": "launch_index",
    "disk_config": "disk_config",
    "changes_before": "updated_at__lte",
    "changes_since": "updated_at__gte",
}
OPERATORS_ONLY = frozenset({"host", "node", "project_id", "deleted", "soft_deleted"})


def narrowed(rows: QuerySet[Instance], given: Filters, *, operator: bool) -> QuerySet[Instance]:
    """Return the rows that pass; InvalidInputError names a pattern out of bounds."""
    filters: dict[str, Any] = {
        name: value for name, value in given.items() if value is not None and (operator or name not in OPERATORS_ONLY)
    }
    rows = _kept(rows, filters)
    for name, value in filters.items():
        if name in _EXACT:
            rows = rows.filter(**{_EXACT[name]: value})
        elif name in _PATTERNS:
            rows = rows.filter(matching(_PATTERNS[name], value, name))
        elif name in _MADE:
            rows = rows.filter(_MADE[name](value))
    return _tagged(rows, filters)


def _kept(rows: QuerySet[Instance], filters: dict[str, Any]) -> QuerySet[Instance]:
    """Leave out what is deleted unless it is asked for, or changes are, which a deletion is."""
    deleted, soft = filters.get("deleted"), filters.get("soft_deleted")
    if deleted:
        gone = Q(vm_state=VmState.DELETED)
        return rows.filter(gone if soft is False else gone | Q(vm_state=VmState.SOFT_DELETED))
    if deleted is None and not filters.keys().isdisjoint({"changes_since", "changes_before"}):
        return rows
    rows = rows.filter(deleted_at=None).exclude(vm_state=VmState.DELETED)
    return rows if soft or "SOFT_DELETED" in _words(filters.get("status")) else rows.exclude(vm_state="soft-delete")


def _words(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [word.upper() for word in ([value] if isinstance(value, str) else value)]


def known_statuses() -> frozenset[str]:
    """Return every word of the API for how a server is."""
    return frozenset(usual for usual, _ in STATUSES.values()).union(*(each.values() for _, each in STATUSES.values()))


def _has_status(value: str | Sequence[str]) -> Q:
    """Match the states behind these words; one that no server has matches nothing."""
    found = Q(pk__in=[])
    for word in _words(value):
        for vm_state, (usual, during) in STATUSES.items():
            others = [task for task, status in during.items() if status != word]
            if usual == word:
                idle_or_else = Q(task_state=None) | ~Q(task_state__in=others)
                found |= Q(vm_state=vm_state) & idle_or_else if others else Q(vm_state=vm_state)
            else:
                tasks = [task for task, status in during.items() if status == word]
                found |= Q(vm_state=vm_state, task_state__in=tasks) if tasks else Q(pk__in=[])
    return found


def _image(value: str) -> Q:
    return Q(image_id=read_id(value) or NOBODY)


def _zone(value: str) -> Q:
    asked = matching("availability_zone", value, "availability_zone")
    return matching("host__availability_zone", value, "availability_zone") | (Q(host=None) & asked)


def _address(value: str, version: int, field: str) -> Q:
    found = FixedIP.objects.filter(matching("address", value, field), subnet__ip_version=version)
    return Q(id__in=found.exclude(port__device_id=None).values("port__device_id"))


def _second(column: str, moment: datetime) -> Q:
    start = moment.replace(microsecond=0)
    try:
        return Q(**{f"{column}__gte": start, f"{column}__lt": start + timedelta(seconds=1)})
    except OverflowError:
        return Q(pk__in=[])


def _progress(value: int) -> Q:
    active = Q(vm_state=VmState.ACTIVE)
    return {100: active, 0: ~active}.get(value, Q(pk__in=[]))


_MADE: dict[str, Any] = {
    "status": _has_status,
    "image_id": _image,
    "ids": lambda ids: Q(id__in=list(ids)),
    "availability_zone": _zone,
    "ip": lambda value: _address(value, 4, "ip"),
    "ip6": lambda value: _address(value, 6, "ip6"),
    "created_at": lambda moment: _second("created_at", moment),
    "launched_at": lambda moment: _second("launched_at", moment),
    "terminated_at": lambda moment: _second("terminated_at", moment),
    "progress": _progress,
}


def _tagged(rows: QuerySet[Instance], filters: dict[str, Any]) -> QuerySet[Instance]:
    if "tags" in filters:
        rows = rows.filter(_every(filters["tags"]))
    if "tags_any" in filters:
        rows = rows.filter(_any(filters["tags_any"]))
    if "not_tags" in filters:
        rows = rows.filter(~_every(filters["not_tags"]))
    if "not_tags_any" in filters:
        rows = rows.filter(~_any(filters["not_tags_any"]))
    return rows


def _any(tags: Sequence[str]) -> Q:
    return Q(Exists(InstanceTag.objects.filter(instance=OuterRef("pk"), tag__in=list(tags))))


def _every(tags: Sequence[str]) -> Q:
    found = Q()
    for tag in tags:
        found &= Q(Exists(InstanceTag.objects.filter(instance=OuterRef("pk"), tag=tag)))
    return found
