"""Usual durations of a launch: of other launches of the same image and flavor in the project."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent

FEWEST = 5
"""Launches that are needed for a comparison."""
READ = 100
"""Newest servers with the same image that are read."""


@dataclass(frozen=True, slots=True)
class Range:
    """The median and the 95th percentile of durations, in seconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Usual:
    """Durations of ``launches`` other launches: of all, and of each step by its name."""

    launches: int
    whole: Range
    steps: Mapping[str, Range]


def usual_of(instance: Instance) -> Usual | None:
    """Return the usual durations for the server's image and flavor; None without an image or with fewer than FEWEST
    launches.

    Only launches at the first attempt count. Three queries.
    """
    if instance.image_id is None:
        return None
    same = Instance.objects.filter(project_id=instance.project_id, image_id=instance.image_id).exclude(id=instance.id)
    rows = same.order_by("-created_at").values_list("id", "flavor")[:READ]
    ids = [key for key, flavor in rows if flavor["flavorid"] == instance.flavor["flavorid"]]
    if len(ids) < FEWEST:
        return None
    done = {"action": "create", "finished_at__isnull": False, "message__isnull": True}
    launches = InstanceAction.objects.filter(instance_id__in=ids, **done)
    took = {key: _seconds(begin, end) for key, begin, end in launches.values_list("id", "started_at", "finished_at")}
    events = InstanceActionEvent.objects.filter(action_id__in=took, finished_at__isnull=False)
    durations = list(events.values_list("action_id", "attempt", "name", "started_at", "finished_at"))
    retried = {key for key, attempt, *_ in durations if attempt > 1}
    steps: dict[str, list[float]] = {}
    for key, _, name, begin, end in durations:
        if key not in retried:
            steps.setdefault(name, []).append(_seconds(begin, end))
    whole = [seconds for key, seconds in took.items() if key not in retried]
    if len(whole) < FEWEST:
        return None
    ranges = {name: _range(seconds) for name, seconds in steps.items() if len(seconds) >= FEWEST}
    return Usual(len(whole), _range(whole), ranges)


def _seconds(begin: datetime, end: datetime | None) -> float:
    return (end - begin).total_seconds() if end else 0


def _range(seconds: Sequence[float]) -> Range:
    """Return both percentiles by the nearest rank."""
    ordered = sorted(seconds)
    return Range(*(ordered[math.ceil(len(ordered) * part) - 1] for part in (0.5, 0.95)))
