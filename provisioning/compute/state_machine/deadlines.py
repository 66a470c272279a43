"""Deadlines of tasks, after which the reaper acts: each task_state has a setting with its timeout."""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from provisioning.compute.states import TaskState as T

SETTING_OF: dict[T, str] = {
    **dict.fromkeys((T.SCHEDULING, T.NETWORKING), "CAST_TIMEOUT"),
    **dict.fromkeys((T.BLOCK_DEVICE_MAPPING, T.SPAWNING, T.EVACUATING), "BUILD_TIMEOUT"),
}
"""task_state → name of the setting with its timeout in seconds, without ``NOVELLA_``. TASK_TIMEOUTS overrides it for
single tasks. Server actions add their tasks when they are registered.
"""


def seconds_of(task_state: str) -> int:
    """Return the timeout of a task in seconds; CAST_TIMEOUT is limited to BUILD_TIMEOUT."""
    own: int | None = settings.TASK_TIMEOUTS.get(str(T(task_state).value))
    if own is not None:
        return own
    name = SETTING_OF[T(task_state)]
    seconds: int = getattr(settings, name)
    return min(seconds, settings.BUILD_TIMEOUT) if name == "CAST_TIMEOUT" else seconds


def deadline_of(task_state: str | None, now: datetime) -> datetime | None:
    """Return the deadline of an instance that enters ``task_state`` now."""
    return None if task_state is None else now + timedelta(seconds=seconds_of(task_state))


def check() -> None:
    """Raise ImproperlyConfigured when NOVELLA_TASK_TIMEOUTS contains an unknown task."""
    unknown = sorted(set(settings.TASK_TIMEOUTS) - set(T.values))
    if unknown:
        raise ImproperlyConfigured(
            f"NOVELLA_TASK_TIMEOUTS names {', '.join(unknown)}, which is not a task_state; the task states are"
            f" {', '.join(T.values)}."
        )
