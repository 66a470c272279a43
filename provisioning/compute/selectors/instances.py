"""Servers as one caller sees them: its project's, or all for an operator who asks for all."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.states import TaskState, VmState

SORT_KEYS = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "launched_at": "launched_at",
    "display_name": "name",
    "name": "name",
    "hostname": "hostname",
    "vm_state": "vm_state",
    "uuid": "id",
    "id": "id",
}
"""Keys a list may be sorted by, and their columns."""
NEWEST_FIRST: tuple[tuple[str, str], ...] = (("created_at", "desc"),)


def instances_for(
    context: RequestContext,
    *,
    name: str | None = None,
    status: str | None = None,
    vm_state: str | None = None,
    image_id: str | None = None,
    flavor_id: str | None = None,
    host: str | None = None,
    availability_zone: str | None = None,
    user_id: uuid.UUID | None = None,
    project_id: uuid.UUID | None = None,
    reservation_id: str | None = None,
    ids: Iterable[uuid.UUID] | None = None,
    changes_since: datetime | None = None,
    deleted: bool = False,
    sort: Sequence[tuple[str, str]] = NEWEST_FIRST,
    limit: int | None = None,
    marker: str | uuid.UUID | None = None,
    all_projects: bool = False,
) -> list[Instance]:
    """Return servers with their host, newest first.

    ``name`` matches a part of the name; ``status`` is the API's word; ``host``, ``deleted``, ``project_id`` and ``all_projects`` are
    for operators (ForbiddenError for ``all_projects``, the others are ignored from anyone else); ``changes_since``
    shows deleted ones
    too; ``sort`` gives keys of SORT_KEYS with ``asc`` or ``desc``; ``marker`` is the id of the last server of the
    page before.
    Raises InvalidInputError for an unknown sort key or marker.
    """
    if all_projects and not context.is_admin:
        raise ForbiddenError("Only operators list the servers of all projects.")
    rows = Instance.objects.select_related("host")
    if not all_projects:
        rows = rows.filter(project_id=context.project_id)
    if context.is_admin:
        if project_id is not None:
            rows = rows.filter(project_id=project_id)
        if host is not None:
            rows = rows.filter(host__name=host)
    if changes_since is not None:
        rows = rows.filter(updated_at__gte=changes_since)
    elif deleted and context.is_admin:
        rows = rows.filter(vm_state=VmState.DELETED)
    else:
        rows = rows.exclude(vm_state=VmState.DELETED)
    plain = {
        "name__icontains": name,
        "vm_state": vm_state,
        "flavor__flavorid": flavor_id,
        "availability_zone": availability_zone,
        "user_id": user_id,
        "reservation_id": reservation_id,
        "id__in": list(ids) if ids is not None else None,
    }
    rows = rows.filter(**{key: value for key, value in plain.items() if value is not None})
    if image_id is not None:
        rows = rows.filter(image_id=_uuid(image_id))
    if status is not None:
        rows = rows.filter(_has_status(status))
    return _page(rows, sort, limit, marker)


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


def _page(
    rows: QuerySet[Instance], sort: Sequence[tuple[str, str]], limit: int | None, marker: str | uuid.UUID | None
) -> list[Instance]:
    """Sort, start after the marker, cut."""
    columns: list[tuple[str, bool]] = []
    for key, direction in sort or NEWEST_FIRST:
        if key not in SORT_KEYS:
            raise InvalidInputError(f"Sort key {key!r} is not supported.", field="sort_key")
        columns.append((SORT_KEYS[key], direction == "desc"))
    columns.append(("id", columns[-1][1]))
    rows = rows.order_by(*(f"-{column}" if falling else column for column, falling in columns))
    if marker is not None:
        last = rows.model._default_manager.filter(id=_uuid(marker)).first()
        if last is None:
            raise InvalidInputError(f"Marker {marker} could not be found.", field="marker")
        after, equal = Q(pk__in=[]), Q()
        for column, falling in columns:
            value = getattr(last, column)
            after |= equal & Q(**{f"{column}__{'lt' if falling else 'gt'}": value})
            equal &= Q(**{column: value})
        rows = rows.filter(after)
    return list(rows[:limit] if limit is not None else rows)


def _uuid(text: str | uuid.UUID) -> uuid.UUID | None:
    """Read an id; None for what cannot be one."""
    try:
        return text if isinstance(text, uuid.UUID) else uuid.UUID(str(text))
    except ValueError:
        return None


def instance_for(context: RequestContext, instance_id: str | uuid.UUID, *, deleted: bool = False) -> Instance:
    """Return one server with its host: the caller's project's, any for an operator.

    Deleted servers are gone, except for an operator who says ``deleted``.  Raises NotFoundError.
    """
    rows = Instance.objects.select_related("host").filter(id=_uuid(instance_id))
    if not context.is_admin:
        rows = rows.filter(project_id=context.project_id)
    if not (deleted and context.is_admin):
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
