"""Servers after their records were restored: numbers leap ahead, and what the copy says is under way ends."""

import uuid
from collections.abc import Sequence

from django.db.models import F
from django.utils import timezone

from compute_agent.contract.commands import AttachInterfaceRequest, DetachInterfaceRequest
from provisioning.compute import host_commands
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.deadlines import deadline_of
from provisioning.compute.launch.build_kinds import build_kind_of, is_waiting
from provisioning.compute.launch.retry import fail
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP

BATCH = 500
CUT_OFF = "The cloud's records were restored from a copy in which this was under way."
_OF_INTERFACES = [str(body.__struct_config__.tag) for body in (AttachInterfaceRequest, DetachInterfaceRequest)]
_AWAITED = (TaskState.SPAWNING, TaskState.DELETING, TaskState.SHELVING_OFFLOADING)
"""Tasks that wait for a host to say what it has; the time for that begins again."""


def restore_servers() -> list[str]:
    """Withdraw every command about a server, raise every attempt, and end every task but those that hosts settle.

    Commands of the copy were carried out long ago, or are not wanted any more.  Interfaces that were being attached or
    detached are the exception: nothing else brings guests and ports together, and doing it twice changes nothing.
    """
    busy = list(Instance.objects.select_related("host").exclude(task_state=None).exclude(vm_state=VmState.DELETED))
    for instance in busy:
        drop_unfinished(instance, keep_whole=True)
    interfaces = list(host_commands.about_servers().filter(finished_at=None, kind__in=_OF_INTERFACES))
    withdrawn = commands.withdraw(host_commands.about_servers())
    raised = _raise_attempts()
    _repeat(interfaces)
    Allocation.objects.update(attempt=F("attempt") + LEAP)
    _end_tasks([instance.id for instance in busy])
    return [
        f"Commands about servers: {withdrawn} withdrawn.",
        f"Servers: the attempts of {raised} raised by {LEAP}, {len(busy)} tasks of the copy ended.",
    ]


def _repeat(sent: Sequence[HostCommand]) -> None:
    """Send commands once more, under the raised attempts of their servers."""
    servers = Instance.objects.in_bulk({command.subject_id for command in sent})
    for command in sent:
        server = servers.get(command.subject_id)
        if server is not None and (server.host_id, server.attempt - LEAP) == (command.host_id, command.generation):
            commands.repeat(command, server.attempt)


def _raise_attempts() -> int:
    """Raise the attempt of every server, and keep which numbers may have been given out since the copy was made."""
    batch, count = list[Instance](), 0
    rows = Instance.objects.only("id", "attempt", "guest_attempt", "lost_attempts", "host_id", "vm_state", "task_state")
    for instance in rows.order_by("id").iterator(chunk_size=BATCH):
        built = build_kind_of(instance) is None
        holder = str(instance.host_id) if built and instance.host_id is not None else None
        instance.lost_attempts = [*instance.lost_attempts, [instance.attempt, instance.attempt + LEAP, holder]]
        instance.guest_attempt = (instance.guest_attempt or instance.attempt) if holder else None
        instance.attempt += LEAP
        batch.append(instance)
        count += 1
        if len(batch) == BATCH:
            _write(batch)
            batch = []
    _write(batch)
    return count


def _write(batch: list[Instance]) -> None:
    Instance.objects.bulk_update(batch, ["attempt", "guest_attempt", "lost_attempts"])


def _end_tasks(ids: list[uuid.UUID]) -> None:
    """End what waits for nobody now, and let the reaper end the rest in its way."""
    now = timezone.now()
    for instance in Instance.objects.select_related("host").filter(id__in=ids):
        if is_waiting(instance):
            fail(instance, CUT_OFF, clean=True)
            continue
        until = deadline_of(instance.task_state, now) if instance.task_state in _AWAITED else now
        Instance.objects.filter(id=instance.id).update(task_deadline=until)
