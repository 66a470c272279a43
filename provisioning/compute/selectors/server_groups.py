"""Queries of server groups, for projects and the scheduler."""

import uuid
from collections.abc import Sequence

from django.db.models import Count, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Instance, ServerGroup
from provisioning.identity import policy
from provisioning.scheduler import GroupSpec

ALL_PROJECTS = "os_compute_api:os-server-groups:index:all_projects"
"""Policy rule to see the groups of all projects."""
SERVER_GROUPS = Listing[ServerGroup](order=(Sort("created_at", descending=False), Sort("id", descending=False)))
WHOLE = Part()


def visible_server_groups(context: RequestContext, *, all_projects: bool = False) -> QuerySet[ServerGroup]:
    """Return the groups of the caller's project, in any order. On request, and if allowed, return those of all
    projects.
    """
    if all_projects and policy.allows(context, ALL_PROJECTS):
        return ServerGroup.objects.all()
    return ServerGroup.objects.filter(project_id=context.project_id or NOBODY)


def server_groups_for(context: RequestContext, part: Part = WHOLE, *, all_projects: bool = False) -> list[ServerGroup]:
    """Return a page of the project's groups, oldest first. On request, and if allowed, of the groups of all
    projects.
    """
    return SERVER_GROUPS.page(visible_server_groups(context, all_projects=all_projects), part)


def server_group_for(context: RequestContext, group_id: object) -> ServerGroup:
    """Return a group. Raises NotFoundError, also for another project's group unless the caller may see all."""
    rows = ServerGroup.objects.filter(id=read_id(group_id) or NOBODY)
    if not policy.allows(context, ALL_PROJECTS):
        rows = rows.filter(project_id=context.project_id or NOBODY)
    group = rows.first()
    if group is None:
        raise NotFoundError(f"Instance group {str(group_id)[:64]} could not be found.")
    return group


def members_for(context: RequestContext, groups: Sequence[ServerGroup]) -> QuerySet[Instance]:
    """Return the project's servers in these groups by name, without those that are deleted."""
    rows = Instance.objects.filter(server_group__in=[group.id for group in groups], deleted_at=None)
    return rows.filter(project_id=context.project_id or NOBODY).order_by("name", "id")


def members_of(groups: Sequence[ServerGroup]) -> dict[uuid.UUID, list[uuid.UUID]]:
    """Return group → its servers that are not deleted, oldest first, with one query."""
    members: dict[uuid.UUID, list[uuid.UUID]] = {group.id: [] for group in groups}
    rows = Instance.objects.filter(server_group__in=[group.id for group in groups], deleted_at=None)
    for group_id, server in rows.order_by("created_at", "id").values_list("server_group_id", "id"):
        if group_id is not None:
            members[group_id].append(server)
    return members


def group_of(instance: Instance) -> GroupSpec | None:
    """Return a server's group for the scheduler: the number of its other members on each host."""
    if instance.server_group_id is None:
        return None
    group = ServerGroup.objects.filter(id=instance.server_group_id).first()
    if group is None:
        return None
    others = Instance.objects.filter(server_group=group, deleted_at=None, host__isnull=False).exclude(id=instance.id)
    counted = others.order_by().values_list("host_id").annotate(many=Count("id"))
    members = {host_id: many for host_id, many in counted if host_id is not None}
    return GroupSpec(group.policy, members, group.max_server_per_host or 1)


def hosts_of_servers(project_id: uuid.UUID, servers: object) -> frozenset[uuid.UUID]:
    """Return the hosts of the servers in a hint, one or a list; servers outside the project are ignored."""
    if not servers:
        return frozenset()
    named = servers if isinstance(servers, list) else [servers]
    ids = [found for found in map(read_id, named) if found is not None]
    rows = Instance.objects.filter(id__in=ids, project_id=project_id, deleted_at=None, host__isnull=False)
    return frozenset(rows.values_list("host_id", flat=True))
