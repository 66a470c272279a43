"""Brings hosts to what the records say of one subject: a command to each host that was told something else."""

import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.base import Message
from compute_agent.contract.messages import DOCUMENTS, MAX_DOCUMENT, encode
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP, ForgetRequest
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Subject
from provisioning.network.delivery import documents
from provisioning.network.delivery.needs import Needs, networks_of_router
from provisioning.network.marks import HOST, mark
from provisioning.network.models import Delivery, DeliveryMark

log = logging.getLogger(__name__)

ORDER = (SECURITY_GROUP, NETWORK, ROUTER, FLOATING_IP)


def take(kind: str, key: uuid.UUID) -> None:
    """Take a mark away, then bring hosts to what the records say.

    In this order: a change that comes in between marks the subject again.  A router's change is one of its networks,
    too, and the hosts of its guests may need networks that they did not.
    """
    DeliveryMark.objects.filter(kind=kind, subject_id=key).delete()
    if kind == HOST:
        bring_host(key)
        return
    bring(kind, key)
    if kind == ROUTER:
        for network in sorted(networks_of_router(key)):
            bring(NETWORK, network)
    if kind in {ROUTER, NETWORK}:
        for host in Delivery.objects.filter(kind=kind, subject_id=key).values_list("host_id", flat=True):
            bring_host(host)


def bring_host(host_id: uuid.UUID) -> None:
    """Tell a host everything that it needs and was not told, and to forget what it needs no more."""
    host = Host.objects.filter(id=host_id, contract_version__gte=DOCUMENTS).first()
    if host is None:
        return
    told = set(Delivery.objects.filter(host_id=host.id).exclude(digest="").values_list("kind", "subject_id"))
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


def lock(kind: str, ids: Iterable[uuid.UUID]) -> list[Delivery]:
    """Lock what was told of these subjects until the transaction ends; always in the same order."""
    rows = Delivery.objects.select_for_update().filter(kind=kind, subject_id__in=list(ids))
    return list(rows.order_by("subject_id", "host_id"))


def _tell(row: Delivery, document: Message | None) -> None:
    encoded = encode(document) if document is not None else b""
    if len(encoded) > MAX_DOCUMENT:
        _too_long(row, len(encoded))
        return
    digest = hashlib.sha256(encoded).hexdigest() if encoded else ""
    if row.digest == digest:
        if row.again:
            row.again = False
            row.save(update_fields=["again"])
        return
    if row.command_id is not None:
        if not row.again:
            row.again = True
            row.save(update_fields=["again"])
        return
    row.generation += 1
    body = document if document is not None else ForgetRequest()
    subject = Subject(row.kind, row.subject_id, row.generation)
    row.command_id = commands.send(row.host_id, subject, body, None).id  # type: ignore[arg-type]
    row.digest, row.again, row.changed_at = digest, False, timezone.now()
    row.save()


def _too_long(row: Delivery, length: int) -> None:
    """Keep the reason why a host is not told, for the doctor: no agent takes such a message, however often it comes."""
    row.error, row.tries = f"Its description has {length} bytes; an agent takes {MAX_DOCUMENT}.", row.tries + 1
    row.save(update_fields=["error", "tries"])
    log.error("Host %s is not told of %s %s: %s", row.host_id, row.kind, row.subject_id, row.error)


def ended(row: Delivery, command: HostCommand, *, error: str = "") -> bool:
    """Take the end of a command; return whether the subject has to be looked at again at once.

    After a failure it is commanded anew by the clock.
    """
    if row.command_id != command.id:
        return False
    row.command_id, row.error = None, error[:255]
    row.tries = row.tries + 1 if error else 0
    again, row.again = row.again, False
    row.changed_at = timezone.now()
    row.save()
    return again


def as_told(row: Delivery, known: Mapping[uuid.UUID, int]) -> bool:
    """Whether a host that has ``known`` (subject → generation) has what it was told, or is going to."""
    if not row.digest:
        return True
    if known.get(row.subject_id, -1) >= row.generation:
        return True
    if row.command_id is None:
        return False
    return HostCommand.objects.filter(id=row.command_id, acknowledged_at=None, finished_at=None).exists()


def tell_again(row: Delivery) -> None:
    """Forget that the host was told: the next look commands it anew."""
    row.digest, row.command_id, row.again = "?", None, False
    row.save()


@transaction.atomic
def send_anew(found: Delivery) -> None:
    """Tell a host again what it knows of a subject, or must forget, whether or not that has changed."""
    for row in lock(found.kind, [found.subject_id]):
        if row.pk == found.pk and row.digest:
            tell_again(row)
            mark(row.kind, [row.subject_id])
