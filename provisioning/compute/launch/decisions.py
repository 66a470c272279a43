"""Ranking of the hosts for a request, and the records of scheduling decisions."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from time import perf_counter
from typing import Any

from django.conf import settings
from django.utils import timezone

from provisioning.common.database.prepared import PreparedInsert
from provisioning.compute.models import Instance, SchedulingDecision
from provisioning.compute.selectors.host_rows import host_states, hosts_for
from provisioning.scheduler import Decision, HostState, Options, Ranked, RequestSpec, decide, facts_needed, options_of

NO_VALID_HOST = "No valid host was found. "
ALL_TAKEN = "All suitable hosts were claimed by other servers concurrently."
SHOWN = 10
"""Number of best hosts that are recorded with their weights."""
_RECORD = PreparedInsert(
    SchedulingDecision,
    unique=("instance", "attempt", "action"),
    update=("host_name", "driver", "filters", "weights", "asked", "losses", "seconds", "read_seconds", "created_at"),
)


@dataclass(frozen=True, slots=True)
class SchedulingAttempt:
    """One ranking of the hosts: the request, the hosts, the decision, and times.

    ``failed_before``: only hosts remained on which the request has failed, so they were ranked again.
    """

    spec: RequestSpec
    hosts: Sequence[HostState]
    decision: Decision
    started: datetime
    ended: datetime
    read_seconds: float
    decide_seconds: float
    failed_before: bool = False


def options_now() -> Options:
    """Return the scheduler options of this cloud."""
    return options_of(settings)


def rank_hosts(spec: RequestSpec, without: Collection[str] = ()) -> SchedulingAttempt:
    """Read the hosts, except those with the names ``without``, and rank them for the request; writes nothing."""
    options = options_now()
    return _rank(spec, options, lambda: [host for host in hosts_for(spec, options) if host.name not in without])


def rank_for_build(spec: RequestSpec) -> SchedulingAttempt:
    """Rank the hosts for a build; hosts on which it has failed are ranked only if no other host remains."""
    attempt = rank_hosts(spec)
    if attempt.decision.ranked or not spec.excluded_hosts:
        return attempt
    again = replace(spec, excluded_hosts=frozenset())
    decision = decide(attempt.hosts, again, options_now())
    return replace(attempt, spec=again, decision=decision, failed_before=True) if decision.ranked else attempt


def rank_one_host(
    host_id: uuid.UUID, spec: RequestSpec, seen_as: Callable[[HostState], HostState]
) -> SchedulingAttempt:
    """Rank one host only, with its state changed by ``seen_as``, and without counting the builds on it."""
    options = options_now()
    facts = facts_needed(spec, options) - {"io_ops"}

    def read() -> list[HostState]:
        return [seen_as(host) for host in host_states(facts, image_id=spec.image_id, only=host_id)]

    return _rank(spec, options, read)


def rank_on_host(
    host_id: uuid.UUID, requests: Sequence[tuple[RequestSpec, Callable[[HostState], HostState]]]
) -> list[Decision]:
    """Rank one host for several requests with one image, as ``rank_one_host`` does for one request. Reads the host
    once.
    """
    options = options_now()
    facts = frozenset().union(*(facts_needed(spec, options) for spec, _ in requests)) - {"io_ops"}
    hosts = host_states(facts, image_id=requests[0][0].image_id, only=host_id) if requests else []
    return [decide([seen_as(host) for host in hosts], spec, options) for spec, seen_as in requests]


def _rank(spec: RequestSpec, options: Options, read_hosts: Callable[[], Sequence[HostState]]) -> SchedulingAttempt:
    started, before = timezone.now(), perf_counter()
    hosts = read_hosts()
    read = perf_counter()
    decision = decide(hosts, spec, options)
    return SchedulingAttempt(spec, hosts, decision, started, timezone.now(), read - before, perf_counter() - read)


def record_decision(
    instance: Instance,
    action: str,
    attempt: SchedulingAttempt,
    chosen: HostState | None,
    *,
    flavor: Mapping[str, Any] | None = None,
) -> None:
    """Record the decision for this attempt of an action, inside the caller's transaction; an earlier one is replaced.

    ``chosen``: the claimed host, or None. ``flavor``: the requested flavor if it is not the instance's current one.
    """
    row = SchedulingDecision(
        instance=instance,
        action=action,
        attempt=instance.attempt,
        host_name=chosen.name if chosen else "",
        driver=attempt.decision.driver,
        filters=[_rounded(asdict(result)) for result in attempt.decision.filters],
        weights=[_weight(ranked) for ranked in attempt.decision.ranked[:SHOWN]],
        asked=_requested(instance, attempt, flavor),
        losses={name: list(hosts) for name, hosts in attempt.decision.losses.items()},
        seconds=attempt.read_seconds + attempt.decide_seconds,
        read_seconds=attempt.read_seconds,
    )
    _RECORD([row])


def _rounded(result: dict[str, Any]) -> dict[str, Any]:
    return result | {"seconds": round(result["seconds"], 6)}


def _weight(ranked: Ranked) -> dict[str, Any]:
    parts = {name: round(part, 4) for name, part in ranked.parts.items()}
    return {"host": ranked.host.name, "weight": round(ranked.weight, 4), "parts": parts}


def _requested(instance: Instance, attempt: SchedulingAttempt, flavor: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the requested properties for the owner, without host names and empty values."""
    spec = attempt.spec
    request = {
        "flavor": (instance.flavor if flavor is None else flavor).get("name", ""),
        "availability_zone": spec.availability_zone,
        "architecture": spec.architecture,
        "hypervisor_type": spec.hypervisor_type,
        "hypervisor_versions": spec.hypervisor_versions,
        "needs": [need.asked for need in spec.host_needs],
        "group_policy": spec.group.policy if spec.group else "",
        "hints": sorted(instance.scheduler_hints),
        "tried_before": len(instance.excluded_hosts if attempt.failed_before else spec.excluded_hosts),
        "failed_before": attempt.failed_before,
    }
    room = {"vcpus": spec.vcpus, "memory_mb": spec.memory_mb, "disk_gb": spec.disk_gb}
    return room | {name: value for name, value in request.items() if value}
