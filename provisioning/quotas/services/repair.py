"""Looking for drift, and mending it while the cloud runs."""

import uuid
from collections.abc import Iterable

from django.db import transaction

from provisioning.quotas import drift
from provisioning.quotas.drift import Finding
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.services.ledger import lock_all

ROUNDS = 3
"""A row that changed its project is an orphan here and missing there: what one round frees the next one writes."""


def examine() -> list[Finding]:
    """Return what is wrong; changes nothing.

    What looks wrong may only have moved between two looks: it is looked at again while nobody else can move it.
    """
    return [found for scope in _suspects() for found in _examine(scope, mend=False)]


def repair() -> list[Finding]:
    """Make the ledger say what the records say, and return what was wrong; a repeat finds nothing."""
    mended: list[Finding] = []
    for _ in range(ROUNDS):
        suspects = _suspects()
        if not suspects:
            break
        mended += [found for scope in suspects for found in _examine(scope, mend=True)]
    return mended


def _suspects() -> list[uuid.UUID]:
    return sorted({found.scope_id for found in drift.find()})


@transaction.atomic
def _examine(scope_id: uuid.UUID, *, mend: bool) -> list[Finding]:
    lock_all(scope_id)
    found = drift.find(scope_id)
    if mend:
        _mend(found)
        _set_counters(scope_id)
    else:
        transaction.set_rollback(True)
    return found


def _mend(findings: Iterable[Finding]) -> None:
    """Make the reservations those of the records."""
    for found in findings:
        if found.owner_id is None:  # a counter
            continue
        row = Reservation.objects.filter(project_id=found.scope_id, owner_id=found.owner_id, resource=found.resource)
        values = {"amount": sum(found.right), "committed": not found.right[1], "user_id": found.user_id}
        if found.kind == "orphan":
            row.delete()
        elif found.kind in {"different", "user"}:
            row.update(**values)
        else:
            new = Reservation(
                project_id=found.scope_id,
                owner_id=found.owner_id,
                resource=found.resource,
                **values,
            )
            Reservation.objects.bulk_create([new], ignore_conflicts=True)


def _set_counters(scope_id: uuid.UUID) -> None:
    for found in drift.find(scope_id):
        if found.kind == "counter":
            QuotaUsage.objects.update_or_create(  # a type of volumes may have had no counter yet
                project_id=scope_id,
                resource=found.resource,
                defaults={"in_use": found.right[0], "reserved": found.right[1]},
            )
