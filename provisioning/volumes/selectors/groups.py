"""Groups and group snapshots that are visible to a caller."""

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.models import Group, GroupSnapshot


def visible_groups(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Group]:
    """Return the groups of the caller's project; ``all_projects`` is for operators."""
    rows = Group.objects.select_related("group_type")
    if all_projects and context.is_admin:
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def group_for(context: RequestContext, group_id: str) -> Group:
    """Return one group. Raises NotFoundError if it does not exist or belongs to another project."""
    group = visible_groups(context, all_projects=True).filter(id=read_id(group_id) or NOBODY).first()
    if group is None:
        raise NotFoundError(f"Group {str(group_id)[:64]} could not be found.")
    return group


def visible_group_snapshots(context: RequestContext, *, all_projects: bool = False) -> QuerySet[GroupSnapshot]:
    """Return the group snapshots of the caller's project; ``all_projects`` is for operators."""
    rows = GroupSnapshot.objects.select_related("group", "group_type")
    if all_projects and context.is_admin:
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def group_snapshot_for(context: RequestContext, snapshot_id: str) -> GroupSnapshot:
    """Return one group snapshot. Raises NotFoundError if it does not exist or belongs to another project."""
    group_snapshot = (
        visible_group_snapshots(context, all_projects=True).filter(id=read_id(snapshot_id) or NOBODY).first()
    )
    if group_snapshot is None:
        raise NotFoundError(f"GroupSnapshot {str(snapshot_id)[:64]} could not be found.")
    return group_snapshot
