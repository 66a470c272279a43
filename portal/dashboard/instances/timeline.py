"""The launch drawn: steps of each attempt on one axis of time, and the scheduler's decision as a funnel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from portal.dashboard import wording
from provisioning.compute.models import InstanceAction, SchedulingDecision
from provisioning.compute.selectors import Step

NARROWEST = 0.7
"""Percent of the axis that the shortest bar takes: it must be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step with its place on the axis, in percent."""

    step: Step
    left: float
    width: float

    @property
    def note(self) -> str:
        """What there is to say beside the duration."""
        if self.step.message:
            return self.step.message
        return ", ".join(_fact(name, value) for name, value in self.step.detail.items())


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at building: its bars, and how long it took or has taken (seconds)."""

    number: int
    bars: list[Bar]
    seconds: float
    running: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """One station of the funnel."""

    count: int
    words: str
    tone: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that was asked of the instance after its launch."""

    label: str
    started: datetime
    seconds: float | None
    failed: bool
    message: str


def attempts(steps: Sequence[Step]) -> list[Attempt]:
    """Draw the steps, attempt by attempt; one that only waits has no bar yet."""
    return [_attempt(number, list(group)) for number, group in groupby(steps, key=lambda step: step.attempt)]


def _attempt(number: int, steps: list[Step]) -> Attempt:
    begun = [step for step in steps if step.started]
    now = timezone.now()
    if not begun:
        return Attempt(number, [Bar(step, 0, 0) for step in steps], 0, running=True, failed=False)
    first = min(step.started for step in begun if step.started)
    running = any(step.state in ("running", "waiting") for step in steps)
    last = now if running else max(step.finished for step in begun if step.finished)
    span = max((last - first).total_seconds(), 0.001)

    def bar(step: Step) -> Bar:
        if step.started is None:
            return Bar(step, 0, 0)
        left = 100 * (step.started - first).total_seconds() / span
        width = 100 * ((step.finished or last) - step.started).total_seconds() / span
        left = min(max(left, 0), 100 - NARROWEST)
        return Bar(step, round(left, 2), round(min(max(width, NARROWEST), 100 - left), 2))

    failed = any(step.state == "failed" for step in steps)
    return Attempt(number, [bar(step) for step in steps], span, running=running, failed=failed)


def funnel(decision: SchedulingDecision | None) -> list[Stop]:
    """Word the scheduler's decision: how many hosts there were, how many each filter left, and that one was chosen."""
    if decision is None:
        return []
    filters = decision.filters
    first = filters[0]["before"] if filters else 0
    stops = [Stop(first, "host" if first == 1 else "hosts", "" if first else "none")]
    for result in filters:
        if result["before"] == result["after"] and result["after"] and result is not filters[-1]:
            continue
        words = wording.FILTERS.get(result["name"], result["name"].replace("_", " "))
        stops.append(Stop(result["after"], words, "" if result["after"] else "none", result.get("reason", "")))
    if stops[-1].count:
        stops.append(Stop(1, "chosen", "chosen"))
    return stops


def deeds(actions: Sequence[InstanceAction]) -> list[Deed]:
    """Return what happened after the launch, newest first."""
    return [
        Deed(
            label=wording.ACTIONS.get(action.action, action.action.replace("_", " ").capitalize()),
            started=action.started_at,
            seconds=(action.finished_at - action.started_at).total_seconds() if action.finished_at else None,
            failed=bool(action.message),
            message=action.message or "",
        )
        for action in actions
        if action.action != "create"
    ]


def _fact(name: str, value: str) -> str:
    if value == "true":
        return name.replace("_", " ")
    if value == "false":
        return f"not {name.replace('_', ' ')}"
    return f"{name.replace('_', ' ')} {value}"
