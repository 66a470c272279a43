"""Failed builds: reschedule to another host or set the server to ERROR, and release all resources."""

import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction

from provisioning.common.errors import OverQuotaError
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import release_allocation
from provisioning.compute.host_link.release import (
    has_shared_disks,
    host_holding,
    is_cut_off,
    leave_host,
    release_place,
    return_home,
    send_destroy,
    spare_guest,
)
from provisioning.compute.launch import attempts
from provisioning.compute.launch.builds import EVACUATE, LAUNCH, Build, build_kind_of, lock, waiting_build
from provisioning.compute.launch.decisions import ALL_TAKEN, NO_VALID_HOST, SchedulingAttempt, record_decision
from provisioning.compute.launch.dry_run import smaller_that_fits
from provisioning.compute.launch.hand_off import creates_root
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import Step, record_fault
from provisioning.compute.records.migration_records import evacuated_from, set_migration
from provisioning.compute.services.hosts import build_failed
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.jobs.queue.cast import cast
from provisioning.network import services as network
from provisioning.quotas.services.ledger import commit
from provisioning.quotas.services.sizes import grow, shrink
from provisioning.scheduler import explain
from provisioning.scheduler.condition import hosts_in_words

WAY_BACK = "When its own host is up again, stop and start the server: it gets its disks back."


def fail_waiting(instance_id: uuid.UUID, attempt: int, message: str, *, details: str = "", clean: bool = False) -> None:
    """Read the build of this attempt again, and fail it as ``fail``; no effect after its command was sent to a host."""
    build = waiting_build(instance_id, attempt)
    if build is not None:
        with transaction.atomic():
            fail(build.instance, message, details=details, clean=clean)


def fail(
    instance: Instance,
    message: str,
    *,
    details: str = "",
    clean: bool = False,
    at_fault: uuid.UUID | None = None,
    ended: datetime | None = None,
) -> bool:
    """Set a launch to ERROR without a host, inside the caller's transaction; an unshelving returns to
    ``shelved_offloaded`` with its ports, and a server whose evacuation fails is in ERROR on the host that it had.

    As in Nova the server counts in the quota until it is deleted. If a host may have data of the server (``clean``
    False and the command was sent), a destroy command is sent with a higher attempt, and allocation and addresses are
    kept until the host confirms; otherwise they are released immediately. ``message`` is for the owner and contains no
    host names; ``details`` are for operators. The fault also has the reasons of earlier attempts. ``at_fault``: the
    host whose failed builds are counted; ``ended``: when the attempt failed, if not now. Returns False, without
    effect, when the instance is not being built.
    """
    kind = build_kind_of(instance)
    if kind is None:
        return False
    attempt, action = instance.attempt, instance_actions.current(instance.id, kind.action)
    earlier = [each for each in attempts.failures(action) if each.attempt < attempt]
    reason, message = message, attempts.with_reasons(message, earlier)
    holder = None if clean else host_holding(instance)
    host_name = instance.host_name
    changes: dict[str, object] = {"host": None}
    if kind is EVACUATE:
        changes["host"] = evacuated_from(instance.id)
        message = f"{message} {WAY_BACK}" if has_shared_disks(instance) else message
    if kind.keeps_ports:
        changes |= {"excluded_hosts": [], "requested_host": ""}
    if holder is not None:
        changes["attempt"] = instance.attempt + 1
    note = Note(fault=message, cause="BuildFailed" if host_name else "NoValidHost")
    state.lock_volumes([instance.id])
    failed = state.advance(instance, kind.give_up, attempt=instance.attempt, changes=changes, note=note)
    if failed is None:
        return False
    attempts.record(action, attempts.Failure(attempt, host_name, reason), failed, ended)
    record_fault(failed, message, details=attempts.listed(details, attempts.failures(action)), host_name=host_name)
    instance_actions.finish(failed.id, kind.action, message=message)
    commit(failed.id)
    host_commands.withdraw(failed.id, failed.attempt + (holder is None))
    if holder is None:
        if kind.keeps_ports:
            leave_host(failed)
            return_home(failed)
        else:
            block_devices.release_all(failed.id, failed=True)
            release_place(failed.id)
    else:
        _remove_build(failed, holder.id, action, attempt)
        _leave_new_host(failed, holder)
    if kind is EVACUATE:
        set_migration(failed.id, "error")
    if at_fault is not None:
        build_failed(at_fault)
    return True


