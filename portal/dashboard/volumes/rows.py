"""Rows of volumes, snapshots and backups, with the labels of their statuses."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Model

from portal.common import statuses
from portal.dashboard.records.views import instance_names, may
from portal.dashboard.words.wording import progress
from provisioning.common.context import RequestContext
from provisioning.common.tasks import UserTask
from provisioning.identity import policy
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Backup, Message, Snapshot, Volume, VolumeType
from provisioning.volumes.records.holds import HELD_BY
from provisioning.volumes.selectors.types import DEFAULT
from provisioning.volumes.services import messages
from provisioning.volumes.services.backups.backup_restores import Restore
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus

AT_REST = frozenset({VolumeStatus.AVAILABLE, VolumeStatus.IN_USE})
BROKEN = frozenset(
    {
        VolumeStatus.ERROR,
        VolumeStatus.ERROR_DELETING,
        VolumeStatus.ERROR_EXTENDING,
        VolumeStatus.ERROR_RESTORING,
        VolumeStatus.ERROR_BACKING_UP,
    }
)
NOBODY = uuid.UUID(int=0)
R = TypeVar("R", bound=Model)

FAILED: Mapping[str, str] = {
    messages.SCHEDULE.id: "No storage pool has space for it",
    messages.CREATE_FROM_BACKEND.id: "It could not be created",
    messages.COPY_FROM_IMAGE.id: "Its image could not be copied to it",
    messages.COPY_TO_IMAGE.id: "It could not be copied to an image",
    messages.ATTACH.id: "It could not be attached",
    messages.EXTEND.id: "It could not be extended",
    messages.DELETE.id: "It could not be deleted",
    messages.RETYPE.id: "Its type could not be changed",
    messages.MIGRATE.id: "It could not be moved",
}
"""Action of a failure message → its text on pages; for all other actions, pages show the API's text."""


def backup_row(context: RequestContext, backup: Backup) -> dict[str, Any]:
    available = backup.status == "available"
    return {
        "backup": backup,
        "status": statuses.backup_status(backup.status),
        "progress": None if available else progress(backup.progress_bytes, backup.progress_total),
        "volume_name": "",
        "can_restore": _can_start(context, Restore, backup),
        "can_delete": _can_start(context, DeleteBackup, backup),
    }


def _can_start(context: RequestContext, task: type[UserTask[R, Any, Any]], record: R) -> bool:
    """Return whether the caller may start a task with the record in its status."""
    return getattr(record, "status") in task.legal_from and may(context, task.rule, record)  # noqa: B009


def row_of(context: RequestContext, volume: Volume, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    attachments = list(volume.attachments.all())
    free, used = volume.status == VolumeStatus.AVAILABLE, volume.status == VolumeStatus.IN_USE
    changes = may(context, "volume:update", volume)
    busy = volume.status not in {*AT_REST, *BROKEN}
    return {
        "volume": volume,
        "status": statuses.volume_status(volume.status),
        "progress": progress(volume.progress_bytes, volume.progress_total) if busy else None,
        "type": type_name(volume.volume_type),
        "users": [_use(context, each, names) for each in attachments],
        "can_edit": changes,
        "can_extend": _can_start(context, services.Extend, volume)
        and (not used or may(context, "volume:extend_attached_volume", volume)),
        "can_attach": (free or (used and volume.multiattach))
        and policy.allows(context, "os_compute_api:os-volumes-attachments:create"),
        "can_snapshot": _can_start(context, services.CreateSnapshot, volume),
        "can_back_up": _can_start(context, CreateBackup, volume),
        "can_retype": _can_start(context, services.Retype, volume),
        "can_upload": free and _can_start(context, services.UploadToImage, volume),
        "can_hand_over": free and may(context, "volume:create_transfer", volume),
        "can_withdraw": volume.status == VolumeStatus.AWAITING_TRANSFER
        and may(context, "volume:delete_transfer", volume),
        "can_launch": free and volume.bootable and policy.allows(context, "os_compute_api:servers:create"),
        "can_delete": _can_start(context, services.Delete, volume) and not attachments,
        "can_unmanage": _can_start(context, services.Unmanage, volume)
        and not volume.encryption_key
        and volume.pool is not None
        and volume.pool.capabilities.get("manage") == "true",
    }


def _use(context: RequestContext, attachment: Attachment, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    known = names.get(attachment.instance_id or NOBODY, "")
    return {
        "attachment": attachment,
        "name": known or _unnamed(attachment),
        "known": bool(known),
        "device": attachment.mountpoint,
        "read_only": attachment.mode == "ro",
        "attached": attachment.status == AttachStatus.ATTACHED,
        "can_detach": bool(known)
        and attachment.status in {AttachStatus.ATTACHED, AttachStatus.ERROR_DETACHING}
        and policy.allows(context, "os_compute_api:os-volumes-attachments:delete"),
    }


def _unnamed(attachment: Attachment) -> str:
    """Return the label of an attachment whose instance or client has no name here."""
    if HELD_BY in attachment.connector and attachment.instance_id is None:
        return "an instance without a record"
    return "an instance" if attachment.instance_id else "an external client"


def snapshot_row(context: RequestContext, snapshot: Snapshot) -> dict[str, Any]:
    available = snapshot.status == SnapshotStatus.AVAILABLE
    return {
        "snapshot": snapshot,
        "volume": snapshot.volume,
        "status": statuses.snapshot_status(snapshot.status),
        "can_create_volume": available and policy.allows(context, services.Create.rule),
        "can_revert": available and _can_start(context, services.Revert, snapshot.volume),
        "can_edit": may(context, "volume:update_snapshot", snapshot),
        "can_delete": _can_start(context, services.DeleteSnapshot, snapshot),
        "can_unmanage": _can_start(context, services.UnmanageSnapshot, snapshot) and snapshot.group_snapshot_id is None,
    }


def names_of(context: RequestContext, volumes: Iterable[Volume]) -> dict[uuid.UUID, str]:
    uses: Sequence[uuid.UUID | None] = [
        attachment.instance_id for volume in volumes for attachment in volume.attachments.all()
    ]
    return instance_names(context, uses)


def type_name(volume_type: VolumeType | None) -> str:
    """Return the name of a volume type; the built-in default type is shown as ``default``."""
    if volume_type is None:
        return ""
    return "default" if volume_type.name == DEFAULT else volume_type.name


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failure, as shown on the page of a volume."""

    text: str
    created_at: datetime


def failure(message: Message) -> Failure:
    """Convert a message of the API."""
    what, colon, reason = message.text.partition(": ")
    title = FAILED.get(message.action_id, what.capitalize())
    return Failure(f"{title}: {reason}" if colon else message.text, message.created_at)
