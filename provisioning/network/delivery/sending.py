"""Sends a subject's document to each host whose last delivery differs from the records."""

import hashlib
import hmac
import logging
import uuid
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import (
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    IntegerField,
    QuerySet,
    UUIDField,
    Value,
)
from django.utils import timezone
from msgspec.structs import replace

from compute_agent.contract.messages import DOCUMENTS, MAX_DOCUMENT, Owned, encode
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP, ApplyRequest, ForgetRequest
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared, PreparedDelete, PreparedInsert, PreparedUpdate
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Subject
from provisioning.network.delivery import conditions, documents
from provisioning.network.delivery.needs import Needs, networks_of_routers
from provisioning.network.models import Delivery, DeliveryMark
from provisioning.network.records.marks import HOST, PORTS, Marked, mark

log = logging.getLogger(__name__)

UNKNOWN = "?"
"""Digest of a delivery whose document must be sent again; it equals no document's digest."""
LEAP = 1_000
"""Added to the generation when a host rejects it as outdated without reporting its own."""
HIGHEST = 2**62
"""Maximum generation that is accepted from hosts: later generations must also fit into the column."""
LARGE, PER_SECOND = 256 * 1024, 64 * 1024
"""Network documents of at least ``LARGE`` bytes are sent to a host at ``PER_SECOND`` bytes per second at most."""
ORDER = (SECURITY_GROUP, NETWORK, ROUTER, FLOATING_IP)


def send_marked(subjects: Iterable[Marked]) -> None:
    """Delete marks, then send the documents of their subjects.

    Marks are deleted first, so that a concurrent change marks its subject again. The documents of a changed router's
    networks are also sent, and its guests' hosts get the networks that they need now. Marked hosts come last, when they
    already have most documents.
    """
    keys = list(subjects)
    _unmark(keys)
    hosts = {key for kind, key in keys if kind == HOST}
    changed = {(NETWORK if kind == PORTS else kind, key) for kind, key in keys if kind != HOST}
    routers = [key for kind, key in keys if kind == ROUTER]
    for kind, key in sorted({*changed, *((NETWORK, each) for each in networks_of_routers(routers))}, key=_order):
        bring(kind, key)
    for kind, key in keys:
        if kind in {ROUTER, NETWORK}:
            hosts.update(_RECEIVERS(kind=kind, key=key))
    for host in sorted(hosts):
        bring_host(host)


def _unmark(marked: Sequence[Marked]) -> None:
    """Delete marks; where rows have locks, each in its own transaction, so that no lock is held while waiting."""
    with nullcontext() if connection.features.has_select_for_update else transaction.atomic():
        for kind, key in marked:
            _UNMARK(kind=kind, key=key)


_UNMARK = PreparedDelete(
    lambda kind, key: DeliveryMark.objects.filter(kind=kind, subject_id=key), kind=CharField(), key=UUIDField()
)

_RECEIVERS = Prepared(
    lambda kind, key: Delivery.objects.filter(kind=kind, subject_id=key).values_list("host_id", flat=True),
    kind=CharField(),
    key=UUIDField(),
)
_HOST_WITH_DOCUMENTS = Prepared(
    lambda host: Host.objects.filter(id=host, contract_version__gte=DOCUMENTS), host=UUIDField()
)
_SENT = Prepared(
    lambda host: Delivery.objects.filter(host_id=host).exclude(digest="").values_list("kind", "subject_id"),
    host=UUIDField(),
)


def bring_host(host_id: uuid.UUID) -> None:
    """Send a host the documents that it needs and lacks, and the commands to forget those that it no longer needs."""
    host = _HOST_WITH_DOCUMENTS.first(host=host_id)
    if host is None:
        return
    sent = set(_SENT(host=host.id))
    for kind, key in sorted(Needs().of_host(host) ^ sent, key=_order):
        bring(kind, key)


def _order(subject: tuple[str, uuid.UUID]) -> tuple[int, str]:
    """Return a sort key: groups first, so that guests get their rules early, then networks before routers and floating
    IPs.
    """
    kind, key = subject
    return (ORDER.index(kind), key.hex)


def bring(kind: str, subject_id: uuid.UUID) -> None:
    """Send a command to each host whose document is out of date; idempotent.

    A host with a pending command gets only the newest document, after that command has ended.
    """
    with transaction.atomic():
        rows, document = lock(kind, [subject_id]), documents.of(kind, subject_id)
        while missing := document.keys() - {row.host_id for row in rows}:
            # Another worker may insert the same rows: wait until it has committed, then read them again.
            new = (Delivery(host_id=host_id, kind=kind, subject_id=subject_id) for host_id in sorted(missing))
            _ADD(new)
            rows, document = lock(kind, [subject_id]), documents.of(kind, subject_id)
        sent = [command for row in rows if (command := _record_document(row, document.get(row.host_id))) is not None]
        if sent:
            commands.send_all(sent)
        if any(row.error for row in rows):
            conditions.note(kind, subject_id, rows)


def lock(kind: str, ids: Iterable[uuid.UUID]) -> list[Delivery]:
    """Lock the deliveries of these subjects until the transaction ends, always in the same order."""
    keys = list(ids)
    return _LOCKED(kind=kind, ids=keys) if keys else []


def _locked(kind: Value, ids: Value) -> QuerySet[Delivery]:
    rows = Delivery.objects.select_for_update().filter(Among("subject_id", ids), kind=kind)
    return rows.order_by("subject_id", "host_id")


_ADD = PreparedInsert(Delivery, unique=("kind", "subject_id", "host_id"))
_LOCKED = Prepared(_locked, kind=CharField(), ids=Ids())


