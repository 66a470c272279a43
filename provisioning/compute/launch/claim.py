"""Schedule a build and claim resources on a host, with a record of the decision."""

import uuid
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.host_link.allocations import hold, take_first
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.launch.build_kinds import EVACUATE, LAUNCH, build_kind_of
from provisioning.compute.launch.decisions import SchedulingAttempt, rank_for_build, record_decision
from provisioning.compute.launch.dry_run import smaller_that_fits
from provisioning.compute.launch.retry import fail
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.migration_records import evacuated_from, set_destination
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.root_pools import with_root_pool
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState, RequestSpec, explain

__all__ = ["find_place", "instance_waits", "spec_of"]

ROUNDS = 8
"""Maximum number of rankings for one build; a new one is needed if all ranked hosts were claimed concurrently."""
NO_VALID_HOST = "No valid host was found. "
ALL_TAKEN = "All suitable hosts were claimed by other servers concurrently."


def find_place(instance: Instance, action: InstanceAction) -> HostState | None:
    """Rank the hosts, and claim resources on the best host that still has them; the instance is then ``networking``
    there.

    The hosts are read outside a transaction; claim, transition, decision and steps are written in one transaction. If
    other builds have claimed the resources of all ranked hosts, the hosts are read again. Returns None when there is no
    valid host (the instance is set to ERROR), or when the instance has changed concurrently.
    """
    for _ in range(ROUNDS):
        found = rank_for_build(_spec_of(instance))
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
        found = rank_for_build(_spec_of(instance))
    _give_up(instance, found, action)
    return None


def _spec_of(instance: Instance) -> RequestSpec:
    """Return the scheduler's request. The host that an evacuation leaves is excluded even if it is up again: the build
    would replace the disk of the guest that is still there.
    """
    source = evacuated_from(instance.id) if build_kind_of(instance) is EVACUATE else None
    spec = with_root_pool(spec_of(instance), instance, source)
    return spec if source is None else replace(spec, ignored_hosts=spec.ignored_hosts | {source.name})


def instance_waits(instance: Instance) -> bool:
    """Whether the instance still waits for this scheduling."""
    waiting = Instance.objects.filter(id=instance.id, attempt=instance.attempt, host=None)
    return waiting.filter(vm_state=instance.vm_state, task_state=instance.task_state).exists()


def _claim_one(instance: Instance, found: SchedulingAttempt, action: InstanceAction) -> HostState | None:
    """Claim the first possible host and change the state, inside the caller's transaction.

    Returns None if that is impossible; the caller must then roll back.
    """
    started = timezone.now()
    ranked = [one.host for one in found.decision.ranked]
    taken, tried = take_first(room_of(instance.flavor), (host.id for host in ranked), instance)
    if taken is None:
        return None
    if instance.attempt > 1 and Allocation.objects.filter(instance_id=instance.id).exists():
        return None  # another run of the same job was faster
    chosen = ranked[tried - 1]
    changes: dict[str, Any] = {"host_id": taken}
    if host_commands.has_destroy(taken, instance.id, instance.attempt):
        changes["attempt"] = instance.attempt + 1  # this attempt has a destroy command on the host
    where = Note(host=chosen.name, zone=chosen.availability_zone)
    moved = state.advance(instance, "allocate_network", attempt=instance.attempt, changes=changes, note=where)
    if moved is None:
        return None
    hold(instance, taken)
    if build_kind_of(instance) is EVACUATE:
        _leave_behind(instance, taken)
    record_decision(instance, action.action, found, chosen)
    claimed = instance_actions.step(
        action,
        "claim",
        instance_actions.since(started),
        attempt=instance.attempt,
        host=chosen.name,
        detail={"tried": str(tried)},
    )
    instance_actions.write([_looked(instance, found, action), claimed])
    return chosen


def _leave_behind(instance: Instance, taken: uuid.UUID) -> None:
    """Record the new host of an evacuation, and command the failed host to remove the server once it is up again."""
    source = evacuated_from(instance.id)
    if source is not None:
        send_destroy(instance.id, source.id, instance.attempt)
    set_destination(instance.id, Host.objects.get(id=taken))


def _looked(
    instance: Instance, found: SchedulingAttempt, action: InstanceAction, failure: str = ""
) -> InstanceActionEvent:
    """Return the event of the step ``schedule``, not yet written. ``failure``: the reason of a failure; empty on
    success.
    """
    if failure:
        return instance_actions.step(action, "schedule", found.span, attempt=instance.attempt, failure=failure)
    seen = {"hosts": str(len(found.hosts)), "suitable": str(found.decision.suitable)}
    return instance_actions.step(action, "schedule", found.span, attempt=instance.attempt, detail=seen)


def _give_up(instance: Instance, found: SchedulingAttempt, action: InstanceAction) -> None:
    """Set the instance to ERROR without a host. The fault has the filters' counts and a smaller flavor that fits."""
    sentences = [explain(found.decision) or ALL_TAKEN]
    if build_kind_of(instance) is LAUNCH:
        sentences.append(smaller_that_fits(instance, found.hosts, found.spec, found.decision))
    message = NO_VALID_HOST + " ".join(filter(None, sentences))
    with transaction.atomic():
        if fail(instance, message, clean=True) is None:
            return
        record_decision(instance, action.action, found, None)
        instance_actions.write([_looked(instance, found, action, failure=message)])
