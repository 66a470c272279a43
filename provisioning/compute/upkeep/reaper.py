"""Ends or repeats overdue tasks, and tasks that wait for hosts which are forced down, so that no instance stays stuck
and no resource is leaked.
"""

import logging
import uuid
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.messages import SERVER, decode_command_body
from compute_agent.contract.power import PowerState
from provisioning.common.database.retry import when_broken_off
from provisioning.compute.actions.registry import action_of, awaiting, of_task
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import SILENT, Outcome, silent_since
from provisioning.compute.host_link.release import finish_delete, host_holding, send_destroy
from provisioning.compute.launch.builds import LAUNCH, build_kind_of, is_waiting
from provisioning.compute.launch.finished import finished
from provisioning.compute.launch.map_block_devices import volumes_are_made
from provisioning.compute.launch.retry import cast_schedule, fail, retry
from provisioning.compute.models import Allocation, Instance, MoveAllocation
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.moves.returning import failed_evacuations
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.services.hosts import FORCED_DOWN, TOPIC
from provisioning.compute.state_machine import state
from provisioning.compute.state_machine.state import seconds_of
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands, rejected
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.selectors import alive, is_alive
from provisioning.jobs.periodic.absence import absence
from provisioning.jobs.registry import job, periodic
from provisioning.quotas.services.ledger import commit

log = logging.getLogger(__name__)

INTERVAL = 5.0
BATCH = 200
"""Maximum number of instances in one run; the next run continues."""
ASK_AGAIN = timedelta(seconds=60)
"""Minimum time before a host that failed to remove a server is asked again."""
LONGEST_ABSENCE = timedelta(hours=20)
"""After a longer downtime deadlines are not extended: the records may be an old copy, and hosts recognize repeated
commands for a day only (``compute_agent.engine.store.KEEP_DONE``).
"""
DOWN = "The host stopped answering while it built the server."
NOT_CONFIRMED = "The host that failed to build the server has not confirmed that nothing is left of it."
VOLUMES_LATE = "The server's volumes were not ready in time."
TOO_LONG = "The launch made no progress for too long."
CUT_OFF = "The server's task was interrupted, and its result is unknown."


@periodic("compute.reaper", every=INTERVAL)
def reap() -> None:
    """Process overdue tasks, tasks that wait for hosts which are forced down, deletes that wait for hosts that are
    down, and allocations that were not released.
    """
    _extend_deadlines()
    _end_forced_down(list(Host.objects.filter(forced_down=True).values_list("id", flat=True)))
    for instance in overdue():
        _guarded(instance, _handle_overdue)
    for instance in _deleting_on_hosts_down():
        _guarded(instance, _end_delete_without_host)
    for instance in _leftovers():
        _guarded(instance, _ask_to_destroy)
    for row in _left_seconds():
        _guarded(row.instance, leave_second)
    for instance in overdue_commands(BATCH):
        _guarded(instance, end)


@when_broken_off
def _extend_deadlines() -> None:
    """Extend the deadlines of tasks on hosts by the time during which no reaper was running."""
    gap = absence("compute.reaper")
    if gap is None or gap > LONGEST_ABSENCE:
        return
    at_hosts = Instance.objects.filter(task_state__in=[TaskState.SPAWNING, *of_task], task_deadline__isnull=False)
    with transaction.atomic():
        state.lock(at_hosts.values_list("id", flat=True))
        at_hosts.update(task_deadline=F("task_deadline") + gap)
        commands.postpone(gap)


@job(FORCED_DOWN, topic=TOPIC)
def forced_down(host_id: str) -> None:
    """End the tasks that wait for this host. Those that have to wait for another host first are repeated by ``reap``.
    No effect for a host that is not forced down.
    """
    _end_forced_down([uuid.UUID(host_id)])


def _end_forced_down(host_ids: list[uuid.UUID]) -> None:
    for instance in _with_tasks(host_ids) if host_ids else ():
        _guarded(instance, _handle_forced_down)


def _with_tasks(host_ids: list[uuid.UUID]) -> list[Instance]:
    """Return the instances with a task for which one of these hosts is the host, or the second one of a move."""
    theirs = Q(host_id__in=host_ids) | Q(move_allocation__host_id__in=host_ids)
    return list(Instance.objects.filter(theirs).exclude(task_state=None).order_by("id"))


def _handle_forced_down(seen: Instance) -> None:
    rows = Instance.objects.select_for_update(no_key=True, of=("self",)).select_related("host").exclude(task_state=None)
    instance = rows.filter(id=seen.id).first()
    if instance is None or rejected.awaited(SERVER, instance.id, instance.attempt):
        return
    host, action = instance.host, action_of(instance)
    if action is not None:
        action.forced_down(instance)
    elif host is None or not host.forced_down:
        return
    elif instance.task_state == TaskState.SPAWNING:
        fail(instance, DOWN)
    elif is_waiting(instance):
        retry(instance, host.id, DOWN, clean=True)


