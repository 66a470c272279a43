"""The maximum time between two reports of a host about a task of a volume."""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from provisioning.volumes.states import AttachStatus, VolumeStatus

MINUTE = 60
TIMEOUTS: dict[str, int] = {AttachStatus.ATTACHING: 3 * MINUTE, VolumeStatus.BACKING_UP: 60 * MINUTE}
"""Status of a volume → its timeout in seconds, unless NOVELLA_VOLUME_TIMEOUTS overrides it.

Each class of tasks adds its own statuses. ``attaching``: the time for a storage daemon to export the volume to a
client after the daemon's host has started the command. ``backing-up``: the timeout of a backup.
"""


def of_tasks() -> frozenset[str]:
    """Return the statuses of volumes during which a host works on them."""
    return frozenset(TIMEOUTS) - {AttachStatus.ATTACHING}


def seconds_of(status: str) -> int | None:
    """Return the timeout of a volume's status in seconds; None if the volume has no task in this status."""
    own: int | None = settings.VOLUME_TIMEOUTS.get(str(status))
    return own or TIMEOUTS.get(status)


def deadline_of(status: str, now: datetime | None = None) -> datetime | None:
    """Return the time by which a host must report about a volume's task again; None for a status without a task."""
    seconds = seconds_of(status) if status != AttachStatus.ATTACHING else None
    return (now or timezone.now()) + timedelta(seconds=seconds) if seconds else None


def connecting() -> timedelta:
    """Return the maximum time for a storage daemon to export the volume to a client."""
    return timedelta(seconds=seconds_of(AttachStatus.ATTACHING) or 0)


def check() -> None:
    """Raise ImproperlyConfigured at the start if NOVELLA_VOLUME_TIMEOUTS contains a status without a deadline."""
    unknown = sorted(set(settings.VOLUME_TIMEOUTS) - {str(status) for status in TIMEOUTS})
    if unknown:
        raise ImproperlyConfigured(
            f"NOVELLA_VOLUME_TIMEOUTS names {', '.join(unknown)}, which has no deadline; these have:"
            f" {', '.join(sorted(str(status) for status in TIMEOUTS))}."
        )
