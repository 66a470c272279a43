"""Brings hosts to what the records say of one subject: a command to each host that was told something else."""

import hashlib
import logging
import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
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

from compute_agent.contract.messages import DOCUMENTS, MAX_DOCUMENT, encode
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP, ApplyRequest, ForgetRequest
from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared, PreparedDelete, PreparedUpdate
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Subject
from provisioning.network.delivery import conditions, documents, proofs
from provisioning.network.delivery.needs import Needs, networks_of_routers
from provisioning.network.marks import HOST, PORTS, Marked, mark
from provisioning.network.models import Delivery, DeliveryMark

log = logging.getLogger(__name__)

UNKNOWN = "?"
"""The digest of what a host was told when that does not count any more."""
LEAP = 1_000
"""Added to the number of a document that a host refuses as older without saying what number it has."""
HIGHEST = 2**62
"""A host's number above this one is not believed: the next ones must fit into the column."""
LARGE, PER_SECOND = 256 * 1024, 64 * 1024
"""Versions of a network of so many bytes follow each other on a host so slowly that they take so many a second."""
ORDER = (SECURITY_GROUP, NETWORK, ROUTER, FLOATING_IP)


def take(subjects: Iterable[Marked]) -> None:
    """Take marks away, then bring hosts to what the records say.

    In this order: a change that comes in between marks the subject again.  A router's change is one of its networks,
    too, and the hosts of its guests may need networks that they did not.  Hosts come last: by then they were told most
    of what they need.
    """
    wanted = list(subjects)
    for kind, key in wanted:
        _UNMARK(kind=kind, key=key)
    hosts = {key for kind, key in wanted if kind == HOST}
    changed = {(NETWORK if kind == PORTS else kind, key) for kind, key in wanted if kind != HOST}
    routers = [key for kind, key in wanted if kind == ROUTER]
    for kind, key in sorted({*changed, *((NETWORK, each) for each in networks_of_routers(routers))}, key=_order):
        bring(kind, key)
    for kind, key in wanted:
        if kind in {ROUTER, NETWORK}:
            hosts.update(Delivery.objects.filter(kind=kind, subject_id=key).values_list("host_id", flat=True))
    for host in sorted(hosts):
        bring_host(host)


_UNMARK = PreparedDelete(
    lambda kind, key: DeliveryMark.objects.filter(kind=kind, subject_id=key), kind=CharField(), key=UUIDField()
)

_TOLD_HOST = Prepared(lambda host: Host.objects.filter(id=host, contract_version__gte=DOCUMENTS), host=UUIDField())
_TOLD = Prepared(
    lambda host: Delivery.objects.filter(host_id=host).exclude(digest="").values_list("kind", "subject_id"),
    host=UUIDField(),
)


def bring_host(host_id: uuid.UUID) -> None:
    """Tell a host everything that it needs and was not told, and to forget what it needs no more."""
    host = _TOLD_HOST.first(host=host_id)
    if host is None:
        return
    told = set(_TOLD(host=host.id))
    for kind, key in sorted(Needs().of_host(host) ^ told, key=_order):
        bring(kind, key)


def _order(subject: tuple[str, uuid.UUID]) -> tuple[int, str]:
    """Groups first, so that a guest's rules are there soon; then what they lie on."""
    kind, key = subject
    return (ORDER.index(kind), key.hex)


def bring(kind: str, subject_id: uuid.UUID) -> None:
    """Command whatever a host was not told yet; idempotent.

    A host that still works on an older command gets the newest one when that has ended, and none in between.
    """
    with transaction.atomic():
        rows, wanted = lock(kind, [subject_id]), documents.of(kind, subject_id)
        while missing := wanted.keys() - {row.host_id for row in rows}:
            # Another worker may be making the same: this waits until it has told the hosts, and looks at them anew.
            new = (Delivery(host_id=host_id, kind=kind, subject_id=subject_id) for host_id in sorted(missing))
            Delivery.objects.bulk_create(new, ignore_conflicts=True)
            rows, wanted = lock(kind, [subject_id]), documents.of(kind, subject_id)
        for row in rows:
            _tell(row, wanted.get(row.host_id))
        if any(row.error for row in rows):
            conditions.note(kind, subject_id, rows)


def lock(kind: str, ids: Iterable[uuid.UUID]) -> list[Delivery]:
    """Lock what was told of these subjects until the transaction ends; always in the same order."""
    wanted = list(ids)
    return _LOCKED(kind=kind, ids=wanted) if wanted else []


def _locked(kind: Value, ids: Value) -> QuerySet[Delivery]:
    rows = Delivery.objects.select_for_update().filter(Among("subject_id", ids), kind=kind)
    return rows.order_by("subject_id", "host_id")


_LOCKED = Prepared(_locked, kind=CharField(), ids=Ids())


def _tell(row: Delivery, document: ApplyRequest | None) -> None:
    if document is None and row.kept:
        return
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
        body = replace(document, digest=proofs.mark_of(row, digest)) if document is not None else ForgetRequest()
        subject = Subject(row.kind, row.subject_id, row.generation)
        row.command_id = commands.send(row.host_id, subject, body, None).id
        row.digest, row.again, row.changed_at = digest, False, timezone.now()
        _write(row)


def _write(row: Delivery) -> None:
    """Write down what a host was told, or what became of it."""
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
    """Return whether the next version of a large network waits: each port that changes gives it another one."""
    if row.kind != NETWORK or length < LARGE or row.changed_at is None:
        return False
    return timezone.now() < row.changed_at + timedelta(seconds=length / PER_SECOND)


def _too_long(row: Delivery, length: int) -> None:
    """Show that a host is not told: no agent takes such a message.  The clock looks again whether it is shorter."""
    row.error, row.tries = f"Its description has {length} bytes; an agent takes {MAX_DOCUMENT}.", row.tries + 1
    row.digest, row.again, row.changed_at = UNKNOWN, False, timezone.now()
    row.save()
    log.error("Host %s is not told of %s %s: %s", row.host_id, row.kind, row.subject_id, row.error)


def ended(row: Delivery, command: HostCommand, *, error: str = "") -> bool:
    """Take the end of a command; return whether the subject has to be looked at again at once.

    After a failure it is commanded anew by the clock.
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
    """Take the refusal of a command whose number is older than that of the host; return whether to tell it at once.

    ``newest``: the host's number, None: it does not say.  A host that refuses the next number, too, is told by the
    clock.
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
    """Return a host's number as it is written down."""
    return min(generation, HIGHEST)


def tell_again(row: Delivery) -> None:
    """Forget that the host was told: the next look commands it again, and nobody waits for the command of before."""
    if row.command_id is not None:
        commands.withdraw(HostCommand.objects.filter(id=row.command_id))
    row.digest, row.command_id, row.again = UNKNOWN, None, False
    row.save()


@transaction.atomic
def send_anew(found: Delivery) -> None:
    """Tell a host again what it knows of a subject, or must forget, whether or not that has changed."""
    for row in lock(found.kind, [found.subject_id]):
        if row.pk == found.pk and row.digest:
            tell_again(row)
            mark(row.kind, [row.subject_id])
