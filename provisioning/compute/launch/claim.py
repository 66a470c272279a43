"""Choose a host for a build and claim resources on it, with a record of the decision."""

from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from provisioning.compute.flavors.sizes import Room
from provisioning.compute.host_link.allocations import claim_first, record_allocation
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.launch.builds import EVACUATE, Build
from provisioning.compute.launch.decisions import SchedulingAttempt, rank_for_build, record_decision
from provisioning.compute.launch.retry import fail_without_host
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import Step
from provisioning.compute.records.migration_records import set_destination
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState

ROUNDS = 8
"""Maximum number of rankings with a claim; a new one is needed if all ranked hosts were claimed concurrently."""


def find_place(build: Build) -> HostState | None:
    """Rank the hosts, and claim resources on the best host that still has them; the instance is then ``networking``
    there.

    The hosts are read outside a transaction; claim, transition, decision and steps are written in one transaction. If
    other builds have claimed the resources of all ranked hosts, the hosts are read again. The host that an evacuation
    leaves is excluded even if it is up again: the build would replace the disk of the guest that is still there.

    Returns None when there is no valid host: the instance is set to ERROR. Raises ChangedError.
    """
    instance = build.instance
    waiting = Instance.objects.filter(
        id=instance.id,
        attempt=instance.attempt,
        host=None,
        vm_state=instance.vm_state,
        task_state=instance.task_state,
    )
    for left in reversed(range(ROUNDS + 1)):
        spec = spec_of(instance, root_pool=build.root_pool)
        if build.source is not None:
            spec = replace(spec, ignored_hosts=spec.ignored_hosts | {build.source.name})
        attempt = rank_for_build(spec)
        if not left or not attempt.decision.ranked:
            break
        with transaction.atomic():
            chosen = _claim_one(build, attempt)
        if chosen is not None:
            return chosen
        if not waiting.exists():
            raise state.ChangedError
    fail_without_host(build, attempt)
    return None


def _claim_one(build: Build, attempt: SchedulingAttempt) -> HostState | None:
    """Claim the first possible host and change the state, inside the caller's transaction.

    Returns None, with nothing written, if other builds have claimed the resources of all ranked hosts. Raises
    ChangedError.
    """
    instance = build.instance
    state.lock([instance.id])
    started = timezone.now()
    ranked = [one.host for one in attempt.decision.ranked]
    room = Room(attempt.spec.vcpus, attempt.spec.memory_mb, attempt.spec.disk_gb)
    taken, tried = claim_first(room, (host.id for host in ranked), instance)
    if taken is None:
        return None
    if instance.attempt > 1 and Allocation.objects.filter(instance_id=instance.id).exists():
        raise state.ChangedError  # another run of the same job was faster
    chosen = ranked[tried - 1]
    changes: dict[str, Any] = {"host_id": taken}
    if host_commands.has_destroy(taken, instance.id, instance.attempt):
        changes["attempt"] = instance.attempt + 1  # this attempt has a destroy command on the host
    where = Note(host=chosen.name, zone=chosen.availability_zone)
    state.apply(instance, "allocate_network", changes=changes, note=where)
    record_allocation(instance, taken)
    if build.source is not None:
        send_destroy(instance.id, build.source.id, instance.attempt)  # for the failed host, once it is up again
    if build.kind is EVACUATE:
        set_destination(instance.id, Host.objects.get(id=taken))
    record_decision(instance, build.action.action, attempt, chosen)
    seen = {"hosts": str(len(attempt.hosts)), "suitable": str(attempt.decision.suitable)}
    instance_actions.record(
        build.action,
        instance.attempt,
        Step("schedule", attempt.started, attempt.ended, detail=seen),
        Step("claim", started, host=chosen.name, detail={"tried": str(tried)}),
    )
    return chosen
