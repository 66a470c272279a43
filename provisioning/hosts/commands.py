"""Commands to hosts: rows that are sent until the host acknowledges them, and kept until it reports their result."""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import connection, transaction
from django.db.models import (
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Sum,
    UUIDField,
    Value,
)
from django.db.models.functions import Coalesce
from django.utils import timezone

from compute_agent.contract.commands import CommandBody, PasswordRequest, spec_of
from compute_agent.contract.messages import REPORTS_BEGINNING, Command, decode_command_body, encode
from compute_agent.contract.volume import VolumeSpec
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared, PreparedInsert, PreparedUpdate
from provisioning.common.values.ids import read_id
from provisioning.common.values.tally import BOUNDS, Tally
from provisioning.events import services as events
from provisioning.hosts.models import CommandTotal, Host, HostCall, HostCommand
from provisioning.hosts.selectors import is_alive
from provisioning.hosts.subjects import Subject
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed

NOTED_EVERY = timedelta(seconds=5)
"""Minimum interval between two recorded heartbeats of a command (reports that its host works on it)."""
MARGIN = timedelta(seconds=10)
"""A task that waits for a command has a deadline this much later than the command's."""
RETENTION = timedelta(days=1)
"""How long finished commands are kept for debugging."""

TRIES = 5

log = logging.getLogger(__name__)
B = TypeVar("B", bound=CommandBody)


def topic(host_id: uuid.UUID) -> str:
    """Return the event topic that the web process with the host's link subscribes to."""
    return f"host:{host_id}"


def send(
    host_id: uuid.UUID,
    subject: Subject,
    body: CommandBody,
    deadline: datetime | None,
    *,
    beside: bool = False,
    lasting: bool = False,
) -> HostCommand:
    """Queue a command to a host in the caller's transaction. It is sent on commit, and again until the host
    acknowledges it.

    ``deadline``: the time by which the host must have reported the command's end; each heartbeat extends it by the
    same duration. ``beside``: no task of the subject waits for the command. ``lasting``: the host carries out the
    command however late it gets it.
    """
    command = new(host_id, subject, body, deadline, beside=beside)
    command.ends_at = None if lasting else command.ends_at
    send_all([command])
    return command


