"""Access to volumes, snapshots, attachments and groups: which of them exist for a caller."""

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from django.db.models import Model, QuerySet, UUIDField, Value

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.errors import AttachmentNotFoundError, SnapshotNotFoundError, VolumeNotFoundError
from provisioning.volumes.models import Attachment, Group, GroupSnapshot, Snapshot, Volume

M = TypeVar("M", bound=Model)
OfProject = uuid.UUID | Value | None
"""The project of a query, as an id or a parameter of a prepared query; None: all projects."""


def sees_all(context: RequestContext) -> bool:
    """Return whether the caller may see the volumes of all projects."""
    return context.is_admin


def visible_volumes(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Volume]:
    """Return the volumes of the caller's project; ``all_projects`` is for operators.

    Hidden volumes of migrations are only visible to operators.
    """
    return _volumes(_project_of(context, all_projects=all_projects))


def users_of_volumes(context: RequestContext) -> QuerySet[Volume, uuid.UUID | None]:
    """Return the ids of the users who created volumes of the caller's project."""
    rows = visible_volumes(context).exclude(user_id=None).order_by("user_id")
    return rows.values_list("user_id", flat=True).distinct()


def volumes_have_several_users(context: RequestContext) -> bool:
    """Return whether another user than the caller has volumes in the project."""
    return visible_volumes(context).exclude(user_id=None).exclude(user_id=context.user_id or NOBODY).exists()


def _volumes(project_id: OfProject) -> QuerySet[Volume]:
    rows = Volume.objects.select_related("pool", "volume_type", "group")
    return rows if project_id is None else rows.filter(project_id=project_id, migration_of=None)


def volume_for(context: RequestContext, volume_id: str | uuid.UUID) -> Volume:
    """Return one volume. Raises VolumeNotFoundError if it does not exist or belongs to another project."""
    volume = _one(_volumes, context, volume_id)
    if volume is None:
        raise VolumeNotFoundError(volume_id)
    return volume


def visible_snapshots(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Snapshot]:
    """Return the snapshots of the caller's project; ``all_projects`` is for operators."""
    return _snapshots(_project_of(context, all_projects=all_projects))


def _snapshots(project_id: OfProject) -> QuerySet[Snapshot]:
    rows = Snapshot.objects.select_related("volume", "volume__volume_type", "volume__pool")
    return rows if project_id is None else rows.filter(project_id=project_id)


def snapshot_for(context: RequestContext, snapshot_id: str | uuid.UUID) -> Snapshot:
    """Return one snapshot. Raises SnapshotNotFoundError if it does not exist or belongs to another project."""
    snapshot = _one(_snapshots, context, snapshot_id)
    if snapshot is None:
        raise SnapshotNotFoundError(snapshot_id)
    return snapshot


def visible_attachments(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Attachment]:
    """Return the attachments of the caller's project; ``all_projects`` is for operators."""
    return _attachments(_project_of(context, all_projects=all_projects))


def _attachments(project_id: OfProject) -> QuerySet[Attachment]:
    rows = Attachment.objects.select_related("volume", "host")
    return rows if project_id is None else rows.filter(project_id=project_id)


def attachment_for(context: RequestContext, attachment_id: str | uuid.UUID) -> Attachment:
    """Return one attachment. Raises AttachmentNotFoundError if it does not exist or belongs to another project."""
    attachment = _one(_attachments, context, attachment_id)
    if attachment is None:
        raise AttachmentNotFoundError(attachment_id)
    return attachment


def _project_of(context: RequestContext, *, all_projects: bool) -> uuid.UUID | None:
    return None if all_projects and sees_all(context) else context.project_id or NOBODY


def _one(rows_of: Callable[[OfProject], QuerySet[M]], context: RequestContext, identity: str | uuid.UUID) -> M | None:
    project_id = _project_of(context, all_projects=True)
    rows = _prepared(rows_of, project_id is None)
    result: M | None = rows.first(key=read_id(identity) or NOBODY, project_id=project_id)
    return result


@cache
def _prepared(rows_of: Callable[[OfProject], QuerySet[Any]], everything: bool) -> Prepared[Any]:  # noqa: FBT001 - a part of the key
    def rows(key: Value, project_id: Value) -> QuerySet[Any]:
        return rows_of(None if everything else project_id).filter(id=key)

    return Prepared(rows, key=UUIDField(), project_id=UUIDField())


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
