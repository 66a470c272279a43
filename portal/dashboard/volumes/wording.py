"""Labels of the statuses of volumes, snapshots and backups."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from portal.dashboard.words.wording import UNKNOWN, Status
from provisioning.volumes.models import Message, VolumeType
from provisioning.volumes.selectors.types import DEFAULT
from provisioning.volumes.services import messages
from provisioning.volumes.states import BackupStatus, SnapshotStatus, VolumeStatus


def _busy(word: str) -> Status:
    return Status(word, "busy", "arrow-repeat")


def _bad(word: str) -> Status:
    return Status(word, "bad", "exclamation-octagon-fill")


FREE = Status("Available", "ok", "check-circle-fill")
VOLUME_STATUS: Mapping[str, Status] = {
    VolumeStatus.CREATING: _busy("Being created"),
    VolumeStatus.DOWNLOADING: _busy("Copying its image"),
    VolumeStatus.AVAILABLE: FREE,
    VolumeStatus.RESERVED: Status("Reserved", "warn", "bookmark-fill"),
    VolumeStatus.ATTACHING: _busy("Being attached"),
    VolumeStatus.DETACHING: _busy("Being detached"),
    VolumeStatus.IN_USE: Status("In use", "ok", "link-45deg"),
    VolumeStatus.MAINTENANCE: Status("In maintenance", "warn", "cone-striped"),
    VolumeStatus.DELETING: _busy("Being deleted"),
    VolumeStatus.AWAITING_TRANSFER: Status("Awaiting transfer", "warn", "arrow-left-right"),
    VolumeStatus.ERROR: _bad("Error"),
    VolumeStatus.ERROR_DELETING: _bad("Could not be deleted"),
    VolumeStatus.BACKING_UP: _busy("Being backed up"),
    VolumeStatus.RESTORING_BACKUP: _busy("Being restored"),
    VolumeStatus.ERROR_BACKING_UP: _bad("Could not be backed up"),
    VolumeStatus.ERROR_RESTORING: _bad("Could not be restored"),
    VolumeStatus.UPLOADING: _busy("Copied to an image"),
    VolumeStatus.RETYPING: _busy("Changing its type"),
    VolumeStatus.EXTENDING: _busy("Growing"),
    VolumeStatus.ERROR_EXTENDING: _bad("Extending failed"),
    VolumeStatus.REVERTING: _busy("Reverting to a snapshot"),
}
SNAPSHOT_STATUS: Mapping[str, Status] = {
    SnapshotStatus.CREATING: _busy("Being taken"),
    SnapshotStatus.AVAILABLE: FREE,
    SnapshotStatus.DELETING: _busy("Being deleted"),
    SnapshotStatus.ERROR: _bad("Error"),
    SnapshotStatus.ERROR_DELETING: _bad("Could not be deleted"),
    SnapshotStatus.BACKING_UP: _busy("Being backed up"),
    SnapshotStatus.RESTORING: _busy("Being restored"),
    SnapshotStatus.UNMANAGING: _busy("Being unmanaged"),
}
BACKUP_STATUS: Mapping[str, Status] = {
    BackupStatus.CREATING: _busy("Being written"),
    BackupStatus.AVAILABLE: FREE,
    BackupStatus.RESTORING: _busy("Being restored"),
    BackupStatus.DELETING: _busy("Being deleted"),
    BackupStatus.ERROR: _bad("Error"),
    BackupStatus.ERROR_DELETING: _bad("Could not be deleted"),
}


def type_name(volume_type: VolumeType | None) -> str:
    """Return the name of a volume type; the built-in default type is shown as ``default``."""
    if volume_type is None:
        return ""
    return "default" if volume_type.name == DEFAULT else volume_type.name


FAILED: Mapping[str, str] = {
    messages.SCHEDULE: "No storage pool has room for it",
    messages.CREATE_FROM_BACKEND: "It could not be created",
    messages.COPY_FROM_IMAGE: "Its image could not be copied to it",
    messages.COPY_TO_IMAGE: "It could not be copied to an image",
    messages.ATTACH: "It could not be attached",
    messages.EXTEND: "It could not be extended",
    messages.DELETE: "It could not be deleted",
    messages.RETYPE: "Its type could not be changed",
    messages.MIGRATE: "It could not be moved",
}
"""Action of a failure message → its text on pages; for all other actions, pages show the API's text."""


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


def volume_status(word: str) -> Status:
    return VOLUME_STATUS.get(word, UNKNOWN)


def snapshot_status(word: str) -> Status:
    return SNAPSHOT_STATUS.get(word, UNKNOWN)


def backup_status(word: str) -> Status:
    return BACKUP_STATUS.get(word, UNKNOWN)
