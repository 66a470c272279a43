"""Attempts of a build: the reason of each failure is recorded with its step, and reported after the last one."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from compute_agent.contract.steps import BUILD_STEPS
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state

MAPPING = "block_device_mapping"
STEPS = ("schedule", "claim", "allocate_network", MAPPING, "hand_off", *BUILD_STEPS)
"""The steps of an attempt in order of execution."""
MOST_OF_A_REASON = 200
"""Maximum number of characters of an earlier reason in the fault of the last attempt."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt; ``host`` is empty when none was found."""

    attempt: int
    host: str
    reason: str


def record(
    action: InstanceAction | None, failure: Failure, instance: Instance, finished: datetime | None = None
) -> None:
    """Record the failure of an attempt with the step that was running, and notify the project; idempotent. No effect
    without an action.

    If no step was running, the failed step is the one after the last finished step.
    """
    if action is None:
        return
    rows = {row.name: row for row in InstanceActionEvent.objects.filter(action=action, attempt=failure.attempt)}
    if any(row.result == instance_actions.ERROR for row in rows.values()):
        return
    steps = [step for step in STEPS if step != MAPPING or step in rows]  # only servers with volumes have this step
    name = next((step for step in steps if step not in rows or rows[step].finished_at is None), None)
    if name is None:
        return
    ended = finished or timezone.now()
    before = max((row.finished_at for row in rows.values() if row.finished_at), default=ended)
    begun = rows[name].started_at if name in rows else before
    step = instance_actions.Step(name, min(begun, ended), ended, failure.host, failure=failure.reason)
    state.record_steps(instance, action, step, attempt=failure.attempt)


def failures(action: InstanceAction | None) -> list[Failure]:
    """Return the failures of the previous attempts of a build, in order."""
    if action is None:
        return []
    rows = InstanceActionEvent.objects.filter(action=action, result=instance_actions.ERROR).order_by("attempt", "id")
    return list({row.attempt: Failure(row.attempt, row.host, row.message) for row in rows}.values())


def with_reasons(message: str, earlier: list[Failure]) -> str:
    """Return the fault's message for the owner, with the reasons of earlier attempts; it contains no host names."""
    reasons = Counter(failure.reason for failure in earlier if failure.reason not in message)
    if not reasons:
        return message
    before = "; ".join(
        reason[:MOST_OF_A_REASON].rstrip(". ") + (f" ({times} times)" if times > 1 else "")
        for reason, times in reasons.items()
    )
    return f"{message} Before that: {before}."


def listed(details: str, tries: list[Failure]) -> str:
    """Return the fault's details for operators: each attempt with its host."""
    lines = [f"attempt {each.attempt} on {each.host or 'no host'}: {each.reason}" for each in tries]
    return "\n".join([*([details] if details else []), *lines])