def overdue() -> list[Instance]:
    """Return the instances with overdue tasks, oldest deadline first."""
    rows = Instance.objects.select_related("host").exclude(task_state=None)
    return list(rows.filter(task_deadline__lt=timezone.now()).order_by("task_deadline")[:BATCH])


@when_broken_off
def _guarded(instance: Instance, work: Callable[[Instance], None]) -> None:
    """Call ``work`` in its own transaction; an unexpected error is logged and does not block other instances."""
    try:
        with transaction.atomic():
            work(instance)
    except (OperationalError, InterfaceError):  # the database fails for all instances
        raise
    except Exception:
        log.exception("The reaper failed for instance %s.", instance.id)


def _handle_overdue(seen: Instance) -> None:
    rows = Instance.objects.select_for_update(no_key=True, of=("self",)).select_related("host").exclude(task_state=None)
    instance = rows.filter(id=seen.id, task_deadline__lt=timezone.now()).first()
    if instance is None:  # the task has ended concurrently
        return
    task = TaskState(instance.task_state) if instance.task_state else None
    if (task == TaskState.SPAWNING or task in of_task) and (
        _waits_its_turn(instance) or _has_reported_success(instance)
    ):
        return
    log.warning(
        "Instance %s has been %s for too long (attempt %s).", instance.id, instance.task_state, instance.attempt
    )
    _act(instance, task)
    stuck = Instance.objects.filter(id=seen.id, task_state=task, attempt=instance.attempt)
    if stuck.filter(task_deadline__lt=timezone.now()).exists():
        _cut_off(instance.id)


def _act(instance: Instance, task: TaskState | None) -> None:
    """Handle the timeout of this task."""
    action = of_task.get(task) if task else None
    if task == TaskState.SPAWNING:
        _spawning(instance)
    elif is_waiting(instance):
        _before_hand_off(instance)
    elif action is not None:
        action.overdue(instance)


def _cut_off(instance_id: uuid.UUID) -> None:
    """Set a server to ERROR if its task cannot be ended by any action, build or command."""
    instance = Instance.objects.select_related("host").get(id=instance_id)
    log.error(
        "No job or command for the task of instance %s (%s, %s).", instance.id, instance.vm_state, instance.task_state
    )
    if state.advance(instance, "reset_error", attempt=instance.attempt) is None:
        return
    record_fault(instance, CUT_OFF)
    instance_actions.finish_all(instance.id, message=CUT_OFF)
    commit(instance.id)
    host_commands.withdraw_of_tasks(instance.id)


def _waits_its_turn(instance: Instance) -> bool:
    """Extend the deadline if the host is up and the command is still queued there. Returns whether it was extended."""
    command = host_commands.working_at(instance.id, instance.attempt)
    until = commands.waits_there(command, instance.host) if command is not None else None
    if until is None or rejected.is_stored(SERVER, instance.id, instance.attempt):
        return False
    state.extend_deadline(instance, until)
    return True


def _has_reported_success(instance: Instance) -> bool:
    """Extend the deadline if a success report of the host is waiting to be processed. Returns whether it
    was extended.
    """
    if not rejected.awaited(SERVER, instance.id, instance.attempt):
        return False
    state.extend_deadline(instance)
    return True


def _before_hand_off(instance: Instance) -> None:
    """Handle a build without a command: its job was lost, or the previous host has not confirmed the removal."""
    allocation = Allocation.objects.filter(instance=instance).first()
    if allocation is not None and allocation.attempt < instance.attempt:
        fail(instance, NOT_CONFIRMED)
        return
    if volumes_are_made(instance):
        state.extend_deadline(instance)
        return
    if instance.task_state == TaskState.BLOCK_DEVICE_MAPPING:
        fail(instance, VOLUMES_LATE, clean=True)
        return
    kind = build_kind_of(instance) or LAUNCH
    again = None if kind is LAUNCH else instance_actions.current(instance.id, kind.action)
    begun = instance.created_at if again is None else again.started_at
    if begun + timedelta(seconds=settings.BUILD_TIMEOUT * settings.MAX_SCHEDULE_ATTEMPTS) < timezone.now():
        fail(instance, TOO_LONG, clean=True)
        return
    state.extend_deadline(instance)
    cast_schedule(instance)


