"""EC2's states of volumes, attachments and snapshots. EC2 has fewer states than the Block Storage API."""

from collections.abc import Sequence

from django.db.models import Q

from provisioning.volumes.models import Attachment, Snapshot, Volume
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus

CREATING, AVAILABLE, IN_USE, DELETING, ERROR = "creating", "available", "in-use", "deleting", "error"
_OWN = {
    VolumeStatus.DELETING: DELETING,
    VolumeStatus.ERROR: ERROR,
    VolumeStatus.ERROR_DELETING: ERROR,
    VolumeStatus.ERROR_BACKING_UP: ERROR,
    VolumeStatus.ERROR_RESTORING: ERROR,
    VolumeStatus.ERROR_EXTENDING: ERROR,
}
_BEING_WRITTEN = frozenset(
    {VolumeStatus.CREATING, VolumeStatus.DOWNLOADING, VolumeStatus.RESTORING_BACKUP, VolumeStatus.REVERTING}
)
_OF_ATTACHMENT = {
    AttachStatus.RESERVED: "attaching",
    AttachStatus.ATTACHING: "attaching",
    AttachStatus.ERROR_ATTACHING: "attaching",
    AttachStatus.ATTACHED: "attached",
    AttachStatus.DETACHING: "detaching",
    AttachStatus.ERROR_DETACHING: "busy",
}
_OF_SNAPSHOT = {
    SnapshotStatus.CREATING: "pending",
    SnapshotStatus.DELETING: "pending",  # EC2 has no state for it; clients that wait for the deletion keep waiting
    SnapshotStatus.UNMANAGING: "pending",
    SnapshotStatus.ERROR: "error",
    SnapshotStatus.ERROR_DELETING: "error",
}


def of_volume(volume: Volume) -> str:
    """Return the state of a volume. During an operation, an attached volume is ``in-use``, a volume to which data is
    being written is ``creating``, and any other volume is ``available``.
    """
    status = VolumeStatus(volume.status)
    if status in _OWN:
        return _OWN[status]
    if volume.attachments.all():
        return IN_USE
    return CREATING if status in _BEING_WRITTEN else AVAILABLE


def condition(states: Sequence[str]) -> Q:
    """Return a condition of columns that all volumes in one of these states fulfil."""
    found = Q(pk__in=[])
    for state in states:
        if state == CREATING:
            found |= Q(status__in=_BEING_WRITTEN)
        elif state in {AVAILABLE, IN_USE}:
            found |= ~Q(status__in=_OWN)
        else:
            found |= Q(status__in=[status for status, name in _OWN.items() if name == state])
    return found


def of_attachment(attachment: Attachment) -> str:
    return _OF_ATTACHMENT[AttachStatus(attachment.status)]


def of_snapshot(snapshot: Snapshot) -> str:
    return _OF_SNAPSHOT.get(SnapshotStatus(snapshot.status), "completed")


def progress_of(snapshot: Snapshot) -> str:
    return f"{100 if of_snapshot(snapshot) == 'completed' else snapshot.progress}%"