def _record_document(row: Delivery, document: ApplyRequest | None) -> HostCommand | None:
    """Record the document that a host needs; return the command to send to it, if any."""
    if document is None and row.kept:
        return None
    encoded = encode(document) if document is not None else b""
    digest = hashlib.sha256(encoded).hexdigest() if encoded else ""
    if row.digest == digest:
        _want(row, again=False)
    elif row.command_id is not None or _too_soon(row, len(encoded)):
        _want(row, again=True)
    elif len(encoded) > MAX_DOCUMENT:
        _too_long(row, len(encoded))
    else:
        row.generation += 1
        body = replace(document, digest=mark_of(row, digest)) if document is not None else ForgetRequest()
        command = commands.new(row.host_id, Subject(row.kind, row.subject_id, row.generation), body, None)
        row.command_id, row.digest, row.again, row.changed_at = command.id, digest, False, timezone.now()
        _write(row)
        return command
    return None


def _write(row: Delivery) -> None:
    """Save the columns of ``_WRITTEN``."""
    _WRITE(**{name: getattr(row, name) for name in _WRITTEN})


_WRITTEN: dict[str, "Field[Any, Any]"] = {
    "id": BigIntegerField(),
    "generation": BigIntegerField(),
    "digest": CharField(),
    "command_id": UUIDField(),
    "again": BooleanField(),
    "error": CharField(),
    "tries": IntegerField(),
    "copied": BigIntegerField(),
    "changed_at": DateTimeField(),
}
_WRITE = PreparedUpdate(
    lambda id, **columns: (Delivery.objects.filter(id=id), columns),  # noqa: A006 - the column's name
    **_WRITTEN,
)


def _want(row: Delivery, *, again: bool) -> None:
    if row.again != again:
        row.again = again
        row.save(update_fields=["again"])


def _too_soon(row: Delivery, length: int) -> bool:
    """Return whether the next version of a large network must wait, because every change of a port causes a new
    version.
    """
    if row.kind != NETWORK or length < LARGE or row.changed_at is None:
        return False
    return timezone.now() < row.changed_at + timedelta(seconds=length / PER_SECOND)


def _too_long(row: Delivery, length: int) -> None:
    """Record that a spec exceeds the size that agents accept; a periodic task retries."""
    row.error, row.tries = f"Its description has {length} bytes; agents accept {MAX_DOCUMENT}.", row.tries + 1
    row.digest, row.again, row.changed_at = UNKNOWN, False, timezone.now()
    row.save()
    log.error("Host %s does not receive %s %s: %s", row.host_id, row.kind, row.subject_id, row.error)


def ended(row: Delivery, command: HostCommand, *, error: str = "") -> bool:
    """Record the end of a command; return whether the subject has changed since and must be sent immediately.

    A periodic task retries after a failure.
    """
    if row.command_id != command.id:
        return False
    row.command_id, row.error = None, error[:255]
    row.tries, row.copied = (row.tries + 1, row.copied) if error else (0, None)
    again, row.again = row.again, False
    row.changed_at = timezone.now()
    _write(row)
    return again


def refused(row: Delivery, command: HostCommand, newest: int | None, reason: str) -> bool:
    """Record that a host rejected a command as older than its document; return whether to send again immediately.

    ``newest``: the host's generation, None if unknown.  A periodic task retries after a second rejection.
    """
    if row.command_id != command.id:
        return False
    first = not row.tries
    row.generation = taken_over(max(newest if newest is not None else row.generation + LEAP, row.generation))
    row.newer_at, row.digest = timezone.now(), UNKNOWN
    ended(row, command, error=reason)
    row.save(update_fields=["newer_at"])
    return first


def taken_over(generation: int) -> int:
    """Return a host's generation, limited to the range of the column."""
    return min(generation, HIGHEST)


def send_again(row: Delivery) -> None:
    """Invalidate a delivery, so that its document is sent again, and withdraw its pending command."""
    if row.command_id is not None:
        commands.withdraw(HostCommand.objects.filter(id=row.command_id))
    row.digest, row.command_id, row.again = UNKNOWN, None, False
    row.save()


@transaction.atomic
def resend(delivery: Delivery) -> None:
    """Send a host the document of a subject again, or the command to forget it, even if it has not changed."""
    for row in lock(delivery.kind, [delivery.subject_id]):
        if row.pk == delivery.pk and row.digest:
            send_again(row)
            mark(row.kind, [row.subject_id])


def mark_of(row: Delivery, digest: str) -> str:
    """Return the mark that a host repeats for a document with this digest."""
    return f"{digest}.{_signature(row, row.generation, settings.SECRET_KEY)}"


def digest_in(owned: Owned) -> str:
    """Return the digest that a host reports for its document; empty if it reports none."""
    return owned.digest.partition(".")[0]


def is_proven(row: Delivery, owned: Owned) -> bool:
    """Return whether the control plane sent this version of the document to the host of the row."""
    return any(_bears(row, owned, key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def is_outdated(row: Delivery, owned: Owned) -> bool:
    """Return whether an old key signed the mark: the document must be sent again before the next key rotation."""
    return bool(owned.digest) and not _bears(row, owned, settings.SECRET_KEY)


def _bears(row: Delivery, owned: Owned, key: str) -> bool:
    signature = owned.digest.partition(".")[2]
    return hmac.compare_digest(signature.encode(), _signature(row, owned.generation, key).encode())


def _signature(row: Delivery, generation: int, key: str) -> str:
    text = f"novella.documents\0{row.host_id}\0{row.kind}\0{row.subject_id}\0{generation}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
