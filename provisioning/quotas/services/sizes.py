"""Changes the amounts of an existing owner, such as a server that is resized or gets other addresses."""

import uuid

from django.db import transaction
from django.db.models import F

from provisioning.identity.records import owner_locks
from provisioning.quotas.limits import OF_USERS
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.selectors import NO_BOUNDS
from provisioning.quotas.services.ledger import Amounts, amount_of, lock_counters, raise_counters


@transaction.atomic
def grow(scope_id: uuid.UUID, owner_id: uuid.UUID, amounts: Amounts, *, refuse: bool = True) -> None:
    """Raise the owner's amounts to at least ``amounts``, all or nothing. Idempotent; larger amounts are kept.

    Additional amounts are in use, or reserved while the owner is being created. Raises OverQuotaError with the
    additional amount; ``refuse`` False ignores the limits.
    """
    owner_locks.lock_project(scope_id)
    rows = _rows(owner_id)
    held = {row.resource: row.amount for row in rows}
    more = {name: amount - held.get(name, 0) for name, amount in amounts.items() if amount > held.get(name, 0)}
    if not more:
        return
    committed = all(row.committed for row in rows)
    user_id = next((row.user_id for row in rows if row.user_id), None)
    lock_counters(scope_id, more)
    increases = {(owner_id, resource): amount for resource, amount in more.items()}
    raise_counters(scope_id, increases, None if refuse else NO_BOUNDS, "in_use" if committed else "reserved", user_id)
    for row in rows:
        if row.resource in more:
            Reservation.objects.filter(pk=row.pk).update(amount=amounts[row.resource])
    Reservation.objects.bulk_create(
        Reservation(
            project_id=scope_id,
            user_id=user_id if name in OF_USERS else None,
            owner_id=owner_id,
            resource=name,
            amount=amount,
            committed=committed,
        )
        for name, amount in more.items()
        if name not in held
    )


@transaction.atomic
def shrink(owner_id: uuid.UUID, amounts: Amounts) -> None:
    """Lower the owner's amounts to at most ``amounts``, in use or reserved. Idempotent."""
    rows = [row for row in _rows(owner_id) if row.amount > amounts.get(row.resource, row.amount)]
    if not rows:
        return
    for row in rows:
        mine = Reservation.objects.filter(pk=row.pk)
        if amounts[row.resource]:
            mine.update(amount=amounts[row.resource])
        else:
            mine.delete()
    scope_id = rows[0].project_id
    lock_counters(scope_id, [row.resource for row in rows])
    for committed, column in ((False, "reserved"), (True, "in_use")):
        less = {row.resource: row.amount - amounts[row.resource] for row in rows if row.committed is committed}
        if less:
            counters = QuotaUsage.objects.filter(project_id=scope_id, resource__in=list(less))
            counters.update(**{column: F(column) - amount_of(less)})


def _rows(owner_id: uuid.UUID) -> list[Reservation]:
    return list(Reservation.objects.select_for_update(no_key=True).filter(owner_id=owner_id).order_by("pk"))
