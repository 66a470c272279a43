"""Which volumes, snapshots and attachments exist for a caller."""

import uuid

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY, read_id
from provisioning.volumes.errors import AttachmentNotFoundError, SnapshotNotFoundError, VolumeNotFoundError
from provisioning.volumes.models import Attachment, Snapshot, Volume


def sees_all(context: RequestContext) -> bool:
    """Whether the volumes of every project exist for the caller."""
    return context.is_admin


def visible_volumes(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Volume]:
    """Return the volumes of the caller's project; ``all_projects`` is for operators.

    Volumes that only take over the data of another one are operators' affair.
    """
    rows = Volume.objects.select_related("pool", "volume_type", "group")
    if all_projects and sees_all(context):
        return rows
    return rows.filter(project_id=context.project_id or NOBODY, migration_of=None)


def volume_for(context: RequestContext, volume_id: str | uuid.UUID) -> Volume:
    """Return one volume; VolumeNotFoundError when there is none or it is another project's."""
    found = visible_volumes(context, all_projects=True).filter(id=read_id(volume_id) or NOBODY).first()
    if found is None:
        raise VolumeNotFoundError(volume_id)
    return found


def visible_snapshots(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Snapshot]:
    """Return the snapshots of the caller's project; ``all_projects`` is for operators."""
    rows = Snapshot.objects.select_related("volume", "volume__volume_type", "volume__pool")
    if all_projects and sees_all(context):
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def snapshot_for(context: RequestContext, snapshot_id: str | uuid.UUID) -> Snapshot:
    """Return one snapshot; SnapshotNotFoundError when there is none or it is another project's."""
    found = visible_snapshots(context, all_projects=True).filter(id=read_id(snapshot_id) or NOBODY).first()
    if found is None:
        raise SnapshotNotFoundError(snapshot_id)
    return found


def visible_attachments(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Attachment]:
    """Return the attachments of the caller's project; ``all_projects`` is for operators."""
    rows = Attachment.objects.select_related("volume", "host")
    if all_projects and sees_all(context):
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def attachment_for(context: RequestContext, attachment_id: str | uuid.UUID) -> Attachment:
    """Return one attachment; AttachmentNotFoundError when there is none or it is another project's."""
    found = visible_attachments(context, all_projects=True).filter(id=read_id(attachment_id) or NOBODY).first()
    if found is None:
        raise AttachmentNotFoundError(attachment_id)
    return found
