"""Commands to hosts: rows that are sent until the host acknowledges them, and kept until it says how they ended."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import DateTimeField, F, QuerySet, UUIDField
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import REPORTS_BEGINNING, Command, decode_command_body, encode
from provisioning.common.ids import read_id
from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared, PreparedInsert, PreparedUpdate
from provisioning.events import services as events
from provisioning.hosts import command_times
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.sealing import opened, sealed
from provisioning.hosts.selectors import is_alive
from provisioning.hosts.subjects import Subject

NOTED_EVERY = timedelta(seconds=5)
"""A command's signs of life are written down no more often."""
MARGIN = timedelta(seconds=10)
"""The deadline of whatever waits for a command is so much later than the command's own."""
KEPT = timedelta(days=1)
"""How long finished commands are kept for whoever looks into a fault."""


def topic(host_id: uuid.UUID) -> str:
    """The event topic that the web process holding the host's link follows."""
    return f"host:{host_id}"


def send(
    host_id: uuid.UUID, subject: Subject, body: CommandBody, deadline: datetime | None, *, beside: bool = False
) -> HostCommand:
    """Command something of a host in the caller's transaction; sent when that commits, and again until acknowledged.

    ``deadline``: until when the host must have said something of it; each sign of life gives it as long again.
    ``beside``: it belongs to no task of its subject and goes on beside it, in its turn.
    """
    now = timezone.now()
    timeout = max(round((deadline - now).total_seconds()), 1) if deadline is not None else None
    command = HostCommand(
        host_id=host_id,
        subject_kind=subject.kind,
        subject_id=subject.id,
        generation=subject.generation,
        kind=str(type(body).__struct_config__.tag),
        body=encode(sealed(body)).decode(),
        deadline=deadline,
        timeout=timeout,
        ends_at=now + timedelta(seconds=settings.HOST_QUEUE_TIMEOUT) if timeout is not None else None,
        beside=beside,
    )
    _SEND([command])
    events.record(topic(host_id), "command", {"id": str(command.id)})
    return command


_SEND = PreparedInsert(HostCommand)


def repeat(command: HostCommand, generation: int) -> HostCommand:
    """Send a command that has ended once more, under another generation, with all its time; as ``send``."""
    now = timezone.now()
    timed = command.timeout is not None
    again = HostCommand.objects.create(
        host_id=command.host_id,
        subject_kind=command.subject_kind,
        subject_id=command.subject_id,
        generation=generation,
        kind=command.kind,
        body=command.body,
        deadline=now + timedelta(seconds=command.timeout or 0) if timed else None,
        timeout=command.timeout,
        ends_at=now + timedelta(seconds=settings.HOST_QUEUE_TIMEOUT) if timed else None,
        beside=command.beside,
        repeated=True,
    )
    events.record(topic(again.host_id), "command", {"id": str(again.id)})
    return again


def unfinished(kind: str, subject_id: uuid.UUID) -> QuerySet[HostCommand]:
    return HostCommand.objects.filter(subject_kind=kind, subject_id=subject_id, finished_at=None)


def pending(host_id: uuid.UUID) -> list[Command]:
    """What the host has not acknowledged yet, in the order of sending; its times are what is left now."""
    now = timezone.now()
    return [
        Command(
            id=str(command.id),
            subject_kind=command.subject_kind,
            subject_id=str(command.subject_id),
            generation=command.generation,
            body=body,
            begin_within=(command.ends_at - now).total_seconds() if command.ends_at else None,
            timeout=command.timeout,
            total=command.timeout * settings.PROGRESS_LIMIT or None if command.timeout else None,
            deadline=command.deadline.timestamp() if command.deadline else 0.0,
        )
        for command in _WAITING(host_id=host_id)
        if (body := opened(decode_command_body(command.body))) is not None
    ]


_WAITING = Prepared(
    lambda host_id: HostCommand.objects.filter(host_id=host_id, acknowledged_at=None, finished_at=None).order_by(
        "created_at", "generation"
    ),
    host_id=UUIDField(),
)


def awaited(host_id: uuid.UUID) -> list[str]:
    """Return the ids of the commands whose end is still waited for."""
    rows = HostCommand.objects.filter(host_id=host_id, finished_at=None)
    return [str(key) for key in rows.values_list("id", flat=True)]


def goes_on(command: HostCommand, *, begun: bool) -> datetime | None:
    """Take a sign that the host works on a command; return until when it is waited for now.

    None, and nothing is written, without a deadline, when as much was noted just now, and for a first sign that comes
    soon: most commands end before another one (``begun``: the host says so).
    """
    if command.timeout is None or command.deadline is None:
        return None
    now, timeout = timezone.now(), timedelta(seconds=command.timeout)
    if command.begun_at is None:
        if not begun and now - command.created_at < NOTED_EVERY:
            return None
        limit: int = settings.PROGRESS_LIMIT
        command.begun_at, command.ends_at = now, now + limit * timeout if limit else None
    deadline = now + timeout if command.ends_at is None else min(now + timeout, command.ends_at)
    if command.begun_at != now and deadline - command.deadline < NOTED_EVERY:
        return None
    command.deadline = deadline
    command.save(update_fields=["begun_at", "deadline", "ends_at"])
    return deadline


