"""Queries for the servers that a caller may see: the servers of its project, or of all projects if an operator requests
it.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Unpack

from django.db.models import Q, QuerySet, UUIDField

from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.selectors.instance_lists import INSTANCES, SORT_KEYS, Filters, narrowed
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.identity import policy

ALL_PROJECTS = "os_compute_api:servers:detail:get_all_tenants"
"""Policy rule to see the servers of all projects."""

__all__ = [
    "ALL_PROJECTS",
    "NOBODY",
    "SORT_KEYS",
    "Filters",
    "fault_of",
    "has_its_name_alone",
    "instance_for",
    "instances_for",
    "rows_with_ended",
]


def instances_for(
    context: RequestContext,
    *,
    sort: Sequence[Sort] = (),
    limit: int | None = None,
    marker: str | uuid.UUID | None = None,
    backwards: bool = False,
    all_projects: bool = False,
    columns: Sequence[str] = (),
    rule: str = ALL_PROJECTS,
    **filters: Unpack[Filters],
) -> list[Instance]:
    """Return servers with their hosts, newest first.

    ``sort`` contains keys of SORT_KEYS. ``marker`` is the id of the last server of the previous page, or with
    ``backwards`` of the first server of the next page. ``columns`` limits the loaded columns, which may include
    ``host``. ``rule`` is checked for ``all_projects``.

    Raises ForbiddenError for ``all_projects`` unless the caller is an operator, and InvalidInputError for an unknown
    sort key or marker and for a pattern outside the limits.
    """
    if all_projects:
        policy.enforce(context, rule)
    rows = Instance.objects.only(*columns) if columns else Instance.objects.select_related("host")
    if "host" in columns:
        rows = rows.prefetch_related("host")  # loads each host once
    if not all_projects:
        rows = rows.filter(project_id=context.project_id or NOBODY)
    operator = policy.allows(context, ALL_PROJECTS)
    if sort:
        sort = (*sort, Sort("id", sort[-1].descending))
    part = Part(sort=sort, limit=limit, marker=marker, backwards=backwards)
    return INSTANCES.page(narrowed(rows, filters, operator=operator), part, among=_seen(context, operator=operator))


def count_for(context: RequestContext, **filters: Unpack[Filters]) -> int:
    """Return the number of servers of the caller's project that ``instances_for`` would return without a limit."""
    rows = Instance.objects.filter(project_id=context.project_id or NOBODY)
    return narrowed(rows, filters, operator=policy.allows(context, ALL_PROJECTS)).count()


def _seen(context: RequestContext, *, operator: bool) -> QuerySet[Instance]:
    """Return the servers of the caller's project, or all for an operator, including deleted ones."""
    return Instance.objects.all() if operator else Instance.objects.filter(project_id=context.project_id or NOBODY)


def instance_for(context: RequestContext, instance_id: str | uuid.UUID, *, deleted: bool = False) -> Instance:
    """Return a server with its host: one of the caller's project, or any for an operator.

    Deleted servers are not found, except by an operator with ``deleted``. Raises NotFoundError.
    """
    key = read_id(instance_id) or NOBODY
    if not policy.allows(context, ALL_PROJECTS):
        instance = _OF_PROJECT.first(key=key, project_id=context.project_id or NOBODY)
    else:
        instance = (_ANY if deleted else _ANY_THERE).first(key=key)
    if instance is None:
        raise NotFoundError(f"Instance {instance_id} could not be found.")
    return instance


_ANY = Prepared(lambda key: Instance.objects.select_related("host").filter(id=key), key=UUIDField())
_ANY_THERE = Prepared(
    lambda key: Instance.objects.select_related("host").filter(id=key).exclude(vm_state=VmState.DELETED),
    key=UUIDField(),
)
_OF_PROJECT = Prepared(
    lambda key, project_id: (
        Instance.objects.select_related("host").filter(id=key, project_id=project_id).exclude(vm_state=VmState.DELETED)
    ),
    key=UUIDField(),
    project_id=UUIDField(),
)


def rows_with_ended(context: RequestContext, since: datetime) -> QuerySet[Instance]:
    """Return the servers of the caller's project with their hosts, including those deleted or soft-deleted since then.

    Columns that lists never show are deferred.
    """
    rows = Instance.objects.defer("tags", *_NOT_LISTED).filter(project_id=context.project_id or NOBODY)
    rows = rows.prefetch_related("host")
    rows = rows.filter(Q(deleted_at=None) | Q(deleted_at__gte=since))
    return rows.exclude(vm_state=VmState.SOFT_DELETED, soft_deleted_at__lt=since)


def listed_instances(ids: Iterable[uuid.UUID]) -> list[Instance]:
    """Return the servers with these ids that are not deleted, with the columns that lists show, in no order."""
    return _WITH_IDS(ids=ids)


def newest_instances(context: RequestContext) -> list[Instance]:
    """Return the NEWEST newest servers of the caller's project, with the columns that lists show."""
    return _NEWEST(project_id=context.project_id or NOBODY)


def _listed() -> QuerySet[Instance]:
    return Instance.objects.select_related("host").defer(*_NOT_LISTED, *_HOST_NOT_LISTED).filter(deleted_at=None)


NEWEST = 5
_NOT_LISTED = (
    *("metadata", "requested_networks", "security_groups", "scheduler_hints", "excluded_hosts", "public_key"),
    *("injected_files", "trusted_certificates", "user_data", "admin_password"),
)
"""Columns that lists of servers never show."""
_HOST_LISTED = frozenset({"id", "name", "availability_zone", "last_seen_at", "forced_down"})
_HOST_NOT_LISTED = [f"host__{each.name}" for each in Host._meta.concrete_fields if each.name not in _HOST_LISTED]
_WITH_IDS = Prepared(lambda ids: _listed().filter(Among("id", ids)), ids=Ids())
_NEWEST = Prepared(
    lambda project_id: (
        _listed()
        .filter(project_id=project_id)
        .exclude(vm_state__in=[VmState.DELETED, VmState.SOFT_DELETED])
        .order_by("-created_at", "-id")[:NEWEST]
    ),
    project_id=UUIDField(),
)


def has_its_name_alone(instance: Instance) -> bool:
    """Whether no other server of its project has the same name; clients find servers by name."""
    same = Instance.objects.filter(project_id=instance.project_id, name=instance.name, deleted_at=None)
    return not same.exclude(id=instance.id).exists()


def fault_of(instances: Iterable[Instance]) -> dict[uuid.UUID, InstanceFault]:
    """Return the newest fault of each of these servers that is in ERROR or deleted, with one query."""
    ids = [item.id for item in instances if item.vm_state in (VmState.ERROR, VmState.DELETED)]
    if not ids:
        return {}
    return {fault.instance_id: fault for fault in InstanceFault.objects.filter(instance_id__in=ids).order_by("id")}
