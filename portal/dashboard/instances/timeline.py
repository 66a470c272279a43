"""The launch drawn: steps of each attempt on one axis of time, and the scheduler's decision as a funnel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from portal.dashboard import wording
from provisioning.compute.models import InstanceAction, SchedulingDecision
from provisioning.compute.selectors import Step

NARROWEST = 0.7
"""Percent of the axis that the shortest bar takes: it must be seen."""
ROOM = {"vcpus", "ram", "disk"}
"""The filters that look for room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step with its place on the axis, in percent."""

    step: Step
    left: float
    width: float

    @property
    def note(self) -> str:
        """What there is to say beside the duration: why it failed, or what an owner would want to know of it."""
        return self.step.message or _fact(self.step.name, self.step.detail)


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
    newest = max((step.attempt for step in steps), default=0)
    return [
        _attempt(number, list(group), given_up=number < newest)
        for number, group in groupby(steps, key=lambda step: step.attempt)
    ]


def _attempt(number: int, steps: list[Step], *, given_up: bool) -> Attempt:
    begun = [step for step in steps if step.started]
    now = timezone.now()
    if not begun:
        return Attempt(number, [Bar(step, 0, 0) for step in steps], 0, running=True, failed=False)
    first = min(step.started for step in begun if step.started)
    running = not given_up and any(step.state in ("running", "waiting") for step in steps)
    last = now if running else max(step.finished for step in begun if step.finished)
    span = max((last - first).total_seconds(), 0.001)

    def bar(step: Step) -> Bar:
        if step.started is None:
            return Bar(step, 0, 0)
        left = 100 * (step.started - first).total_seconds() / span
        width = 100 * ((step.finished or last) - step.started).total_seconds() / span
        left = min(max(left, 0), 100 - NARROWEST)
        return Bar(step, round(left, 2), round(min(max(width, NARROWEST), 100 - left), 2))

    failed = given_up or any(step.state == "failed" for step in steps)
    return Attempt(number, [bar(step) for step in steps], span, running=running, failed=failed)


def funnel(decision: SchedulingDecision | None) -> list[Stop]:
    """Word the scheduler's decision: how many hosts there were, how many each filter left, and that one was chosen.

    Of the filters that took nobody away, the first stands for all that is checked before room, and one stop for room.
    """
    if decision is None:
        return []
    filters = decision.filters
    first = filters[0]["before"] if filters else 0
    stops = [Stop(first, "host" if first == 1 else "hosts", "" if first else "none")]
    for result in filters:
        if result is filters[0] or result["after"] < result["before"]:
            words = wording.FILTERS.get(result["name"], result["name"].replace("_", " "))
            stops.append(Stop(result["after"], words, "" if result["after"] else "none", result.get("reason", "")))
    if not stops[-1].count:
        return stops
    if not any(result["after"] < result["before"] for result in filters if result["name"] in ROOM):
        stops.append(Stop(filters[-1]["after"] if filters else 0, "with room for it"))
    return [*stops, Stop(1, "chosen", "chosen")]


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


def _fact(step: str, detail: Mapping[str, str]) -> str:
    """Word what a step reported; most of it is for operators and stays in the API."""
    if step == "fetch_image" and detail.get("cached") == "true":
        return "was on the host already"
    if step == "fetch_image" and detail.get("bytes", "").isdecimal():
        return f"{wording.size_in_bytes(int(detail['bytes']))} fetched and checked"
    if step == "claim" and detail.get("tried", "1") != "1":
        return f"{detail['tried']} hosts tried: others were quicker"
    return ""
