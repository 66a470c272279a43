"""Tasks without a deadline or long past it, and states that do not exist."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import DateTimeField
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Instance
from provisioning.compute.state_machine.state import deadline_of
from provisioning.compute.states import TRANSITIONS, TaskState, VmState
from provisioning.compute.upkeep import reaper
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import moment_of, named, of_instance

PATIENCE = timedelta(seconds=60)
"""The reaper runs every few seconds; a deadline that passed longer ago was not handled."""


ENDLESS = Prepared(lambda: Instance.objects.filter(task_deadline=None).exclude(task_state=None).order_by("id"))
TASKLESS = Prepared(lambda: Instance.objects.filter(task_state=None).exclude(task_deadline=None).order_by("id"))
OVERDUE = Prepared(
    lambda before: Instance.objects.exclude(task_state=None).filter(task_deadline__lt=before).order_by("id"),
    before=DateTimeField(),
)
IN_USE = Prepared(lambda: Instance.objects.values_list("vm_state", "task_state").distinct())
DATELESS = Prepared(lambda: Instance.objects.filter(vm_state=VmState.DELETED, deleted_at=None).order_by("id"))
DATED = Prepared(lambda: Instance.objects.exclude(vm_state=VmState.DELETED).exclude(deleted_at=None).order_by("id"))
SIZELESS = Prepared(lambda: Instance.objects.filter(vm_state=VmState.RESIZED, old_flavor__isnull=True).order_by("id"))


@check("tasks")
def tasks() -> Iterator[Finding]:
    """Find tasks without a deadline, deadlines without a task, and tasks long past their deadline."""
    now = timezone.now()
    for row in ENDLESS():
        sentence = f"It is {row.task_state} and has no deadline: nothing would ever end the task."
        yield Finding("error", named(row), sentence, "Give the task its deadline.", _deadline(row), moment_of(row))
    for row in TASKLESS():
        sentence = "It has a deadline and no task."
        yield Finding("error", named(row), sentence, "Remove the deadline.", _deadline(row), moment_of(row))
    for row in OVERDUE(before=now - PATIENCE):
        late = round((now - row.task_deadline).total_seconds()) if row.task_deadline else 0
        sentence = f"It is {row.task_state}, {late} seconds past its deadline: the reaper has not ended it."
        evidence = (*moment_of(row), row.task_deadline)
        yield Finding("error", named(row), sentence, "Run the reaper now.", _reap(row), evidence)


@check("states")
def states() -> Iterator[Finding]:
    """Find servers in a state that no transition reaches, and records that contradict their state."""
    known = {(VmState.BUILDING, TaskState.SCHEDULING), *(move.target for move in TRANSITIONS)}
    for vm_state, task_state in sorted(set(IN_USE()) - known, key=str):
        for row in Instance.objects.filter(vm_state=vm_state, task_state=task_state).order_by("id"):
            sentence = f"It is {vm_state} with the task {task_state}, a combination that does not exist."
            yield Finding("error", named(row), f"{sentence} An operator may reset it to error.")
    for row in DATELESS():
        yield Finding("error", named(row), "It is deleted and has no deletion time.", "Set it.", _date(row))
    for row in DATED():
        yield Finding("error", named(row), f"It is {row.vm_state}, but has a deletion time.")
    for row in SIZELESS():
        sentence = "It is resized but its previous flavor is unknown: the resize can only be confirmed."
        yield Finding("error", named(row), sentence, evidence=moment_of(row))


def _deadline(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        if (row.task_state is None) == (row.task_deadline is None):
            return None
        deadline = deadline_of(row.task_state, timezone.now())
        Instance.objects.filter(id=row.id).update(task_deadline=deadline)
        return f"The deadline is now {deadline:%H:%M:%S}." if deadline else "The deadline was removed."

    return of_instance(instance.id, work)


def _reap(instance: Instance) -> Repair:
    def repair() -> str | None:
        reaper.reap()
        row = Instance.objects.get(id=instance.id)
        if row.task_state is not None and row.task_deadline == instance.task_deadline:
            return None
        return f"The reaper has handled it: {row.vm_state}, {row.task_state or 'no task'}."

    return repair


def _date(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        if row.vm_state != VmState.DELETED or row.deleted_at is not None:
            return None
        Instance.objects.filter(id=row.id).update(deleted_at=row.updated_at)
        return "The deletion time was set to the time of the last change."

    return of_instance(instance.id, work)
