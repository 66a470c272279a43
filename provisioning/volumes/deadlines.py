"""The longest silence of a host about a task of a volume; each sign of life starts it again."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from provisioning.volumes.states import AttachStatus, VolumeStatus

MINUTE = 60
TIMEOUTS: Mapping[str, int] = {
    VolumeStatus.CREATING: 10 * MINUTE,
    VolumeStatus.DOWNLOADING: 30 * MINUTE,
    VolumeStatus.DELETING: 10 * MINUTE,
    VolumeStatus.EXTENDING: 5 * MINUTE,
    VolumeStatus.REVERTING: 10 * MINUTE,
    VolumeStatus.UPLOADING: 30 * MINUTE,
    VolumeStatus.RETYPING: 60 * MINUTE,
    VolumeStatus.MAINTENANCE: 60 * MINUTE,
    VolumeStatus.BACKING_UP: 60 * MINUTE,
    VolumeStatus.RESTORING_BACKUP: 60 * MINUTE,
    AttachStatus.ATTACHING: 3 * MINUTE,
}
"""Status of a volume → seconds, unless NOVELLA_VOLUME_TIMEOUTS gives others.

``attaching``: until a storage daemon lets a client in, once its host has begun.
"""
TASKS = frozenset(TIMEOUTS) - {AttachStatus.ATTACHING}
"""Statuses of volumes in which a host works on them."""


def seconds_of(status: str) -> int | None:
    """Return the seconds of a status; None: it is at rest."""
    own: int | None = settings.VOLUME_TIMEOUTS.get(str(status))
    return own or TIMEOUTS.get(status)


def deadline_of(status: str, now: datetime | None = None) -> datetime | None:
    """Return when a sign of life of a volume's task is due at the latest; None: it has no task."""
    seconds = seconds_of(status) if status in TASKS else None
    return (now or timezone.now()) + timedelta(seconds=seconds) if seconds else None


def connecting() -> timedelta:
    """Return how long a storage daemon may take to let a client in."""
    return timedelta(seconds=seconds_of(AttachStatus.ATTACHING) or 0)


def check() -> None:
    """Stop the start with a sentence when NOVELLA_VOLUME_TIMEOUTS names a status that has no deadline."""
    unknown = sorted(set(settings.VOLUME_TIMEOUTS) - {str(status) for status in TIMEOUTS})
    if unknown:
        raise ImproperlyConfigured(
            f"NOVELLA_VOLUME_TIMEOUTS names {', '.join(unknown)}, which has no deadline; these have:"
            f" {', '.join(sorted(str(status) for status in TIMEOUTS))}."
        )