def new(
    host_id: uuid.UUID, subject: Subject, body: CommandBody, deadline: datetime | None, *, beside: bool = False
) -> HostCommand:
    """Return a command for ``send_all``, with the parameters of ``send``."""
    now = timezone.now()
    timeout = max(round((deadline - now).total_seconds()), 1) if deadline is not None else None
    return HostCommand(
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


def send_all(commands: Sequence[HostCommand]) -> None:
    """Queue new commands, as ``send`` does for one command."""
    _SEND(commands)
    events.record_all([(topic(command.host_id), "command", {"id": str(command.id)}) for command in commands])


_SEND = PreparedInsert(HostCommand)


def repeat(command: HostCommand, generation: int) -> HostCommand:
    """Send an ended command again, with another generation and a new deadline, in the caller's transaction."""
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
    """Return unacknowledged commands of the host in the order of sending, with their remaining times."""
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
    """Return the ids of the host's unfinished commands."""
    rows = HostCommand.objects.filter(host_id=host_id, finished_at=None)
    return [str(key) for key in rows.values_list("id", flat=True)]


def goes_on(command: HostCommand, *, begun: bool) -> datetime | None:
    """Record a heartbeat of a command; return its new deadline.

    Returns None, with nothing written, if the command has no deadline, or if less than ``NOTED_EVERY`` has passed since
    the last recorded heartbeat. The first heartbeat also counts only after that time, unless the host has reported that
    it began (``begun``), because most commands end before a second heartbeat.
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
    """Return when to check a command again, if a live host has acknowledged and not yet begun it; otherwise None."""
    now = timezone.now()
    if command.timeout is None or command.acknowledged_at is None:
        return None
    if host is None or host.contract_version < REPORTS_BEGINNING or not is_alive(host, now):
        return None
    if command.begun_at is not None or (command.ends_at is not None and command.ends_at <= now):
        return None
    until = now + timedelta(seconds=command.timeout)
    return until if command.ends_at is None else min(until, command.ends_at)


def awaited_until(unfinished_now: Iterable[HostCommand]) -> datetime | None:
    """Return the latest time until which the end of one of these commands is awaited; None if no host works on any of
    them.

    A host works on a command that waits in the queue of a live host, or whose deadline has not passed.
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
    """Postpone the deadlines of all unfinished commands by the time for which the control plane was down."""
    timed = HostCommand.objects.filter(finished_at=None, timeout__isnull=False)
    timed.update(deadline=F("deadline") + by, ends_at=F("ends_at") + by)


def acknowledge(host_id: uuid.UUID, ids: Iterable[str]) -> int:
    """Record that the host has stored these commands; ids of other hosts are ignored. Returns the number of newly
    acknowledged commands.

    A command that another transaction is finishing is skipped, because its end acknowledges it as well.
    """
    new = _UNACKNOWLEDGED(host_id=host_id, ids=_read_ids(ids))
    if not new:  # usual: their ends arrived first
        return 0
    if not connection.features.has_select_for_update_skip_locked:
        return _ACKNOWLEDGE(ids=new, now=timezone.now())
    with transaction.atomic():
        free = _FREE(ids=new)
        return _ACKNOWLEDGE(ids=free, now=timezone.now()) if free else 0


def _free(ids: Value) -> QuerySet[HostCommand, uuid.UUID]:
    rows = HostCommand.objects.select_for_update(skip_locked=True).filter(Among("id", ids), acknowledged_at=None)
    return rows.values_list("id", flat=True)


_FREE = Prepared(_free, ids=Ids())
_ACKNOWLEDGE = PreparedUpdate(
    lambda ids, now: (HostCommand.objects.filter(Among("id", ids), acknowledged_at=None), {"acknowledged_at": now}),
    ids=Ids(),
    now=DateTimeField(),
)
_UNACKNOWLEDGED = Prepared(
    lambda host_id, ids: HostCommand.objects.filter(
        Among("id", ids), host_id=host_id, acknowledged_at=None
    ).values_list("id", flat=True),
    host_id=UUIDField(),
    ids=Ids(),
)


def finish(host_id: uuid.UUID, command_id: str | uuid.UUID) -> bool:
    """Record that the command has finished or failed; False if it had ended before or is a command to another host.

    The body is deleted, because it may contain passwords.
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
    """Stop sending unfinished commands, and ignore later reports about them; returns their number."""
    return commands.filter(finished_at=None).update(**withdrawn(timezone.now()))


def withdrawn(now: Any) -> dict[str, Any]:
    """Return the values of the columns of a command that is withdrawn."""
    return {"finished_at": now, "body": ""}


def send_again(host_id: uuid.UUID) -> int:
    """Send all unfinished commands again, because the host has lost its stored commands; returns their number."""
    taken = HostCommand.objects.filter(host_id=host_id, finished_at=None).exclude(acknowledged_at=None)
    return taken.update(acknowledged_at=None)


def prune() -> int:
    """Delete commands that finished long ago, and add their durations to the totals; returns their number."""
    before = timezone.now() - RETENTION
    with transaction.atomic():
        fold_times(before)
        return HostCommand.objects.filter(finished_at__lt=before).delete()[0]


def _read_ids(ids: Iterable[str]) -> list[uuid.UUID]:
    """Return the valid ids; hosts are not trusted to send only valid ones."""
    return [parsed for text in ids if (parsed := read_id(text)) is not None]


def forget(host_id: uuid.UUID) -> None:
    """End all commands and calls to a host, and its agent's connection, in the caller's transaction."""
    HostCommand.objects.filter(host_id=host_id, finished_at=None).update(finished_at=timezone.now())
    HostCall.objects.filter(host_id=host_id).delete()
    events.record(topic(host_id), "link", {"link": "forgotten"})


_EDGES = [timedelta(-1), *(timedelta(seconds=bound) for bound in BOUNDS), None]


def command_times() -> dict[str, Tally]:
    """Return kind of command → durations. Reads again, up to ``TRIES`` times, if ``fold`` changes the totals in the
    meantime.
    """
    before = _folded()
    for _ in range(TRIES):
        result = {kind: Tally(each.count, each.seconds, list(each.buckets)) for kind, each in before.items()}
        _add(result, _measured(HostCommand.objects.all()))
        after = _folded()
        if {kind: each.count for kind, each in after.items()} == {kind: each.count for kind, each in before.items()}:
            break
        before = after
    return result


def fold_times(before: datetime) -> None:
    """Add commands that ended before this moment to the totals; the caller deletes them in the same transaction."""
    folded = _folded(lock=True)
    for kind, tally in _add(folded, _measured(HostCommand.objects.filter(finished_at__lt=before))).items():
        values = {"count": tally.count, "seconds": tally.seconds, "buckets": tally.buckets}
        CommandTotal.objects.update_or_create(kind=kind, defaults=values)


def _folded(*, lock: bool = False) -> dict[str, Tally]:
    rows = CommandTotal.objects.select_for_update() if lock else CommandTotal.objects.all()
    return {row.kind: Tally(row.count, row.seconds, list(row.buckets)) for row in rows.order_by("kind")}


def _add(tallies: dict[str, Tally], more: dict[str, Tally]) -> dict[str, Tally]:
    for kind, tally in more.items():
        tallies.setdefault(kind, Tally()).add(tally.count, tally.seconds, tally.buckets)
    return tallies


def _measured(commands: QuerySet[HostCommand]) -> dict[str, Tally]:
    """Aggregate the finished commands in one statement."""
    took = ExpressionWrapper(F("finished_at") - F("created_at"), output_field=DurationField())
    buckets: dict[str, Any] = {}
    for at, (above, upto) in enumerate(pairwise(_EDGES)):
        within = Q(took__gt=above) if upto is None else Q(took__gt=above, took__lte=upto)
        buckets[f"bucket_{at}"] = Count("id", filter=within)
    ended = commands.exclude(begun_at=None).exclude(finished_at=None).annotate(took=took).order_by().values("kind")
    rows: Iterable[Mapping[str, Any]] = ended.annotate(many=Count("id"), all=Sum("took"), **buckets)
    return {
        row["kind"]: Tally(row["many"], row["all"].total_seconds(), [row[name] for name in buckets]) for row in rows
    }


def sealed(body: B) -> B:
    """Return a command as it is stored: its password or volume key is encrypted with the credential keys."""
    return _with_password(body, lambda password: keys.CREDENTIALS.current().encrypt(password.encode()).decode())


def opened(body: B) -> B | None:
    """Return a stored command as the host receives it; None if its password or volume key cannot be decrypted."""
    try:
        return _with_password(body, lambda password: keys.CREDENTIALS.current().decrypt(password.encode()).decode())
    except (InvalidToken, keys.KeysMissingError):
        log.error("The key of a command's password is missing; the command ends with its deadline.")  # noqa: TRY400
        return None


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the secrets of unfinished commands again with ``newest``.

    Returns the number of changed commands, and the ids of commands whose secret no key decrypts.
    """
    changed, lost = 0, []
    unfinished = HostCommand.objects.filter(finished_at=None)
    for command_id, kept in list(unfinished.values_list("id", "body")):
        body = decode_command_body(kept)
        try:
            fresh = _with_password(body, lambda password: renewed(password, newest))
        except InvalidToken:
            lost.append(str(command_id))
            continue
        if fresh != body:
            changed += unfinished.filter(id=command_id).update(body=encode(fresh).decode())
    return changed, lost


def _with_password(body: B, change: Callable[[str], str]) -> B:
    if isinstance(body, PasswordRequest):
        return msgspec.structs.replace(body, password=change(body.password))
    volume = getattr(body, "volume", None)
    if isinstance(volume, VolumeSpec):
        if volume.encryption is None:
            return body
        encryption = msgspec.structs.replace(volume.encryption, key=change(volume.encryption.key))
        return msgspec.structs.replace(body, volume=msgspec.structs.replace(volume, encryption=encryption))
    spec = spec_of(body)
    if spec is None or not spec.admin_password:
        return body
    changed = msgspec.structs.replace(spec, admin_password=change(spec.admin_password))
    return msgspec.structs.replace(body, instance=changed)
