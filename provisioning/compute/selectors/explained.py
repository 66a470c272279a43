"""Attempts to build a server, and recorded scheduling decisions, prepared for display: the results of the filters, the
request and the ranking."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, SchedulingDecision
from provisioning.compute.selectors.instances import instance_for
from provisioning.compute.states import TaskState
from provisioning.identity import policy
from provisioning.scheduler import Decision, FilterResult, HostState, Ranked, funnel
from provisioning.scheduler.explain import why

SEEING_HOSTS = "os_compute_api:os-extended-server-attributes"
ALL_TAKEN = "The remaining hosts were claimed by other servers concurrently."
GAVE_UP = "The host did not finish in time, and the server was rescheduled."
AGAIN = "Only hosts that had failed the request were suitable, so they were used again."
LABELS: Mapping[str, str] = {
    "ComputeFilter": "enabled and up",
    "RequestedHostFilter": "requested host",
    "IgnoredHostsFilter": "excluded hosts",
    "RequireZoneFilter": "zone",
    "AvailabilityZoneFilter": "zone",
    "ImagePropertiesFilter": "image",
    "HostNeedsFilter": "hardware",
    "ComputeCapabilitiesFilter": "capabilities",
    "CpuFeaturesFilter": "CPU features",
    "JsonFilter": "query",
    "AggregateInstanceExtraSpecsFilter": "aggregates",
    "RetryFilter": "failed before",
    "SameHostFilter": "same host",
    "DifferentHostFilter": "different host",
    "ServerGroupAffinityFilter": "server group",
    "ServerGroupAntiAffinityFilter": "server group",
    "NumInstancesFilter": "number of servers",
    "IoOpsFilter": "servers being built",
    "CoreFilter": "vCPUs",
    "RamFilter": "memory",
    "DiskFilter": "disk",
}
"""Filter → label of its check; custom filters are shown by their names."""
_NAMELESS = HostState(
    NOBODY,
    "",
    "",
    enabled=True,
    alive=True,
    vcpus_total=0,
    vcpus_limit=0,
    memory_mb_limit=0,
    disk_gb_limit=0,
    vcpus_allocated=0,
    memory_mb_allocated=0,
    disk_gb_allocated=0,
)
"""Replaces the chosen host where its name must not be shown."""

BUILDS = ("create", "unshelve", "evacuate")
"""Actions that build a server on a host."""
_ON_THE_LINE = {TaskState.SCHEDULING, TaskState.UNSHELVING, TaskState.EVACUATING}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a filter; for operators also the first hosts that it rejected."""

    result: FilterResult
    lost: tuple[str, ...] = ()

    @property
    def took(self) -> int:
        """Number of hosts that the filter rejected."""
        return self.result.before - self.result.after

    @property
    def more(self) -> int:
        """Number of rejected hosts that are not in ``lost``."""
        return self.took - len(self.lost)

    @property
    def label(self) -> str:
        """Label of the check."""
        return LABELS.get(self.result.name) or re.sub(r"[^\w.]|_", " ", self.result.name)

    @property
    def why(self) -> str:
        """Why the filter rejected hosts."""
        return why(self.result) if self.took else ""


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of a host, and the part of each weigher."""

    host: str
    weight: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision, reduced to the data that the caller may see."""

    attempt: int
    action: str
    """Action of the decision: ``create``, ``unshelve``, ``resize`` …"""
    driver: str
    created_at: datetime
    seconds: float
    read_seconds: float
    """Part of ``seconds`` for reading the hosts."""
    asked: Mapping[str, Any]
    checks: tuple[Check, ...]
    found: bool
    sentence: str
    """Summary of the decision in one line."""
    failure: str = ""
    """Why the attempt failed after a host had been chosen; empty when it did not."""
    host: str = ""
    weights: tuple[Weight, ...] = ()

    @property
    def hosts(self) -> int:
        """Number of hosts before filtering."""
        return self.checks[0].result.before if self.checks else 0

    @property
    def suitable(self) -> int:
        """Number of hosts that passed all filters."""
        return self.checks[-1].result.after if self.checks else 0

    @property
    def took(self) -> tuple[Check, ...]:
        """The filters that rejected hosts."""
        return tuple(check for check in self.checks if check.took)

    @property
    def took_none(self) -> tuple[str, ...]:
        """Labels of the filters that rejected no host."""
        return tuple(dict.fromkeys(check.label for check in self.checks if not check.took))

    @property
    def stopper(self) -> Check | None:
        """The filter that left no host."""
        last = self.checks[-1] if self.checks else None
        return last if last is not None and not last.result.after else None

    @property
    def drawn(self) -> bool:
        """Whether the host was chosen at random among hosts of equal weight."""
        return len(self.weights) > 1 and len({weight.weight for weight in self.weights}) == 1

    @property
    def tone(self) -> str:
        """``bad`` without a host, ``warn`` when the chosen host failed, otherwise ``ok``."""
        return "bad" if not self.found else "warn" if self.failure else "ok"


