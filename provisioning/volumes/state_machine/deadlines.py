"""The maximum time between two reports of a host about a task of a volume, snapshot, attachment or backup."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.utils import timezone

from provisioning.common.tasks import TASKS, Timeout
from provisioning.volumes.states import AttachStatus

MINUTE = 60
SETTING = "VOLUME_TIMEOUTS"


def by_status(seconds: Mapping[str, int]) -> dict[str, Timeout]:
    """Return status → timeout for a class of tasks, from status → default in seconds. The status is also the name in
    NOVELLA_VOLUME_TIMEOUTS.
    """
    return {status: Timeout(SETTING, str(status), default) for status, default in seconds.items()}


def seconds_of(name: str) -> int | None:
    """Return the timeout with this name in NOVELLA_VOLUME_TIMEOUTS, in seconds; None: no task has it."""
    timeout = TASKS.timeouts(SETTING).get(str(name))
    return timeout.seconds if timeout is not None else None


def deadline_of(name: str, now: datetime | None = None) -> datetime | None:
    """Return the time by which a host must report about a volume's task again; None for a status without a task.

    A volume that is ``attaching`` has no deadline, because its attachments have deadlines.
    """
    seconds = seconds_of(name) if name != AttachStatus.ATTACHING else None
    return (now or timezone.now()) + timedelta(seconds=seconds) if seconds else None


def connecting() -> timedelta:
    """Return the maximum time for a storage daemon to export the volume to a client."""
    return timedelta(seconds=seconds_of(AttachStatus.ATTACHING) or 0)
