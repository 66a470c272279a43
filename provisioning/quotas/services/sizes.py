"""Holding more or less for something that is there already: a server that becomes larger or smaller."""

import uuid

from django.db import transaction
from django.db.models import F

from provisioning.identity import owner_locks
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.services.ledger import Amounts, amount_of, lock_counters, raise_counters


@transaction.atomic
def grow(scope_id: uuid.UUID, owner_id: uuid.UUID, amounts: Amounts) -> None:
    """Let the owner hold at least ``amounts`` of what it holds in use: all of it or nothing.

    What it holds more of stays, so a repeat changes nothing.  Raises OverQuotaError, which says how much more was
    asked for.
    """
    owner_locks.lock_project(scope_id)
    rows = _rows(owner_id, amounts)
    more = {row.resource: amounts[row.resource] - row.amount for row in rows if amounts[row.resource] > row.amount}
    if not more:
        return
    lock_counters(scope_id, more)
    raise_counters(scope_id, {(owner_id, resource): amount for resource, amount in more.items()}, None, "in_use")
    for row in rows:
        if row.resource in more:
            Reservation.objects.filter(pk=row.pk).update(amount=amounts[row.resource])


@transaction.atomic
def shrink(owner_id: uuid.UUID, amounts: Amounts) -> None:
    """Give back what the owner holds beyond ``amounts``; a repeat changes nothing."""
    rows = [row for row in _rows(owner_id, amounts) if row.amount > amounts[row.resource]]
    if not rows:
        return
    for row in rows:
        Reservation.objects.filter(pk=row.pk).update(amount=amounts[row.resource])
    scope_id, less = rows[0].project_id, {row.resource: row.amount - amounts[row.resource] for row in rows}
    lock_counters(scope_id, less)
    counters = QuotaUsage.objects.filter(project_id=scope_id, resource__in=list(less))
    counters.update(in_use=F("in_use") - amount_of(less))


def _rows(owner_id: uuid.UUID, amounts: Amounts) -> list[Reservation]:
    rows = Reservation.objects.select_for_update(no_key=True).filter(owner_id=owner_id, committed=True)
    return list(rows.filter(resource__in=list(amounts)).order_by("pk"))