def _leave_new_host(instance: Instance, holder: Host) -> None:
    """Return a server whose evacuation has failed to its old host, if the new host cannot write to its data. Otherwise
    the new host has to confirm the removal first, or to be forced down. The old host keeps its guest.
    """
    if instance.host is None:
        return
    if is_cut_off(instance, holder):
        leave_host(instance)
        return_home(instance)
    else:
        spare_guest(instance, instance.host)


def fail_without_host(build: Build, attempt: SchedulingAttempt) -> None:
    """Set the instance to ERROR without a host. The fault has the filters' counts and a smaller flavor that fits.

    Raises ChangedError.
    """
    instance = build.instance
    sentences = [explain(attempt.decision) or ALL_TAKEN]
    if build.kind is LAUNCH:
        sentences.append(smaller_that_fits(instance, attempt.hosts, attempt.spec, attempt.decision))
    message = NO_VALID_HOST + " ".join(filter(None, sentences))
    with transaction.atomic():
        lock(build)
        fail(instance, message, clean=True)
        record_decision(instance, build.action.action, attempt, None)
        step = Step("schedule", attempt.started, attempt.ended, failure=message)
        instance_actions.record(build.action, instance.attempt, step)


def retry(instance: Instance, host_id: uuid.UUID, reason: str, *, clean: bool, ended: datetime | None = None) -> None:
    """Reschedule a build, or fail it after MAX_SCHEDULE_ATTEMPTS attempts; inside the caller's transaction.

    Hosts on which the build has failed are used again only if no other host remains. ``clean``: the failed host has
    undone everything, so the allocation is released and the next attempt is cast. Otherwise a destroy command is sent,
    and the next attempt begins after the host has confirmed, so that a server never has two guests. For the same reason
    a build waits while an operator has not decided about a newer guest of the server (``newer_guests``). ``ended``:
    when the attempt failed, as its host has reported; None for a silent host.
    """
    kind, tries, attempt = build_kind_of(instance), len(instance.excluded_hosts) + 1, instance.attempt
    action = instance_actions.current(instance.id, kind.action) if kind is not None else None
    waits = bool(newer_guests.open_of(instance.id))
    if ended is not None or not waits:  # a silent host may still report the end while the build waits
        attempts.record(action, attempts.Failure(attempt, instance.host_name, reason), instance, ended)
    if waits:
        state.extend_deadline(instance)
        return
    if tries >= settings.MAX_SCHEDULE_ATTEMPTS:
        tried = len({*instance.excluded_hosts, str(host_id)})
        where = (
            f"{tried} hosts were tried" if tried == tries else f"it was tried {tries} times on {hosts_in_words(tried)}"
        )
        message = f"The server could not be built: {where}. The last error: {reason}"
        fail(instance, message, clean=clean, at_fault=host_id)
        return
    again = state.advance(
        instance,
        "reschedule",
        attempt=instance.attempt,
        changes={
            "attempt": instance.attempt + 1,
            "host": None,
            "excluded_hosts": [*instance.excluded_hosts, str(host_id)],
        },
    )
    if again is None:
        return
    build_failed(host_id)
    host_commands.withdraw(again.id, again.attempt)
    if clean:
        release_allocation(again.id)
        network.set_ports_status(again.id, "DOWN")
        cast_schedule(again)
    else:
        _remove_build(again, host_id, action, attempt)


def _remove_build(instance: Instance, host_id: uuid.UUID, action: InstanceAction | None, attempt: int) -> None:
    """Command a host to remove a failed attempt. A root disk that the attempt has created is not kept."""
    created = action is not None and creates_root(action, attempt)
    send_destroy(instance.id, host_id, instance.attempt, keep_root=not created)


def hold_again(instance: Instance) -> bool:
    """Reserve the quota of a rescheduled launch's interfaces again, as requested: its new ports have one address each.

    Sets the instance to ERROR when the quota is exceeded. Returns whether the launch continues.
    """
    amounts = network.quota_of(instance.requested_networks)
    try:
        shrink(instance.id, amounts)
        grow(instance.project_id, instance.id, amounts)
    except OverQuotaError as error:
        fail(instance, error.message, clean=True)
        return False
    return True


def cast_schedule(instance: Instance) -> None:
    """Cast the next scheduling of a build."""
    cast("scheduler", "compute.schedule", instance_id=str(instance.id), attempt=instance.attempt)
