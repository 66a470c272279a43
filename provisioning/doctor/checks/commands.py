"""Commands whose result is not needed, and tasks that wait for a command that does not exist or exists twice."""

import uuid
from collections import Counter
from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, ConfirmResizeRequest, PowerRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.database.prepared import Prepared
from provisioning.compute.actions.registry import awaiting, commanded_tasks, host_actions
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.release import host_holding, send_destroy
from provisioning.compute.launch.builds import build_kind_of
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold
from provisioning.compute.records.host_commands import about_servers, of_tasks
from provisioning.compute.states import TaskState, VmState
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import moment_of, named, of_instance
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand

_ASKED_TO_DESTROY = (TaskState.DELETING, TaskState.SHELVING_OFFLOADING)


OPEN = Prepared(lambda: about_servers().filter(finished_at=None).order_by("created_at"))


@check("commands")
def unawaited() -> Iterator[Finding]:
    """Find open commands whose result would change nothing."""
    rows = OPEN()
    known = Instance.objects.in_bulk({row.subject_id for row in rows})
    homes = set(Host.objects.values_list("id", flat=True)) if rows else set()
    for row in rows:
        instance = known.get(row.subject_id)
        why = _unawaited(row, instance, homes)
        if why:
            subject = f"instance {row.subject_id}"
            sentence = f"The command {row.kind} of attempt {row.generation} is open: {why}."
            yield Finding("warning", subject, sentence, "Withdraw the command.", _withdraw(row), row.id)


def _unawaited(command: HostCommand, instance: Instance | None, homes: set[uuid.UUID]) -> str:
    """Return why the result of the command is not needed; empty if it is needed."""
    if command.host_id not in homes:
        return "its host no longer exists"
    if command.kind == "destroy_request":
        return "the server has no record, and the host has the command" if _was_acknowledged(command, instance) else ""
    if instance is None:
        return "the server has no record"
    if command.generation != instance.attempt:
        return f"the server is at attempt {instance.attempt}"
    if command.beside:
        return "" if command.host_id == instance.host_id else "the server is on another host"
    if _awaits(instance, command):
        return ""
    return f"the server is {instance.vm_state}, {instance.task_state or 'no task'}"


def _was_acknowledged(command: HostCommand, instance: Instance | None) -> bool:
    return instance is None and command.acknowledged_at is not None


def _awaits(instance: Instance, command: HostCommand) -> bool:
    body = decode_command_body(command.body)
    if isinstance(body, BuildRequest):
        return instance.task_state == TaskState.SPAWNING and build_kind_of(instance) is not None
    if isinstance(body, ConfirmResizeRequest) and instance.task_state in host_actions["resize"].tasks():
        return True  # it finishes an earlier resize that an operator's reset interrupted
    if isinstance(body, PowerRequest) and body.action == "stop" and instance.vm_state == VmState.SOFT_DELETED:
        return True  # its host was down at the deletion, and stops the guest when it is up again
    return awaiting(instance, body) is not None


def _withdraw(host_command: HostCommand) -> Repair:
    def repair() -> str | None:
        command = HostCommand.objects.filter(id=host_command.id, finished_at=None).first()
        instance = Instance.objects.filter(id=host_command.subject_id).first()
        homes = set(Host.objects.filter(id=host_command.host_id).values_list("id", flat=True))
        if command is None or not _unawaited(command, instance, homes):
            return None
        commands.finish(command.host_id, command.id)
        return "The command was withdrawn."

    if Instance.objects.filter(id=host_command.subject_id).exists():
        return of_instance(host_command.subject_id, lambda _: repair())
    return repair


# ----- tasks without their command ------------------------------------------------------------------------------------


@check("missing_commands")
def missing() -> Iterator[Finding]:
    """Find servers with a task for which no command, or more than one command, is open."""
    for row in UNCOMMANDED():
        if cold.waits_for_volumes(row) and block_devices.are_connecting(row):
            continue  # the volumes have their own deadlines
        sentence = f"It is {row.task_state}, but no host has an open command for this task."
        yield Finding("error", named(row), sentence, "End the task now.", _end_now(row), moment_of(row))
    yield from _commanded_twice()
    for row in UNASKED():
        holder = host_holding(row)
        if holder is not None:
            sentence = f"It is {row.task_state}, but host {holder.name} is not asked to remove it."
            yield Finding("warning", named(row), sentence, "Ask the host to remove it.", _ask(row), moment_of(row))


def _commanded_twice() -> Iterator[Finding]:
    """Find servers with several open commands for one task."""
    counted = Counter(OPEN_TASKS())
    several = {(subject, attempt): many for (subject, attempt, _), many in counted.items() if many > 1}
    for row in Instance.objects.filter(id__in=[subject for subject, _ in several], task_state__isnull=False):
        many = several.get((row.id, row.attempt), 0)
        if many:
            sentence = f"It is {row.task_state}, and {many} commands for this task are open: the first result ends it."
            yield Finding("error", named(row), sentence, evidence=moment_of(row))


def _of_now() -> QuerySet[HostCommand]:
    return about_servers().filter(subject_id=OuterRef("id"), generation=OuterRef("attempt"), finished_at=None)


def _commanded() -> Exists:
    return Exists(of_tasks(_of_now()))


def _to_destroy() -> Exists:
    return Exists(_of_now().filter(kind="destroy_request", host_id=OuterRef("allocation__host_id")))


def _uncommanded() -> QuerySet[Instance]:
    on_hosts = [task for task in commanded_tasks() if task != TaskState.UNSHELVING]
    waiting = Q(task_state__in=on_hosts) | Q(task_state=TaskState.UNSHELVING, vm_state=VmState.SHELVED)
    return Instance.objects.filter(waiting | Q(task_state=TaskState.SPAWNING)).filter(~_commanded()).order_by("id")


UNCOMMANDED = Prepared(_uncommanded)
"""Servers with a task that a host must carry out, without an open command for it."""
UNASKED = Prepared(
    lambda: Instance.objects.filter(task_state__in=_ASKED_TO_DESTROY).filter(~_to_destroy()).order_by("id")
)
"""Servers that are being deleted or offloaded while no host is asked to remove them."""
OPEN_TASKS = Prepared(
    lambda: of_tasks(about_servers().filter(finished_at=None)).values_list("subject_id", "generation", "kind")
)


def _end_now(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        if moment_of(row) != moment_of(instance) or not Instance.objects.filter(~_commanded(), id=row.id).exists():
            return None
        Instance.objects.filter(id=row.id).update(task_deadline=timezone.now())
        return "The deadline was set to now: the reaper ends the task in its next run."

    return of_instance(instance.id, work)


def _ask(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        holder = host_holding(row)
        if moment_of(row) != moment_of(instance) or holder is None:
            return None
        send_destroy(row.id, holder.id, row.attempt)
        return f"A removal command was sent to host {holder.name}."

    return of_instance(instance.id, work)
