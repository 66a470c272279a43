"""Attempts to build a server, with their outcomes and the reasons of failures."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from provisioning.common.context import RequestContext
from provisioning.compute.models import InstanceAction, InstanceActionEvent, SchedulingDecision
from provisioning.compute.selectors.instances import instance_for
from provisioning.compute.states import TaskState
from provisioning.identity import policy

BUILDS = ("create", "unshelve", "evacuate")
"""Actions that build a server on a host."""
_ON_THE_LINE = {TaskState.SCHEDULING, TaskState.UNSHELVING, TaskState.EVACUATING}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to build a server on a host.

    ``attempt`` is the server's attempt number, as in scheduling decisions and steps; it may have gaps. ``number`` is
    the position in the list, from 1. ``outcome`` is ``built``, ``failed``, ``cancelled`` or ``under way``; ``step`` is
    the name of the failed step.
    """

    number: int
    attempt: int
    outcome: str
    reason: str = ""
    step: str = ""
    host: str = ""
    """Only for users who may see hosts."""
    started: datetime | None = None
    finished: datetime | None = None


def attempts_for(context: RequestContext, instance_id: str | uuid.UUID) -> list[Attempt]:
    """Return all attempts to build the server, oldest first, also of a deleted server. Raises NotFoundError."""
    instance = instance_for(context, instance_id, deleted=True)
    hosts: Mapping[int, str] = {}
    if policy.allows(context, "os_compute_api:os-extended-server-attributes"):
        hosts = dict(SchedulingDecision.objects.filter(instance=instance).values_list("attempt", "host_name"))
    rows = InstanceActionEvent.objects.select_related("action").filter(
        action__instance=instance, action__action__in=BUILDS
    )
    tries: list[Attempt] = []
    steps = [row for row in rows.order_by("attempt", "started_at", "id") if not row.name.startswith("api_")]
    groups = [(attempt, list(group)) for attempt, group in groupby(steps, key=lambda row: row.attempt)]
    for number, (attempt, group) in enumerate(groups, 1):
        later = number < len(groups) and groups[number][1][0].action_id == group[0].action_id
        tries.append(_attempt(number, group, hosts.get(attempt, ""), superseded=later or instance.attempt > attempt))
    if instance.task_state in _ON_THE_LINE and instance.attempt not in {each.attempt for each in tries}:
        tries.append(Attempt(len(tries) + 1, instance.attempt, "under way"))
    return tries


def _attempt(number: int, steps: list[InstanceActionEvent], host: str, *, superseded: bool) -> Attempt:
    failed = next((row for row in reversed(steps) if row.result == "Error"), None)
    action = steps[-1].action
    outcome, reason = _outcome(action, failed, superseded=superseded)
    ends = [row.finished_at for row in steps if row.finished_at is not None]
    return Attempt(
        number=number,
        attempt=steps[0].attempt,
        outcome=outcome,
        reason=reason,
        step=failed.name if failed is not None else "",
        host=host,
        started=min(row.started_at for row in steps),
        finished=max(ends) if ends and outcome != "under way" else None,
    )


def _outcome(action: InstanceAction, failed: InstanceActionEvent | None, *, superseded: bool) -> tuple[str, str]:
    """Return the outcome of an attempt, and the reason of its failure."""
    if failed is not None:
        return "failed", failed.message
    if action.finished_at is None:
        return ("failed", "") if superseded else ("under way", "")
    return ("cancelled", action.message) if action.message else ("built", "")
