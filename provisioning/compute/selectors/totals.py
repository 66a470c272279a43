"""Counts of finished actions and steps for the metrics: the stored totals, and the rows not yet added to them."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import QuerySet

from compute_agent.contract import steps
from provisioning.common.values.tally import Tally
from provisioning.compute.models import InstanceAction, InstanceActionEvent, Total

LAUNCH, STEP, ACTION = "launch", "step", "action"
SUCCESS, ERROR, DELETED = "success", "error", "deleted"
OTHER = "other"
"""Replaces names that hosts choose freely, to limit the number of labels."""
STEPS = frozenset(
    {
        *("schedule", "claim", "allocate_network", "block_device_mapping", "hand_off", *steps.BUILD_STEPS),
        *(steps.STOP_GUEST, steps.COPY_DISK, steps.UPLOAD_IMAGE, steps.UPLOAD_FIRMWARE),
    }
)
GONE = "The server was deleted."
"""Message of an action that was interrupted by a delete (``release.finish_delete``)."""
TRIES = 5

Key = tuple[str, str, str]
"""Family, name and result."""


def steps_to_count() -> QuerySet[InstanceActionEvent]:
    """Return the finished steps that are not in a total yet."""
    return InstanceActionEvent.objects.filter(counted=False, finished_at__isnull=False)


def actions_to_count() -> QuerySet[InstanceAction]:
    """Return the finished actions that are not in a total yet."""
    return InstanceAction.objects.filter(counted=False, finished_at__isnull=False)


STEP_COLUMNS = ("id", "name", "result", "started_at", "finished_at")
ACTION_COLUMNS = ("id", "action", "message", "started_at", "finished_at")
Row = tuple[int, str, str | None, datetime, datetime]


def tally_steps(rows: Iterable[Row], into: dict[Key, Tally]) -> None:
    """Count steps by name and result, without steps of APIs and of whole commands, which duplicate actions."""
    for _, name, result, started, finished in rows:
        if name.startswith(("api_", "compute_")):
            continue
        key = (STEP, name if name in STEPS else OTHER, ERROR if result == "Error" else SUCCESS)
        _add(into, key, started, finished)


def tally_actions(rows: Iterable[Row], into: dict[Key, Tally]) -> None:
    """Count actions by name and result; launches also by outcome."""
    for _, name, message, started, finished in rows:
        outcome = SUCCESS if message is None else DELETED if message == GONE else ERROR
        _add(into, (ACTION, name, outcome), started, finished)
        if name == "create":
            _add(into, (LAUNCH, "", outcome), started, finished)


def totals() -> dict[Key, Tally]:
    """Return all counts by family, name and result.

    Reads again if rows were added to the totals concurrently, so that each is counted once.
    """
    before = _folded()
    for _ in range(TRIES):
        result = {key: _copy(tally) for key, tally in before.items()}
        tally_steps(steps_to_count().values_list(*STEP_COLUMNS).iterator(), result)
        tally_actions(actions_to_count().values_list(*ACTION_COLUMNS).iterator(), result)
        after = _folded()
        if {key: tally.count for key, tally in after.items()} == {key: tally.count for key, tally in before.items()}:
            break
        before = after
    return result


def _folded() -> dict[Key, Tally]:
    rows = Total.objects.values_list("family", "name", "result", "count", "seconds", "buckets")
    return {
        (family, name, result): Tally(count, seconds, list(buckets))
        for family, name, result, count, seconds, buckets in rows
    }


def _copy(tally: Tally) -> Tally:
    return Tally(tally.count, tally.seconds, list(tally.buckets))


def _add(into: dict[Key, Tally], key: Key, started: datetime, finished: datetime) -> None:
    into.setdefault(key, Tally()).record(max((finished - started).total_seconds(), 0.0))
