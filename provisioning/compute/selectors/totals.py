"""Counting the history for the metrics: what was folded into totals, and what has ended since."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import QuerySet

from compute_agent.contract import steps
from provisioning.common.tally import Tally
from provisioning.compute.models import InstanceAction, InstanceActionEvent, Total

LAUNCH, STEP, ACTION = "launch", "step", "action"
SUCCESS, ERROR, DELETED = "success", "error", "deleted"
OTHER = "other"
"""The name of what hosts may call as they like: labels are few."""
STEPS = frozenset(
    {
        *("schedule", "claim", "allocate_network", "block_device_mapping", "hand_off", *steps.BUILD_STEPS),
        *(steps.STOP_GUEST, steps.COPY_DISK, steps.UPLOAD_IMAGE),
    }
)
GONE = "The server was deleted."
"""What an action ends with that was cut off by a delete (``release.finish_delete``)."""
TRIES = 5

Key = tuple[str, str, str]
"""Family, name and result."""


def steps_to_count() -> QuerySet[InstanceActionEvent]:
    """Return the steps that have ended and are in no total yet."""
    return InstanceActionEvent.objects.filter(counted=False, finished_at__isnull=False)


def actions_to_count() -> QuerySet[InstanceAction]:
    """Return the actions that have ended and are in no total yet."""
    return InstanceAction.objects.filter(counted=False, finished_at__isnull=False)


STEP_COLUMNS = ("id", "name", "result", "started_at", "finished_at")
ACTION_COLUMNS = ("id", "action", "message", "started_at", "finished_at")
Row = tuple[int, str, str | None, datetime, datetime]


def tally_steps(rows: Iterable[Row], into: dict[Key, Tally]) -> None:
    """Count steps, by name and result; those at an API and at a host's end belong to the actions."""
    for _, name, result, started, finished in rows:
        if name.startswith(("api_", "compute_")):
            continue
        key = (STEP, name if name in STEPS else OTHER, ERROR if result == "Error" else SUCCESS)
        _take(into, key, started, finished)


def tally_actions(rows: Iterable[Row], into: dict[Key, Tally]) -> None:
    """Count actions by name and result; a launch beside that by its outcome."""
    for _, name, message, started, finished in rows:
        outcome = SUCCESS if message is None else DELETED if message == GONE else ERROR
        _take(into, (ACTION, name, outcome), started, finished)
        if name == "create":
            _take(into, (LAUNCH, "", outcome), started, finished)


def totals() -> dict[Key, Tally]:
    """Return everything that was counted so far, by family, name and result.

    What is folded away while this is read is counted once: it is read again then.
    """
    before = _folded()
    for _ in range(TRIES):
        found = {key: _copy(tally) for key, tally in before.items()}
        tally_steps(steps_to_count().values_list(*STEP_COLUMNS).iterator(), found)
        tally_actions(actions_to_count().values_list(*ACTION_COLUMNS).iterator(), found)
        after = _folded()
        if {key: tally.count for key, tally in after.items()} == {key: tally.count for key, tally in before.items()}:
            break
        before = after
    return found


def _folded() -> dict[Key, Tally]:
    rows = Total.objects.values_list("family", "name", "result", "count", "seconds", "buckets")
    return {
        (family, name, result): Tally(count, seconds, list(buckets))
        for family, name, result, count, seconds, buckets in rows
    }


def _copy(tally: Tally) -> Tally:
    return Tally(tally.count, tally.seconds, list(tally.buckets))


def _take(into: dict[Key, Tally], key: Key, started: datetime, finished: datetime) -> None:
    into.setdefault(key, Tally()).take(max((finished - started).total_seconds(), 0.0))
