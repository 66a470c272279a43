"""Compares the documents that a host has with the records.

The records are authoritative. A host with a newer document than the records contain proves that records were lost (a
backup was restored, or a failure took the last transactions). The host's generation is recorded, and the document of
the records is sent again with a higher generation.

A host is not trusted with other tenants' data. A document that it was never sent, or was commanded to forget, counts
only if the control plane has signed it (``is_proven``).
"""

import logging
import uuid
from collections.abc import Collection, Mapping
from datetime import timedelta

from django.utils import timezone

from compute_agent.contract.messages import Owned
from compute_agent.contract.network import NETWORK, SECURITY_GROUP
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.restored import LEAP
from provisioning.network.delivery import sending
from provisioning.network.delivery.needs import Needs
from provisioning.network.models import Delivery
from provisioning.network.records.marks import mark

log = logging.getLogger(__name__)

MOST_UNKNOWN = 1_000
"""Maximum number of documents of one kind without a record that are accepted from a host, because hosts are not
trusted.
"""
LOST_AFTER = timedelta(minutes=2)
"""Time after which the missing result of a command counts as lost; normally it arrives within seconds."""
KEPT_FOR_GUESTS = (NETWORK, SECURITY_GROUP)
"""Kinds of documents that a guest needs to keep its address and its rules.

A host always forgets routers and floating IPs without a record: their addresses may be in use elsewhere.
"""


def compare(kind: str, host_id: uuid.UUID, reported: Mapping[uuid.UUID, Owned], *, complete: bool) -> None:
    """Reconcile the deliveries of one kind with the documents that a host reports, in the caller's transaction.

    ``complete``: the report is a ``Hello``, which contains all documents of the host. Other reports may be older than
    the last delivery.
    """
    rows = _locked(kind, host_id)
    unknown = {key for key, owned in reported.items() if owned.in_use is not None} - {row.subject_id for row in rows}
    new = [Delivery(host_id=host_id, kind=kind, subject_id=key) for key in sorted(unknown)]
    missing = {row.subject_id for row in new if sending.is_proven(row, reported[row.subject_id])}
    if missing:
        missing = set(sorted(missing)[:MOST_UNKNOWN])
        Delivery.objects.bulk_create((row for row in new if row.subject_id in missing), ignore_conflicts=True)
        rows = _locked(kind, host_id)
    used = {row.subject_id for row in rows if _is_used(row, reported.get(row.subject_id))}
    if not complete:  # the last Hello reported the other documents
        used &= missing | {row.subject_id for row in rows if row.kept}
    unplaced = _unplaced(kind, host_id, used)
    for row in rows:
        owned = reported.get(row.subject_id)
        newer_at = row.newer_at
        again = _needs_delivery(row, owned, known=row.subject_id not in missing, complete=complete)
        kept = row.subject_id in unplaced
        vni = _vni(owned) if kept and owned is not None else None
        changed = (kept, vni, newer_at) != (row.kept, row.vni, row.newer_at)
        row.kept, row.vni = kept, vni
        if again or changed:
            sending.send_again(row)
            mark(kind, [row.subject_id])


def _locked(kind: str, host_id: uuid.UUID) -> list[Delivery]:
    rows = Delivery.objects.select_for_update().filter(host_id=host_id, kind=kind)
    return list(rows.order_by("subject_id"))


def _is_used(row: Delivery, owned: Owned | None) -> bool:
    """Return whether a guest of the host uses the document of this delivery, and the host may still have the document.

    The host may have it if it was sent and the host was not commanded to forget it.
    """
    if owned is None or not owned.in_use or row.kind not in KEPT_FOR_GUESTS:
        return False
    forgotten = row.copied - 1 if row.copied is not None else row.generation
    return bool(row.digest) or (owned.generation > forgotten and sending.is_proven(row, owned))


def _unplaced(kind: str, host_id: uuid.UUID, used: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the subjects that guests of the host use, but that the host does not need according to the placement in
    the database.
    """
    host = Host.objects.filter(id=host_id).first() if used else None
    if host is None:
        return set()
    placed = Needs(kept=False).of_host(host)
    return {key for key in used if (kind, key) not in placed}


def _needs_delivery(row: Delivery, owned: Owned | None, *, known: bool, complete: bool) -> bool:
    """Return whether the host's spec differs from the last delivery, and no pending command will correct it.

    If the host's generation is newer, it is recorded in ``row``.
    """
    if owned is not None and _is_newer(row, owned):
        row.generation = sending.taken_over(owned.generation)
        if known:
            _note_newer(row)
        return True
    if owned is not None and row.copied is not None and row.copied < owned.generation < row.copied + LEAP:
        _note_newer(row)
    if _has_lost_its_end(row, owned):
        return True
    if not complete:
        return False
    if owned is not None and owned.generation == row.generation:
        return bool(row.digest) and row.command_id is None and sending.is_outdated(row, owned)
    if not row.digest:  # the host must forget the document
        return owned is not None and not _on_its_way(row)
    return not _on_its_way(row)


def _vni(owned: Owned) -> int | None:
    """Return the VNI of a network that a host still has; None if it is not a valid VNI."""
    return owned.vni if owned.vni is not None and 0 < owned.vni < 1 << 24 else None


def _has_lost_its_end(row: Delivery, owned: Owned | None) -> bool:
    """Return whether the host has carried out its pending command some time ago, but the result has not arrived.

    The result may have been lost with database records. While the command is pending, no other version is sent.
    """
    if row.command_id is None or row.changed_at is None or row.changed_at > timezone.now() - LOST_AFTER:
        return False
    has = owned is not None and owned.generation == row.generation if row.digest else owned is None
    taken = HostCommand.objects.filter(id=row.command_id, finished_at=None).exclude(acknowledged_at=None)
    return has and taken.exists()


def _note_newer(row: Delivery) -> None:
    row.newer_at = timezone.now()
    log.warning(
        "Host %s has a newer version of %s %s than the records: records are lost. It is sent again.",
        row.host_id, row.kind, row.subject_id,
    )  # fmt: skip


def _is_newer(row: Delivery, owned: Owned) -> bool:
    if owned.generation != row.generation:
        return owned.generation > row.generation
    if row.digest in ("", sending.UNKNOWN):  # it must be forgotten, or is sent again anyway
        return not row.digest and row.command_id is None
    return bool(owned.digest) and sending.digest_in(owned) != row.digest


def _on_its_way(row: Delivery) -> bool:
    if row.command_id is None:
        return False
    return HostCommand.objects.filter(id=row.command_id, acknowledged_at=None, finished_at=None).exists()
