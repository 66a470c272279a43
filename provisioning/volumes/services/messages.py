"""Writes messages to users about failed tasks, with Cinder's ids of actions and details."""

import uuid
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone

from provisioning.common.values.text import one_line
from provisioning.volumes.models import Message, Snapshot, Volume

MOST_OF_PROJECT = 1000
"""Maximum number of messages of one project, so that repeated failures do not fill the table."""
REMOVED_AT_ONCE = 20
AGAIN = timedelta(days=7)
"""Interval after which owners are again informed that the host of their volume is down."""


class Action(NamedTuple):
    """The failed action of a message, as in Cinder: its id, and its name in the text."""

    id: str
    name: str


SCHEDULE = Action("001", "schedule allocate volume")
ATTACH = Action("002", "attach volume")
COPY_TO_IMAGE = Action("003", "copy volume to image")
COPY_FROM_IMAGE = Action("005", "copy image to volume")
UNMANAGE = Action("006", "unmanage volume")
EXTEND = Action("007", "extend volume")
CREATE_FROM_BACKEND = Action("008", "create volume from backend storage")
SNAPSHOT_CREATE = Action("009", "create snapshot")
SNAPSHOT_DELETE = Action("010", "delete snapshot")
BACKUP_CREATE = Action("013", "create backup")
BACKUP_DELETE = Action("014", "delete backup")
BACKUP_RESTORE = Action("015", "restore backup")
REIMAGE = Action("016", "reimage volume")
DELETE = Action("017", "delete volume")
REVERT = Action("018", "revert volume to snapshot")
RETYPE = Action("019", "retype volume")
MIGRATE = Action("020", "migrate volume")
REACH = Action("021", "reach volume")
"""Ids up to 016 are Cinder's, the others are Novella's own. A task with a failure of its own declares it in its module.
"""
UNKNOWN, NO_HOST, NOT_CREATED, QUOTA = "001", "003", "002", "007"
NOT_ENOUGH_SPACE, IMAGE_FROM_VOLUME_QUOTA, SIZE = "009", "010", "006"
"""Ids of details, as in Cinder."""


def write(
    project_id: uuid.UUID,
    resource_type: str,
    resource_id: uuid.UUID | None,
    action: Action,
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
        action_id=action.id,
        detail_id=detail,
        text=one_line(f"{action.name}: {reason}", 500),
        expires_at=timezone.now() + timedelta(seconds=settings.MESSAGE_TTL),
    )


def of_volume(volume: Volume, action: Action, reason: str, *, detail: str = UNKNOWN, request_id: str = "") -> Message:
    """Write why a task of a volume failed."""
    return write(volume.project_id, "VOLUME", volume.id, action, reason, detail=detail, request_id=request_id)


def of_snapshot(snapshot: Snapshot, action: Action, reason: str) -> Message:
    """Write why a task of a snapshot failed."""
    return write(snapshot.project_id, "VOLUME_SNAPSHOT", snapshot.id, action, reason)


def forget_old() -> int:
    """Delete expired messages; return how many."""
    return Message.objects.filter(expires_at__lt=timezone.now()).delete()[0]


def delete_message(message: Message) -> None:
    """Delete a message; a deleted one is ignored."""
    Message.objects.filter(pk=message.pk).delete()