def waits_there(command: HostCommand, host: Host | None) -> datetime | None:
    """Return until when to look again after a command that waits its turn on a host that is alive; else None."""
    now = timezone.now()
    if command.timeout is None or command.ends_at is None or command.acknowledged_at is None:
        return None
    if host is None or host.contract_version < REPORTS_BEGINNING or not is_alive(host, now):
        return None
    if command.begun_at is not None or command.ends_at <= now:
        return None
    return min(now + timedelta(seconds=command.timeout), command.ends_at)


def awaited_until(unfinished_now: Iterable[HostCommand]) -> datetime | None:
    """Return until when to look again after commands, None when no host works on one of them.

    One counts that waits its turn on a host that is alive, and one whose host has given a sign of life in time.
    """
    now, found, rows = timezone.now(), list[datetime](), list(unfinished_now)
    hosts = {host.id: host for host in Host.objects.filter(id__in=[row.host_id for row in rows])}
    for row in rows:
        until = waits_there(row, hosts.get(row.host_id))
        if until is not None:
            found.append(until + MARGIN)
        elif row.deadline is not None and row.deadline > now:
            found.append(row.deadline + MARGIN)
    return max(found, default=None)


def postpone(by: timedelta) -> None:
    """Move every time that is counted for open commands: nobody looked after them for so long."""
    timed = HostCommand.objects.filter(finished_at=None, timeout__isnull=False)
    timed.update(deadline=F("deadline") + by, ends_at=F("ends_at") + by)


def acknowledge(host_id: uuid.UUID, ids: Iterable[str]) -> int:
    """The host has stored these commands; ids that are not its own change nothing.  Returns how many were new.

    One that somebody else is ending at this moment is passed over: its end says as much.
    """
    new = _UNACKNOWLEDGED(host_id=host_id, ids=_read_ids(ids))
    if not new:  # as with most: their ends came first
        return 0
    known = HostCommand.objects.filter(id__in=new, acknowledged_at=None)
    if not connection.features.has_select_for_update_skip_locked:
        return known.update(acknowledged_at=timezone.now())
    with transaction.atomic():
        free = list(known.select_for_update(skip_locked=True).values_list("id", flat=True))
        return known.filter(id__in=free).update(acknowledged_at=timezone.now()) if free else 0


_UNACKNOWLEDGED = Prepared(
    lambda host_id, ids: HostCommand.objects.filter(
        Among("id", ids), host_id=host_id, acknowledged_at=None
    ).values_list("id", flat=True),
    host_id=UUIDField(),
    ids=Ids(),
)


def finish(host_id: uuid.UUID, command_id: str | uuid.UUID) -> bool:
    """The host has done with the command, well or badly; False when that was known or the command is not its own.

    What the command said is forgotten with its end: there may be passwords in it.
    """
    key = read_id(command_id)
    return key is not None and bool(_FINISH(host_id=host_id, key=key, now=timezone.now()))


_FINISH = PreparedUpdate(
    lambda host_id, key, now: (
        HostCommand.objects.filter(host_id=host_id, id=key, finished_at=None),
        {"finished_at": now, "acknowledged_at": Coalesce(F("acknowledged_at"), now), "body": ""},
    ),
    host_id=UUIDField(),
    key=UUIDField(),
    now=DateTimeField(),
)


def withdraw(commands: QuerySet[HostCommand]) -> int:
    """Send unfinished commands no more, and pass over what is still said of them; returns how many there were."""
    return commands.filter(finished_at=None).update(finished_at=timezone.now(), body="")


def send_again(host_id: uuid.UUID) -> int:
    """The host has lost what it had stored: whatever has not ended is sent once more; returns how many commands."""
    taken = HostCommand.objects.filter(host_id=host_id, finished_at=None).exclude(acknowledged_at=None)
    return taken.update(acknowledged_at=None)


def prune() -> int:
    """Remove commands that finished long ago, and keep how long they took; returns how many."""
    before = timezone.now() - KEPT
    with transaction.atomic():
        command_times.fold(before)
        return HostCommand.objects.filter(finished_at__lt=before).delete()[0]


def _read_ids(ids: Iterable[str]) -> list[uuid.UUID]:
    """Return the ids that are well formed; what a host sends is not trusted to be."""
    return [found for text in ids if (found := read_id(text)) is not None]
