"""The timeline of a launch: steps of each attempt on one time axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from portal.dashboard.words import wording
from provisioning.compute.actions.registry import actions as registered
from provisioning.compute.actions.registry import words_of_tasks
from provisioning.compute.models import InstanceAction
from provisioning.compute.selectors import Step

GAP = 0.1
"""Duration in seconds of the shortest gap between steps that is drawn. Shorter gaps are transitions between steps."""
IN_WORKERS = {"schedule", "claim", "allocate_network", "block_device_mapping", "hand_off"}
"""Steps that workers of the portal execute; the host executes all later steps."""
NARROWEST = 0.7
"""Minimum width of a bar in percent of the axis, to keep it visible."""


GAP_RESULT = "Gap"


@dataclass(frozen=True, slots=True)
class Bar:
    """One step with its position on the axis, in percent."""

    step: Step
    left: float
    width: float

    @property
    def look(self) -> str:
        """The step's state as a CSS class; ``gap`` for idle time."""
        return "gap" if self.step.result == GAP_RESULT else self.step.state

    @property
    def note(self) -> str:
        """The note next to the duration: the error, or details for the owner."""
        return self.step.message or _fact(self.step.name, self.step.detail)

    @property
    def progress(self) -> wording.Progress | None:
        """The progress of a running step that counts bytes, such as writing an image to a volume."""
        return _progress(self.step)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One build attempt: its bars, and its duration so far (seconds)."""

    number: int
    bars: list[Bar]
    seconds: float
    running: bool
    failed: bool

    @property
    def done(self) -> bool:
        return not self.running and not self.failed


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An InstanceAction after the launch, as shown on the page."""

    label: str
    started: datetime
    seconds: float | None
    failed: bool
    message: str
    note: str = ""
    progress: wording.Progress | None = None
    ident: int = 0
    who: str = ""
    steps: Sequence[Step] = ()


def attempts(steps: Sequence[Step]) -> list[Attempt]:
    """Return the attempts with their bars; a waiting step has no bar yet."""
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
    steps = _with_gaps(steps)
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


def _with_gaps(steps: Sequence[Step]) -> list[Step]:
    """Insert gaps between steps, for the times in which nothing ran because no worker or host was free."""
    result: list[Step] = []
    last: datetime | None = None
    for step in steps:
        if last and step.started and (step.started - last).total_seconds() >= GAP:
            result.append(_gap(step, last, step.started))
        result.append(step)
        ends = [each for each in (last, step.finished) if each]
        last = max(ends) if ends else None
    return result


def _gap(step: Step, begin: datetime, end: datetime) -> Step:
    label = "Waiting for a worker" if step.name in IN_WORKERS else "Waiting for the host"
    seconds = (end - begin).total_seconds()
    return Step(f"wait_{step.name}", label, step.attempt, begin, end, seconds, result=GAP_RESULT)


def later_actions(
    actions: Sequence[InstanceAction],
    tunnels: Mapping[int, Mapping[str, str]] | None = None,
    running: Mapping[int, Step] | None = None,
    *,
    who: Mapping[int, str] | None = None,
    events: Mapping[int, Sequence[Step]] | None = None,
    launch: bool = False,
) -> list[ActionRow]:
    """Return the actions after the launch, newest first. Running and failed actions are not labelled as done.

    The keys of the mappings are numbers of actions: ``tunnels`` has the details of tunnels, ``running`` the running
    steps, ``who`` the person who began it, ``events`` all steps. ``launch``: include the launch.
    """
    steps = running or {}
    done = wording.ACTIONS | {action.record: action.done for action in registered.values() if action.done}
    names = {action.record: action.button.label for action in registered.values() if action.button} | {
        "create": "Launch",
        "live-migration": "Live migration",
    }
    return [
        ActionRow(
            label=(done if action.finished_at and not action.message else names).get(action.action)
            or action.action.replace("_", " ").capitalize(),
            started=action.started_at,
            seconds=(action.finished_at - action.started_at).total_seconds() if action.finished_at else None,
            failed=bool(action.message),
            message=action.message or "",
            note=_target_of((tunnels or {}).get(action.pk)) or _at_step(steps.get(action.pk)),
            progress=_progress(steps.get(action.pk)),
            ident=action.pk,
            who=(who or {}).get(action.pk, ""),
            steps=(events or {}).get(action.pk, ()),
        )
        for action in actions
        if launch or action.action != "create"
    ]


def _progress(step: Step | None) -> wording.Progress | None:
    """Return the progress of a running step that counts bytes."""
    done, total = ((step.detail if step else {}).get(name, "") for name in ("done", "total"))
    if step is None or step.state != "running" or not done.isdecimal() or not total.isdecimal():
        return None
    return wording.progress(int(done), int(total))


def _at_step(step: Step | None) -> str:
    """Return the label of an action's current step if the step is a task with a label, such as writing a volume."""
    return words_of_tasks.get(step.name, "") if step else ""


def _target_of(tunnel: Mapping[str, str] | None) -> str:
    """Describe the target of a tunnel."""
    if not tunnel:
        return ""
    count = tunnel.get("connections", "1")
    often = f", {count} connections" if count != "1" else ""
    return f"port {tunnel.get('port', '')} of {tunnel.get('address', '')}{often}"


def _fact(step: str, detail: Mapping[str, str]) -> str:
    """Describe the result of a step. Other details of the step are for operators; only the API shows them."""
    if step == "fetch_image" and detail.get("cached") == "true":
        return "cached"
    if step == "fetch_image" and detail.get("bytes", "").isdecimal():
        return f"{wording.size_in_bytes(int(detail['bytes']))} downloaded and verified"
    if step == "claim" and detail.get("tried", "1") != "1":
        return f"{detail['tried']} hosts tried: other servers claimed them first"
    return ""