def _spawning(instance: Instance) -> None:
    """Handle a build whose host has not reported the end."""
    host, now = instance.host, timezone.now()
    if host is None:
        fail(instance, TOO_LONG, clean=True)
    elif instance.guest_attempt == instance.attempt and is_alive(host, now):
        log.warning("Instance %s runs on its host, but the report was lost.", instance.id)
        well = Outcome(well=True, begun_at=instance.updated_at, ended_at=now, power=PowerState.RUNNING)
        finished(instance, BuildRequest(instance=guest_spec(instance)), well)
        host_commands.withdraw_of_tasks(instance.id)
    elif is_alive(host, timezone.now()):
        retry(instance, host.id, SILENT.format(seconds=seconds_of(TaskState.SPAWNING)), clean=False)
    else:
        fail(instance, DOWN)


def _deleting_on_hosts_down() -> list[Instance]:
    rows = Instance.objects.select_related("host").filter(
        ~alive(timezone.now(), "allocation__host__"), task_state=TaskState.DELETING, allocation__isnull=False
    )
    return list(rows[:BATCH])


def _end_delete_without_host(instance: Instance) -> None:
    state.lock([instance.id])
    finish_delete(instance, host_holding(instance))


def _leftovers() -> list[Instance]:
    """Return instances that are deleted, or have failed on the host of their allocation, if that host is up and has no
    recent destroy command.

    A server in ERROR on the host of its allocation is excluded, because the host has its disks. A server that has
    another host for any other reason than a failed evacuation is also excluded: the doctor reports it, and its guest
    may still run.
    """
    now = timezone.now()
    lately = host_commands.to_destroy().filter(created_at__gte=now - ASK_AGAIN)
    of_holder = {"subject_id": OuterRef("id"), "host_id": OuterRef("allocation__host_id")}
    held = Instance.objects.filter(
        ~Exists(host_commands.destroys_awaited().filter(**of_holder)),
        ~Exists(lately.filter(**of_holder)),
        alive(now, "allocation__host__"),
        Q(vm_state=VmState.DELETED)
        | Q(
            Q(host=None) | ~Q(host=F("allocation__host")),
            Q(vm_state__in=[VmState.ERROR, VmState.SHELVED_OFFLOADED]) | failed_evacuations(),
        ),
        task_state=None,
    )
    return list(held[:BATCH])


def _left_seconds() -> list[MoveAllocation]:
    """Return second allocations of moves that have ended, on hosts that are up and have no recent destroy command."""
    now = timezone.now()
    records = host_commands.to_destroy().filter(subject_id=OuterRef("instance_id"), host_id=OuterRef("host_id"))
    awaited = host_commands.destroys_awaited().filter(subject_id=OuterRef("instance_id"), host_id=OuterRef("host_id"))
    rows = MoveAllocation.objects.select_related("instance").filter(
        ~Exists(awaited), ~Exists(records.filter(created_at__gte=now - ASK_AGAIN)), alive(now, "host__")
    )
    return list(rows.exclude(migration__status__in=OPEN)[:BATCH])


def _ask_to_destroy(instance: Instance) -> None:
    host_id = Allocation.objects.filter(instance=instance).values_list("host_id", flat=True).first()
    if host_id is not None:
        send_destroy(instance.id, host_id, instance.attempt)


def overdue_commands(most: int) -> list[Instance]:
    """Return at most ``most`` instances with an overdue command that no task waits for."""
    ids = list(host_commands.beside_overdue().order_by("deadline").values_list("subject_id", flat=True)[:most])
    return list(Instance.objects.filter(id__in=ids).order_by("id"))


def end(seen: Instance) -> None:
    """End an instance's overdue commands that no task waits for, inside the caller's transaction.

    The deadline is extended for commands queued on a host that is up, and for those that only the host can end
    (``TasklessAction.ends_by_report``). Commands of older attempts end without effect.
    """
    state.lock([seen.id])
    instance = Instance.objects.select_related("host").get(id=seen.id)
    if rejected.awaited(SERVER, instance.id, instance.attempt):
        return
    for command in host_commands.beside_overdue().filter(subject_id=instance.id).order_by("created_at"):
        until = commands.waits_there(command, instance.host) if instance.host_id == command.host_id else None
        if until is not None:
            HostCommand.objects.filter(pk=command.pk, finished_at=None).update(deadline=until)
            continue
        body = decode_command_body(command.body)
        current = instance.attempt == command.generation and instance.host_id == command.host_id
        action = awaiting(instance, body) if current else None
        if isinstance(action, TasklessAction) and action.ends_by_report:
            later = timezone.now() + timedelta(seconds=command.timeout or 0)
            HostCommand.objects.filter(pk=command.pk, finished_at=None).update(deadline=later)
            continue
        commands.finish(command.host_id, command.id)
        if action is not None:
            action.end(instance, body, silent_since(command.created_at))
