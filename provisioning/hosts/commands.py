"""Commands to hosts: rows that are sent until the host acknowledges them, and kept until it says how they ended."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import Command, decode_command_body, encode
from provisioning.common.ids import read_id
from provisioning.events import services as events
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Subject

KEPT = timedelta(days=1)
"""How long finished commands are kept for whoever looks into a fault."""


def topic(host_id: uuid.UUID) -> str:
    """The event topic that the web process holding the host's link follows."""
    return f"host:{host_id}"


def send(
    host_id: uuid.UUID, subject: Subject, body: CommandBody, deadline: datetime | None, *, beside: bool = False
) -> HostCommand:
    """Command something of a host in the caller's transaction; sent when that commits, and again until acknowledged.

    ``beside``: it belongs to no task of its subject and goes on beside it, in its turn.
    """
    command = HostCommand.objects.create(
        host_id=host_id,
        subject_kind=subject.kind,
        subject_id=subject.id,
        generation=subject.generation,
        kind=str(type(body).__struct_config__.tag),
        body=encode(body).decode(),
        deadline=deadline,
        beside=beside,
    )
    events.record(topic(host_id), "command", {"id": str(command.id)})
    return command


def unfinished(kind: str, subject_id: uuid.UUID) -> QuerySet[HostCommand]:
    return HostCommand.objects.filter(subject_kind=kind, subject_id=subject_id, finished_at=None)


def pending(host_id: uuid.UUID) -> list[Command]:
    """What the host has not acknowledged yet, in the order of sending."""
    waiting = HostCommand.objects.filter(host_id=host_id, acknowledged_at=None, finished_at=None)
    return [
        Command(
            id=str(command.id),
            subject_kind=command.subject_kind,
            subject_id=str(command.subject_id),
            generation=command.generation,
            body=decode_command_body(command.body),
            deadline=command.deadline.timestamp() if command.deadline else 0.0,
        )
        for command in waiting.order_by("created_at", "generation")
    ]


def acknowledge(host_id: uuid.UUID, ids: Iterable[str]) -> int:
    """The host has stored these commands; ids that are not its own change nothing.  Returns how many were new.

    One that somebody else is ending at this moment is passed over: its end says as much.
    """
    known = HostCommand.objects.filter(host_id=host_id, id__in=_read_ids(ids), acknowledged_at=None)
    if not connection.features.has_select_for_update_skip_locked:
        return known.update(acknowledged_at=timezone.now()) if known.exists() else 0
    with transaction.atomic():
        free = list(known.select_for_update(skip_locked=True).values_list("id", flat=True))
        return known.filter(id__in=free).update(acknowledged_at=timezone.now()) if free else 0


def finish(host_id: uuid.UUID, command_id: str | uuid.UUID) -> bool:
    """The host has done with the command, well or badly; False when that was known or the command is not its own.

    What the command said is forgotten with its end: there may be passwords in it.
    """
    now = timezone.now()
    known = HostCommand.objects.filter(host_id=host_id, id__in=_read_ids([str(command_id)]), finished_at=None)
    unacknowledged = known.filter(acknowledged_at=None).update(acknowledged_at=now, finished_at=now, body="")
    return bool(unacknowledged or known.update(finished_at=now, body=""))


def withdraw(commands: QuerySet[HostCommand]) -> int:
    """Send unfinished commands no more, and pass over what is still said of them; returns how many there were."""
    return commands.filter(finished_at=None).update(finished_at=timezone.now(), body="")


def send_again(host_id: uuid.UUID) -> int:
    """The host has lost what it had stored: whatever has not ended is sent once more; returns how many commands."""
    taken = HostCommand.objects.filter(host_id=host_id, finished_at=None).exclude(acknowledged_at=None)
    return taken.update(acknowledged_at=None)


def prune() -> int:
    """Remove commands that finished long ago; returns how many."""
    return HostCommand.objects.filter(finished_at__lt=timezone.now() - KEPT).delete()[0]


def _read_ids(ids: Iterable[str]) -> list[uuid.UUID]:
    """Return the ids that are well formed; what a host sends is not trusted to be."""
    return [found for text in ids if (found := read_id(text)) is not None]
