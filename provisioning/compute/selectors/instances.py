"""Servers as one caller sees them: its project's, or all for an operator who asks for all."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.states import TaskState, VmState
from provisioning.identity import policy

NOBODY = uuid.UUID(int=0)
"""The id of nothing."""
ALL_PROJECTS = "compute:servers:list:all_projects"
"""The rule of who sees the servers of every project."""
SORT_KEYS = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "display_name": "name",
    "name": "name",
    "hostname": "hostname",
    "vm_state": "vm_state",
    "uuid": "id",
    "id": "id",
}
"""Keys a list may be sorted by, and their columns."""
NEWEST_FIRST: tuple[tuple[str, str], ...] = (("created_at", "desc"),)


class Filters(TypedDict, total=False):
    """What a list may be narrowed by; absent and None mean the same."""

    name: str | None
    """A part of the name."""
    status: str | None
    """The API's word."""
    vm_state: str | None
    image_id: str | None
    flavor_id: str | None
    """A flavor's id as in ``flavorRef``."""
    host: str | None
    """A host's name; for operators, ignored from anyone else."""
    availability_zone: str | None
    user_id: uuid.UUID | None
    project_id: uuid.UUID | None
    """For operators, ignored from anyone else."""
    reservation_id: str | None
    ids: Iterable[uuid.UUID] | None
    changes_before: datetime | None
    """Those that did not change after then."""
    changes_since: datetime | None
    """Those that changed since then, deleted ones too."""
    deleted: bool | None
    """Deleted ones only; for operators, ignored from anyone else."""


def instances_for(
    context: RequestContext,
    *,
    sort: Sequence[tuple[str, str]] = NEWEST_FIRST,
    limit: int | None = None,
    marker: str | uuid.UUID | None = None,
    all_projects: bool = False,
    **filters: Unpack[Filters],
) -> list[Instance]:
    """Return servers with their host, newest first.

    ``sort`` gives keys of SORT_KEYS with ``asc`` or ``desc``; ``marker`` is the id of the last server of the page
    before. Raises ForbiddenError for ``all_projects`` by anyone but operators, InvalidInputError for an unknown sort
    key or marker.
    """
    if all_projects:
        policy.enforce(context, ALL_PROJECTS)
    operator = policy.allows(context, ALL_PROJECTS)
    rows = Instance.objects.select_related("host")
    if not all_projects:
        rows = rows.filter(project_id=context.project_id or NOBODY)
    if operator:
        rows = _given(rows, {"project_id": filters.get("project_id"), "host__name": filters.get("host")})
    changes_since, changes_before = filters.get("changes_since"), filters.get("changes_before")
    if changes_before is not None:
        rows = rows.filter(updated_at__lte=changes_before)
    if changes_since is not None:
        rows = rows.filter(updated_at__gte=changes_since)
    elif filters.get("deleted") and operator:
        rows = rows.filter(vm_state=VmState.DELETED)
    else:
        rows = rows.exclude(vm_state=VmState.DELETED)
    last = None if marker is None else _marker(context, marker)
    return _page(_narrowed(rows, filters), sort, limit, last)


def _narrowed(rows: QuerySet[Instance], filters: Filters) -> QuerySet[Instance]:
    ids, image_id, status = filters.get("ids"), filters.get("image_id"), filters.get("status")
    if image_id is not None:
        rows = rows.filter(image_id=read_id(image_id) or NOBODY)
    if status is not None:
        rows = rows.filter(_has_status(status))
    return _given(
        rows,
        {
            "name__icontains": filters.get("name"),
            "vm_state": filters.get("vm_state"),
            "flavor__flavorid": filters.get("flavor_id"),
            "availability_zone": filters.get("availability_zone"),
            "user_id": filters.get("user_id"),
            "reservation_id": filters.get("reservation_id"),
            "id__in": list(ids) if ids is not None else None,
        },
    )


def _given(rows: QuerySet[Instance], conditions: dict[str, object]) -> QuerySet[Instance]:
    return rows.filter(**{key: value for key, value in conditions.items() if value is not None})


def _has_status(status: str) -> Q:
    """Return the states behind a status of the API; an unknown status matches nothing."""
    reboots = [TaskState.REBOOTING, TaskState.REBOOTING_HARD]
    return {
        "ACTIVE": Q(vm_state=VmState.ACTIVE) & (Q(task_state=None) | ~Q(task_state__in=reboots)),
        "REBOOT": Q(vm_state=VmState.ACTIVE, task_state=TaskState.REBOOTING),
        "HARD_REBOOT": Q(vm_state=VmState.ACTIVE, task_state=TaskState.REBOOTING_HARD),
        "BUILD": Q(vm_state=VmState.BUILDING),
        "SHUTOFF": Q(vm_state=VmState.STOPPED),
        "ERROR": Q(vm_state=VmState.ERROR),
        "DELETED": Q(vm_state=VmState.DELETED),
    }.get(status.upper(), Q(pk__in=[]))


def _marker(context: RequestContext, marker: str | uuid.UUID) -> Instance:
    """Return the server a page begins behind, deleted or not; another project's is as unknown as none."""
    rows = Instance.objects.filter(id=read_id(marker) or NOBODY)
    if not policy.allows(context, ALL_PROJECTS):
        rows = rows.filter(project_id=context.project_id or NOBODY)
    last = rows.first()
    if last is None:
        raise InvalidInputError(f"Marker {marker} could not be found.", field="marker")
    return last


def _page(
    rows: QuerySet[Instance], sort: Sequence[tuple[str, str]], limit: int | None, last: Instance | None
) -> list[Instance]:
    """Sort, start behind ``last``, cut."""
    columns: list[tuple[str, bool]] = []
    for key, direction in sort or NEWEST_FIRST:
        if key not in SORT_KEYS:
            raise InvalidInputError(f"Sort key {key!r} is not supported.", field="sort_key")
        columns.append((SORT_KEYS[key], direction == "desc"))
    columns.append(("id", columns[-1][1]))
    rows = rows.order_by(*(f"-{column}" if falling else column for column, falling in columns))
    if last is not None:
        behind, equal = Q(pk__in=[]), Q()
        for column, falling in columns:
            value = getattr(last, column)
            behind |= equal & Q(**{f"{column}__{'lt' if falling else 'gt'}": value})
            equal &= Q(**{column: value})
        rows = rows.filter(behind)
    return list(rows[:limit] if limit is not None else rows)


def instance_for(context: RequestContext, instance_id: str | uuid.UUID, *, deleted: bool = False) -> Instance:
    """Return one server with its host: the caller's project's, any for an operator.

    Deleted servers are gone, except for an operator who says ``deleted``.  Raises NotFoundError.
    """
    operator = policy.allows(context, ALL_PROJECTS)
    rows = Instance.objects.select_related("host").filter(id=read_id(instance_id) or NOBODY)
    if not operator:
        rows = rows.filter(project_id=context.project_id or NOBODY)
    if not (deleted and operator):
        rows = rows.exclude(vm_state=VmState.DELETED)
    instance = rows.first()
    if instance is None:
        raise NotFoundError(f"Instance {instance_id} could not be found.")
    return instance


def fault_of(instances: Iterable[Instance]) -> dict[uuid.UUID, InstanceFault]:
    """Return the newest fault of each of these servers that is in ERROR or deleted, in one query."""
    ids = [item.id for item in instances if item.vm_state in (VmState.ERROR, VmState.DELETED)]
    if not ids:
        return {}
    return {fault.instance_id: fault for fault in InstanceFault.objects.filter(instance_id__in=ids).order_by("id")}
