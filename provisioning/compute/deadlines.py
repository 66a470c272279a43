"""How long each task may take before the reaper looks after it: every task_state has a deadline and a setting."""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from provisioning.compute.states import TaskState as T

SETTING_OF: dict[T, str] = {
    **dict.fromkeys((T.SCHEDULING, T.NETWORKING), "CAST_TIMEOUT"),
    **dict.fromkeys((T.BLOCK_DEVICE_MAPPING, T.SPAWNING), "BUILD_TIMEOUT"),
}
"""task_state → the setting that says its seconds, without its ``NOVELLA_``; TASK_TIMEOUTS overrides it for one task.
Each server action adds its tasks when it is registered.
"""


def seconds_of(task_state: str) -> int:
    """Return how many seconds a task may last; jobs of the queue no longer than a build."""
    own: int | None = settings.TASK_TIMEOUTS.get(str(T(task_state).value))
    if own is not None:
        return own
    name = SETTING_OF[T(task_state)]
    seconds: int = getattr(settings, name)
    return min(seconds, settings.BUILD_TIMEOUT) if name == "CAST_TIMEOUT" else seconds


def deadline_of(task_state: str | None, now: datetime) -> datetime | None:
    """Return when the reaper looks after an instance that entered ``task_state`` now."""
    return None if task_state is None else now + timedelta(seconds=seconds_of(task_state))


def check() -> None:
    """Stop the start with a sentence when NOVELLA_TASK_TIMEOUTS names a task that there is not."""
    unknown = sorted(set(settings.TASK_TIMEOUTS) - set(T.values))
    if unknown:
        raise ImproperlyConfigured(
            f"NOVELLA_TASK_TIMEOUTS names {', '.join(unknown)}, which is no task_state; there are"
            f" {', '.join(T.values)}."
        )
