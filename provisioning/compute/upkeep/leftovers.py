"""Removes remains of deleted servers from hosts."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.models import Allocation, Instance, MoveAllocation
from provisioning.compute.records import host_commands
from provisioning.compute.states import VmState
from provisioning.hosts.models import Leftover

ASK_AGAIN = timedelta(minutes=5)
"""Minimum time between two requests to a host to remove the same server."""
COMMANDS_AT_ONCE = 50


def is_left_over(row: Leftover, instance: Instance) -> bool:
    """Whether the server is deleted or on another host, so that this host may remove all its data."""
    if is_newer_here(row, instance):
        return False
    if instance.vm_state == VmState.DELETED:
        return True
    if instance.task_state is not None or instance.host_id == row.host_id:
        return False
    held = {"instance_id": instance.id, "host_id": row.host_id}
    return not (Allocation.objects.filter(**held).exists() or MoveAllocation.objects.filter(**held).exists())


def is_newer_here(row: Leftover, instance: Instance) -> bool:
    """Whether the host may have a newer attempt of the server than its record; then nothing is removed."""
    if row.generation is None:
        return bool(instance.lost_attempts)
    return row.generation > instance.attempt or newer_guests.was_lost(instance, row.host_id, row.generation)


def clear(host_id: uuid.UUID, rows: Sequence[Leftover]) -> None:
    """Send destroy commands, in the caller's transaction, for remains of deleted servers on a host.

    Remains without a record are ignored.
    """
    known = Instance.objects.in_bulk({row.subject_id for row in rows if row.subject_id is not None})
    over = {row.subject_id: known[row.subject_id] for row in rows if _is_over(row, known)}
    already_commanded = set(_commanded(host_id, over)) if over else set()
    remaining = [instance for instance in over.values() if instance.id not in already_commanded][:COMMANDS_AT_ONCE]
    for instance in remaining:
        send_removal(host_id, instance)


def _is_over(row: Leftover, known: Mapping[uuid.UUID, Instance]) -> bool:
    instance = known.get(row.subject_id) if row.subject_id else None
    return instance is not None and is_left_over(row, instance)


def _commanded(host_id: uuid.UUID, ids: Iterable[uuid.UUID | None]) -> Iterable[uuid.UUID]:
    """Yield the servers for which the host has a recent or unfinished destroy command."""
    needed = [each for each in ids if each is not None]
    yield from (
        host_commands.destroys_awaited()
        .filter(host_id=host_id, subject_id__in=needed)
        .values_list("subject_id", flat=True)
    )
    since = timezone.now() - max(ASK_AGAIN, timedelta(seconds=2 * settings.AUDIT_INTERVAL))
    commands = host_commands.to_destroy().filter(host_id=host_id, subject_id__in=needed)
    yield from commands.filter(created_at__gte=since).values_list("subject_id", flat=True)


def send_removal(host_id: uuid.UUID, instance: Instance) -> None:
    """Send a destroy command with the attempt of the record; a host whose guest has a higher attempt rejects it."""
    send_destroy(instance.id, host_id, instance.attempt)
