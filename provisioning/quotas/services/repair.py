"""Finds and repairs differences while the cloud is running."""

import uuid
from collections.abc import Iterable

from django.db import transaction

from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.recounts import drift
from provisioning.quotas.recounts.drift import Finding
from provisioning.quotas.services.ledger import lock_all

ROUNDS = 3
"""Maximum number of repetitions of a repair.

A record that has changed its project is an orphan in one scope and missing in the other. An owner has only one row for
each resource, so the row of the new scope may be written only in the round after the old row was deleted.
"""


def examine() -> list[Finding]:
    """Return the differences; changes nothing.

    Suspected differences may be concurrent changes, so they are examined again under a lock.
    """
    return [difference for scope in _suspects() for difference in _examine(scope, correct=False)]


def repair() -> list[Finding]:
    """Correct the ledger from the records, and return the differences that were found. Idempotent."""
    repaired: list[Finding] = []
    for _ in range(ROUNDS):
        suspects = _suspects()
        if not suspects:
            break
        repaired += [difference for scope in suspects for difference in _examine(scope, correct=True)]
    return repaired


def _suspects() -> list[uuid.UUID]:
    return sorted({difference.scope_id for difference in drift.find()})


@transaction.atomic
def _examine(scope_id: uuid.UUID, *, correct: bool) -> list[Finding]:
    lock_all(scope_id)
    result = drift.find(scope_id)
    if correct:
        _correct(result)
        _set_counters(scope_id)
    else:
        transaction.set_rollback(True)
    return result


def _correct(findings: Iterable[Finding]) -> None:
    """Correct the reservations from the records."""
    for difference in findings:
        if difference.owner_id is None:  # a difference of a counter: _set_counters corrects it
            continue
        row = Reservation.objects.filter(
            project_id=difference.scope_id, owner_id=difference.owner_id, resource=difference.resource
        )
        values = {"amount": sum(difference.right), "committed": not difference.right[1], "user_id": difference.user_id}
        if difference.kind == "orphan":
            row.delete()
        elif difference.kind in {"different", "user"}:
            row.update(**values)
        else:
            new = Reservation(
                project_id=difference.scope_id,
                owner_id=difference.owner_id,
                resource=difference.resource,
                **values,
            )
            Reservation.objects.bulk_create([new], ignore_conflicts=True)


def _set_counters(scope_id: uuid.UUID) -> None:
    for difference in drift.find(scope_id):
        if difference.kind == "counter":
            QuotaUsage.objects.update_or_create(  # a volume type may have no counter yet
                project_id=scope_id,
                resource=difference.resource,
                defaults={"in_use": difference.right[0], "reserved": difference.right[1]},
            )
