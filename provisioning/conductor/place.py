"""Schedule and claim: from a request to room on one host, with a record of how it was found."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from provisioning.compute.extra_specs import aggregate_specs
from provisioning.compute.models import Allocation, Instance, InstanceAction, SchedulingDecision
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.selectors.server_groups import group_of, hosts_of_servers
from provisioning.compute.services import actions, state
from provisioning.compute.services.actions import Span
from provisioning.compute.services.claim import hold, take_first
from provisioning.compute.sizes import room_of
from provisioning.conductor.notifications import notification
from provisioning.conductor.undo import fail
from provisioning.scheduler import Decision, HostState, Ranked, RequestSpec, explain, rank

ROUNDS = 8
"""How often the hosts are looked at anew because all that were ranked had been taken in the meantime."""
NO_VALID_HOST = "No valid host was found. "


@dataclass(frozen=True, slots=True)
class Found:
    """One look at the hosts, and when it began."""

    decision: Decision
    span: Span
    seconds: float


def spec_of(
    instance: Instance, *, flavor: Mapping[str, Any] | None = None, excluded: Iterable[uuid.UUID] = ()
) -> RequestSpec:
    """Return what the scheduler must know of a server that needs a place, as it is at this moment.

    ``flavor`` is the size it is to have when that is another than its own; ``excluded`` are hosts that will not do,
    beside those that have failed it.
    """
    wanted = instance.flavor if flavor is None else flavor
    room, hints, group = room_of(wanted), instance.scheduler_hints, group_of(instance)
    properties = instance.image_properties
    specs = wanted.get("extra_specs", {})
    return RequestSpec(
        vcpus=room.vcpus,
        memory_mb=room.memory_mb,
        disk_gb=room.disk_gb,
        availability_zone=instance.availability_zone,
        excluded_hosts=frozenset(uuid.UUID(text) for text in instance.excluded_hosts).union(excluded),
        requested_host=instance.requested_host,
        same_hosts=_hosts_of(instance, hints["same_host"]) if "same_host" in hints else None,
        different_hosts=_hosts_of(instance, hints.get("different_host")),
        group=group,
        architecture=str(properties.get("hw_architecture") or properties.get("architecture") or ""),
        aggregate_specs=aggregate_specs(specs),
    )


def _hosts_of(instance: Instance, named: object) -> frozenset[uuid.UUID]:
    """Return the hosts of the servers that a hint names."""
    if not named:
        return frozenset()
    return hosts_of_servers(instance.project_id, named if isinstance(named, list) else [named])


def find_place(instance: Instance, action: InstanceAction) -> HostState | None:
    """Rank the hosts and take room on the best that still has it: then the instance is ``networking`` on that host.

    The hosts are read outside any transaction; the claim, the move, the decision and the steps are one.  When every
    ranked host is taken by now the hosts are read again.  Returns None when there is no host (the instance is in ERROR
    then), or when the launch has moved on without us.
    """
    for _ in range(ROUNDS):
        found = _look(spec_of(instance))
        if not found.decision.ranked:
            break
        with transaction.atomic():
            state.lock([instance.id])
            chosen = _claim_one(instance, found, action)
            if chosen is not None:
                return chosen
            transaction.set_rollback(True)
        if not instance_waits(instance):
            return None
    else:
        found = _look(spec_of(instance))
    _give_up(instance, found, action)
    return None


def instance_waits(instance: Instance) -> bool:
    """Say whether the launch still waits for this very scheduling."""
    waiting = Instance.objects.filter(id=instance.id, attempt=instance.attempt, host=None)
    return waiting.filter(vm_state=instance.vm_state, task_state=instance.task_state).exists()


def _look(spec: RequestSpec) -> Found:
    started, before = timezone.now(), perf_counter()
    hosts = host_states({"aggregate_metadata"} if spec.aggregate_specs else ())
    decision = rank(hosts, spec, subset_size=settings.SCHEDULER_SUBSET_SIZE)
    return Found(decision, actions.since(started), perf_counter() - before)


def _claim_one(instance: Instance, found: Found, action: InstanceAction) -> HostState | None:
    """Inside a transaction: claim the first host that takes it, then move.  None: undo the transaction."""
    started = timezone.now()
    ranking = {ranked.host.id: ranked for ranked in found.decision.ranked}
    taken, tried = take_first(room_of(instance.flavor), ranking, instance)
    if taken is None:
        return None
    if instance.attempt > 1 and Allocation.objects.filter(instance_id=instance.id).exists():
        return None  # another run of the same job was first
    ranked = ranking[taken]
    begun = [notification("create.start", instance)] if instance.attempt == 1 else []
    changes = {"host_id": ranked.host.id}
    moved = state.advance(instance, "allocate_network", attempt=instance.attempt, changes=changes, also=begun)
    if moved is None:
        return None
    hold(instance, ranked.host.id)
    _record(instance, found, ranked)
    last = found.decision.filters[-1]
    seen = {"hosts": str(found.decision.filters[0].before), "suitable": str(last.after)}
    looked = actions.step(action, "schedule", found.span, attempt=instance.attempt, detail=seen)
    claimed = actions.step(
        action,
        "claim",
        actions.since(started),
        attempt=instance.attempt,
        host=ranked.host.name,
        detail={"tried": str(tried)},
    )
    actions.write([looked, claimed])
    return ranked.host


def _record(instance: Instance, found: Found, chosen: Ranked | None) -> None:
    row = SchedulingDecision(
        instance=instance,
        attempt=instance.attempt,
        host_name=chosen.host.name if chosen else "",
        filters=[asdict(result) for result in found.decision.filters],
        weights=[{"host": item.host.name, "weight": round(item.weight, 4)} for item in found.decision.ranked[:10]],
        seconds=found.seconds,
    )
    SchedulingDecision.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["instance", "attempt", "action"],
        update_fields=["host_name", "filters", "weights", "seconds"],
    )


def _give_up(instance: Instance, found: Found, action: InstanceAction) -> None:
    """No host: ERROR, hostless, with the filters' counts in the fault."""
    why = explain(found.decision) or "All suitable hosts were taken by other servers at the same moment."
    message = NO_VALID_HOST + why
    with transaction.atomic():
        if fail(instance, message, clean=True) is None:
            return
        _record(instance, found, None)
        actions.write([actions.step(action, "schedule", found.span, attempt=instance.attempt, failure=message)])
