"""Writes messages to users about failed tasks, with Cinder's ids of actions and details."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.values.text import one_line
from provisioning.volumes.models import Message, Snapshot, Volume

MOST_OF_PROJECT = 1000
"""Maximum number of messages of one project, so that repeated failures do not fill the table."""
REMOVED_AT_ONCE = 20
AGAIN = timedelta(days=7)
"""Interval after which owners are again informed that the host of their volume is down."""

SCHEDULE, ATTACH, COPY_TO_IMAGE, UPDATE_ATTACHMENT = "001", "002", "003", "004"
COPY_FROM_IMAGE, UNMANAGE, EXTEND, CREATE_FROM_BACKEND = "005", "006", "007", "008"
SNAPSHOT_CREATE, SNAPSHOT_DELETE, SNAPSHOT_UPDATE, METADATA_UPDATE = "009", "010", "011", "012"
BACKUP_CREATE, BACKUP_DELETE, BACKUP_RESTORE, REIMAGE = "013", "014", "015", "016"
DELETE, REVERT, RETYPE, MIGRATE, REACH = "017", "018", "019", "020", "021"
"""Ids of actions: up to 016 as in Cinder, the other ids are Novella's own."""
UNKNOWN, NO_HOST, NOT_CREATED, QUOTA = "001", "003", "002", "007"
NOT_ENOUGH_SPACE, IMAGE_FROM_VOLUME_QUOTA, SIZE = "009", "010", "006"
"""Ids of details, as in Cinder."""
ACTIONS = {
    SCHEDULE: "schedule allocate volume",
    ATTACH: "attach volume",
    COPY_TO_IMAGE: "copy volume to image",
    UPDATE_ATTACHMENT: "update attachment",
    COPY_FROM_IMAGE: "copy image to volume",
    UNMANAGE: "unmanage volume",
    EXTEND: "extend volume",
    CREATE_FROM_BACKEND: "create volume from backend storage",
    SNAPSHOT_CREATE: "create snapshot",
    SNAPSHOT_DELETE: "delete snapshot",
    SNAPSHOT_UPDATE: "update snapshot",
    METADATA_UPDATE: "update snapshot metadata",
    BACKUP_CREATE: "create backup",
    BACKUP_DELETE: "delete backup",
    BACKUP_RESTORE: "restore backup",
    REIMAGE: "reimage volume",
    DELETE: "delete volume",
    REVERT: "revert volume to snapshot",
    RETYPE: "retype volume",
    MIGRATE: "migrate volume",
    REACH: "reach volume",
}


def write(
    project_id: uuid.UUID,
    resource_type: str,
    resource_id: uuid.UUID | None,
    action: str,
    reason: str,
    *,
    detail: str = UNKNOWN,
    request_id: str = "",
) -> Message:
    """Write why a task failed, in the caller's transaction.  ``resource_type``: ``VOLUME``, ``VOLUME_SNAPSHOT`` …

    Deletes the project's oldest messages beyond ``MOST_OF_PROJECT``.
    """
    newest = Message.objects.filter(project_id=project_id).order_by("-created_at", "-id").values_list("id", flat=True)
    if beyond := list(newest[MOST_OF_PROJECT - 1 : MOST_OF_PROJECT - 1 + REMOVED_AT_ONCE]):
        Message.objects.filter(id__in=beyond).delete()
    return Message.objects.create(
        project_id=project_id,
        request_id=request_id,
        resource_type=resource_type,
        resource_id=resource_id,
        action_id=action,
        detail_id=detail,
        text=one_line(f"{ACTIONS.get(action, 'task')}: {reason}", 500),
        expires_at=timezone.now() + timedelta(seconds=settings.MESSAGE_TTL),
    )


def of_volume(volume: Volume, action: str, reason: str, *, detail: str = UNKNOWN, request_id: str = "") -> Message:
    """Write why a task of a volume failed."""
    return write(volume.project_id, "VOLUME", volume.id, action, reason, detail=detail, request_id=request_id)


def of_snapshot(snapshot: Snapshot, action: str, reason: str) -> Message:
    """Write why a task of a snapshot failed."""
    return write(snapshot.project_id, "VOLUME_SNAPSHOT", snapshot.id, action, reason)


def forget_old() -> int:
    """Delete expired messages; return how many."""
    return Message.objects.filter(expires_at__lt=timezone.now()).delete()[0]


def delete_message(message: Message) -> None:
    """Delete a message; a deleted one is ignored."""
    Message.objects.filter(pk=message.pk).delete()
