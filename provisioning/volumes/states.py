"""The states of volumes, snapshots, attachments, backups and groups, as in Cinder."""

from collections.abc import Mapping

from django.db.models import TextChoices


class VolumeStatus(TextChoices):
    """``Volume.status``."""

    CREATING = "creating"
    DOWNLOADING = "downloading"  # the data of its image is being downloaded
    AVAILABLE = "available"
    RESERVED = "reserved"
    ATTACHING = "attaching"
    DETACHING = "detaching"
    IN_USE = "in-use"
    MAINTENANCE = "maintenance"
    DELETING = "deleting"
    AWAITING_TRANSFER = "awaiting-transfer"
    ERROR = "error"
    ERROR_DELETING = "error_deleting"
    BACKING_UP = "backing-up"
    RESTORING_BACKUP = "restoring-backup"
    ERROR_BACKING_UP = "error_backing-up"
    ERROR_RESTORING = "error_restoring"
    UPLOADING = "uploading"
    RETYPING = "retyping"
    EXTENDING = "extending"
    ERROR_EXTENDING = "error_extending"
    REVERTING = "reverting"


_S = VolumeStatus
RESTING = frozenset({_S.AVAILABLE, _S.RESERVED, _S.ATTACHING, _S.DETACHING, _S.IN_USE})
"""The statuses that attachments imply. In any other status the volume has a task, or its task has failed."""
_TASKS = frozenset({_S.EXTENDING, _S.UPLOADING, _S.RETYPING, _S.BACKING_UP, _S.MAINTENANCE, _S.DOWNLOADING})
LEGAL: Mapping[VolumeStatus, frozenset[VolumeStatus]] = {
    _S.CREATING: frozenset({_S.AVAILABLE, _S.DOWNLOADING, _S.ERROR, _S.RESTORING_BACKUP, _S.DELETING, _S.RESERVED}),
    _S.DOWNLOADING: RESTING | {_S.ERROR, _S.DELETING},
    _S.AVAILABLE: _TASKS
    | {_S.RESERVED, _S.ATTACHING, _S.IN_USE, _S.DELETING, _S.REVERTING, _S.AWAITING_TRANSFER, _S.RESTORING_BACKUP},
    _S.RESERVED: frozenset({_S.ATTACHING, _S.IN_USE, _S.DETACHING, _S.AVAILABLE, _S.DELETING, _S.DOWNLOADING}),
    _S.ATTACHING: frozenset({_S.IN_USE, _S.AVAILABLE, _S.RESERVED, _S.DETACHING, _S.DELETING}),
    _S.DETACHING: frozenset({_S.AVAILABLE, _S.IN_USE, _S.RESERVED, _S.ATTACHING, _S.DELETING}),
    _S.IN_USE: _TASKS | {_S.DETACHING, _S.AVAILABLE, _S.RESERVED, _S.ATTACHING, _S.DELETING},
    _S.MAINTENANCE: RESTING | {_S.ERROR, _S.DELETING},
    _S.EXTENDING: RESTING | {_S.ERROR_EXTENDING, _S.DELETING},
    _S.UPLOADING: RESTING | {_S.DELETING},
    _S.RETYPING: RESTING | {_S.ERROR, _S.DELETING},
    _S.BACKING_UP: RESTING | {_S.ERROR_BACKING_UP, _S.DELETING},
    _S.RESTORING_BACKUP: frozenset({_S.AVAILABLE, _S.ERROR_RESTORING, _S.DELETING}),
    _S.REVERTING: frozenset({_S.AVAILABLE, _S.ERROR, _S.DELETING}),
    _S.AWAITING_TRANSFER: frozenset({_S.AVAILABLE}),
    _S.ERROR: frozenset({_S.AVAILABLE, _S.RESERVED, _S.IN_USE, _S.DELETING, _S.RESTORING_BACKUP, _S.DOWNLOADING}),
    _S.ERROR_RESTORING: frozenset({_S.AVAILABLE, _S.DELETING, _S.RESTORING_BACKUP}),
    _S.ERROR_EXTENDING: RESTING | {_S.EXTENDING, _S.DELETING},
    _S.ERROR_BACKING_UP: RESTING | {_S.DELETING},
    _S.DELETING: frozenset({_S.ERROR_DELETING}),
    _S.ERROR_DELETING: frozenset({_S.DELETING}),
}
"""The legal transitions of statuses; an operator's reset ignores them. Attachments may change during a task, so a task
ends in any status that they imply.
"""


class SnapshotStatus(TextChoices):
    """The values of ``Snapshot.status`` and ``GroupSnapshot.status``."""

    CREATING = "creating"
    AVAILABLE = "available"
    DELETING = "deleting"
    ERROR = "error"
    ERROR_DELETING = "error_deleting"
    BACKING_UP = "backing-up"
    RESTORING = "restoring"
    UNMANAGING = "unmanaging"


class AttachStatus(TextChoices):
    """``Attachment.status``."""

    RESERVED = "reserved"
    ATTACHING = "attaching"  # its storage daemon serves it, but the guest has not attached it yet
    ATTACHED = "attached"
    DETACHING = "detaching"
    ERROR_ATTACHING = "error_attaching"
    ERROR_DETACHING = "error_detaching"


class BackupStatus(TextChoices):
    """``Backup.status``."""

    CREATING = "creating"
    AVAILABLE = "available"
    RESTORING = "restoring"
    DELETING = "deleting"
    ERROR = "error"
    ERROR_DELETING = "error_deleting"


class GroupStatus(TextChoices):
    """``Group.status``."""

    CREATING = "creating"
    AVAILABLE = "available"
    UPDATING = "updating"
    DELETING = "deleting"
    ERROR = "error"
    ERROR_DELETING = "error_deleting"
