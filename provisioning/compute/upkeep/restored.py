"""Servers after their records were restored from a backup: attempts are raised, and tasks of the backup ended."""

import uuid
from collections.abc import Sequence

from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.commands import AttachInterfaceRequest, DetachInterfaceRequest
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.launch.builds import build_kind_of, is_waiting
from provisioning.compute.launch.retry import fail
from provisioning.compute.models import Allocation, Instance, MoveAllocation
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine.state import deadline_of
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP

BATCH = 500
CUT_OFF = "The cloud's records were restored from a backup in which this was in progress."
_OF_INTERFACES = [str(body.__struct_config__.tag) for body in (AttachInterfaceRequest, DetachInterfaceRequest)]
_AWAITED = (TaskState.SPAWNING, TaskState.DELETING, TaskState.SHELVING_OFFLOADING)
"""Tasks whose end depends on the host's report; their timeouts begin again."""


def restore_servers() -> list[str]:
    """Withdraw all commands about servers, raise all attempts, and end all tasks except those whose end depends on
    hosts.

    The commands in the backup were carried out long ago or are obsolete. Commands to attach and detach interfaces are
    sent again: nothing else synchronizes guests and ports, and they are idempotent.
    """
    busy = list(Instance.objects.select_related("host").exclude(task_state=None).exclude(vm_state=VmState.DELETED))
    for instance in busy:
        drop_unfinished(instance, keep_whole=True)
    interfaces = list(host_commands.about_servers().filter(finished_at=None, kind__in=_OF_INTERFACES))
    withdrawn = commands.withdraw(host_commands.about_servers())
    raised = _raise_attempts()
    _repeat(interfaces)
    Allocation.objects.update(attempt=F("attempt") + LEAP)
    MoveAllocation.objects.update(guest_attempt=Coalesce("guest_attempt", "attempt"), attempt=F("attempt") + LEAP)
    _end_tasks([instance.id for instance in busy])
    return [
        f"Commands about servers: {withdrawn} withdrawn.",
        f"Servers: the attempts of {raised} raised by {LEAP}, {len(busy)} tasks of the backup ended.",
    ]


def _repeat(sent: Sequence[HostCommand]) -> None:
    """Send commands again with the raised attempts of their servers."""
    servers = Instance.objects.in_bulk({command.subject_id for command in sent})
    for command in sent:
        server = servers.get(command.subject_id)
        if server is not None and (server.host_id, server.attempt - LEAP) == (command.host_id, command.generation):
            commands.repeat(command, server.attempt)


def _raise_attempts() -> int:
    """Raise the attempt of every server, and store the range of attempts that may have been used since the backup."""
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
    """Fail the tasks that no job will continue, and let the reaper end the others."""
    now = timezone.now()
    for instance in Instance.objects.select_related("host").filter(id__in=ids):
        if is_waiting(instance):
            fail(instance, CUT_OFF, clean=True)
            continue
        until = deadline_of(instance.task_state, now) if instance.task_state in _AWAITED else now
        Instance.objects.filter(id=instance.id).update(task_deadline=until)