def checks_of(filters: Iterable[FilterResult], losses: Mapping[str, Sequence[str]] | None = None) -> tuple[Check, ...]:
    """Return the filters of a decision, with the rejected hosts if given."""
    return tuple(Check(result, tuple((losses or {}).get(result.name, ()))) for result in filters)


def decisions_for(context: RequestContext, instance_id: str | uuid.UUID) -> list[Explained]:
    """Return the scheduling decisions of a server, deleted or not, newest first.

    Raises NotFoundError.
    """
    instance = instance_for(context, instance_id, deleted=True)
    rows = list(SchedulingDecision.objects.filter(instance=instance).order_by("-created_at", "-id"))
    failures = _failures(context, instance) if rows else {}
    seeing = policy.allows(context, SEEING_HOSTS)
    return [
        explained(row, failures.get(row.attempt, "") if row.action in BUILDS else "", seeing=seeing) for row in rows
    ]


def explained(row: SchedulingDecision, failure: str = "", *, seeing: bool) -> Explained:
    """Return one decision for its page. ``seeing``: the caller may see the names of hosts."""
    return Explained(
        attempt=row.attempt,
        action=row.action,
        driver=row.driver,
        created_at=row.created_at,
        seconds=row.seconds,
        read_seconds=row.read_seconds,
        asked=row.asked,
        checks=checks_of(_results(row), row.losses if seeing else None),
        found=bool(row.host_name),
        sentence=_sentence(row),
        failure=failure if seeing else _nameless(failure, row),
        host=row.host_name if seeing else "",
        weights=tuple(_weight(item) for item in row.weights) if seeing else (),
    )


def _results(row: SchedulingDecision) -> tuple[FilterResult, ...]:
    return tuple(FilterResult(**stored) for stored in row.filters)


def _sentence(row: SchedulingDecision) -> str:
    filters = _results(row)
    hosts, suitable = (filters[0].before, filters[-1].after) if filters else (0, 0)
    ranked = (Ranked(_NAMELESS, 0),) if row.host_name or row.weights else ()
    sentence = funnel(Decision(ranked, filters, row.driver, hosts, suitable))
    if row.asked.get("failed_before"):
        sentence = f"{AGAIN} {sentence}"
    return sentence if row.host_name or not ranked else f"{sentence} {ALL_TAKEN}"


def _weight(item: Mapping[str, Any]) -> Weight:
    return Weight(str(item["host"]), float(item["weight"]), dict(item.get("parts") or {}))


def _nameless(text: str, row: SchedulingDecision) -> str:
    """Replace the name of the decision's host in the decision's error message."""
    if not row.host_name:
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(row.host_name)}(?![\w-])", "the host", text)


def _failures(context: RequestContext, instance: Instance) -> dict[int, str]:
    """Return attempt → reason, for attempts that failed after a host was chosen."""
    tries = attempts_for(context, instance.id)
    return {
        each.attempt: each.reason or GAVE_UP for each in tries if each.outcome == "failed" and each.step != "schedule"
    }


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
