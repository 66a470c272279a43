"""Reserve, then commit or release: what a project holds can pass its limits under no parallel load.

Each owner (an instance, an image …) holds at most one row per resource; the counters of a project are the sums of its
rows and move in the same transaction, by one conditional update.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from django.db import connection, transaction
from django.db.models import Case, F, IntegerField, Q, Value, When

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.quotas import selectors
from provisioning.quotas.limits import DEFAULTS, UNLIMITED
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation


@transaction.atomic
def reserve(
    project_id: uuid.UUID,
    owner_id: uuid.UUID,
    amounts: Mapping[str, int],
    limits: Mapping[str, int] | None = None,
) -> None:
    """Reserve for the owner, all of ``amounts`` (resource → how much) or nothing, in the caller's transaction.

    What the owner holds already is not reserved again; ``limits`` are the project's where they were just read.  Raises
    OverQuotaError naming the first resource that does not fit.
    """
    held = set(Reservation.objects.filter(owner_id=owner_id).values_list("resource", flat=True))
    wanted = {name: amounts[name] for name in sorted(amounts) if amounts[name] > 0 and name not in held}
    if not wanted:
        return
    if limits is None:
        limits = selectors.limits_of(project_id)
    if _take(project_id, wanted, limits) < len(wanted):
        # Nothing of the first try may stay: counters that are new or full make it a second one, one by one.
        _take_singly(project_id, wanted, limits)
    Reservation.objects.bulk_create(
        Reservation(project_id=project_id, owner_id=owner_id, resource=name, amount=amount)
        for name, amount in wanted.items()
    )


def _take(project_id: uuid.UUID, wanted: Mapping[str, int], limits: Mapping[str, int]) -> int:
    """Raise all counters in one statement, each only if it fits; return how many, all undone when some did not."""
    fits = Q(pk__in=[])
    for name, amount in wanted.items():
        limit = limits.get(name, UNLIMITED)
        one = Q(resource=name)
        fits |= one if limit == UNLIMITED else one & Q(in_use__lte=limit - amount - F("reserved"))
    rows = QuotaUsage.objects.filter(fits, project_id=project_id)
    _lock(project_id, wanted)
    mark = transaction.savepoint()
    taken = rows.update(reserved=F("reserved") + _amount_of(wanted))
    if taken < len(wanted):
        transaction.savepoint_rollback(mark)
    else:
        transaction.savepoint_commit(mark)
    return taken


def _take_singly(project_id: uuid.UUID, wanted: Mapping[str, int], limits: Mapping[str, int]) -> None:
    QuotaUsage.objects.bulk_create(
        (QuotaUsage(project_id=project_id, resource=name) for name in wanted), ignore_conflicts=True
    )
    for name, amount in wanted.items():
        limit = limits.get(name, UNLIMITED)
        row = QuotaUsage.objects.filter(project_id=project_id, resource=name)
        if limit != UNLIMITED:
            row = row.filter(in_use__lte=limit - amount - F("reserved"))
        if not row.update(reserved=F("reserved") + amount):
            used = selectors.usage_of(project_id)[name]
            raise OverQuotaError(name, limit=limit, used=used, asked=amount)


@transaction.atomic
def commit(owner_id: uuid.UUID) -> None:
    """Turn what the owner reserved into use; a repeat changes nothing."""
    rows = list(Reservation.objects.select_for_update().filter(owner_id=owner_id, committed=False))
    if not rows:
        return
    Reservation.objects.filter(pk__in=[row.pk for row in rows]).update(committed=True)
    amount = _amount_of({row.resource: row.amount for row in rows})
    counters = QuotaUsage.objects.filter(project_id=rows[0].project_id, resource__in=[row.resource for row in rows])
    _lock(rows[0].project_id, [row.resource for row in rows])
    counters.update(reserved=F("reserved") - amount, in_use=F("in_use") + amount)


@transaction.atomic
def hold(
    scope_id: uuid.UUID, owner_id: uuid.UUID, amounts: Mapping[str, int], limits: Mapping[str, int] | None = None
) -> None:
    """Reserve and commit in one, for what is there as soon as the caller's transaction ends; raises as ``reserve``."""
    reserve(scope_id, owner_id, amounts, limits)
    commit(owner_id)


@transaction.atomic
def release(owner_id: uuid.UUID) -> None:
    """Give back all that the owner holds, reserved or in use; a repeat changes nothing."""
    rows = list(Reservation.objects.select_for_update().filter(owner_id=owner_id))
    if not rows:
        return
    Reservation.objects.filter(pk__in=[row.pk for row in rows]).delete()
    _lock(rows[0].project_id, [row.resource for row in rows])
    for committed, column in ((False, "reserved"), (True, "in_use")):
        amounts = {row.resource: row.amount for row in rows if row.committed is committed}
        if amounts:
            counters = QuotaUsage.objects.filter(project_id=rows[0].project_id, resource__in=list(amounts))
            counters.update(**{column: F(column) - _amount_of(amounts)})


def check(project_id: uuid.UUID, resource: str, *, used: int, asked: int = 1) -> None:
    """Raise OverQuotaError when ``asked`` more than ``used`` passes the limit; for what is counted and not reserved."""
    limit = selectors.limits_of(project_id).get(resource, UNLIMITED)
    if limit != UNLIMITED and used + asked > limit:
        raise OverQuotaError(resource, limit=limit, used=used, asked=asked)


def set_limit(project_id: uuid.UUID | None, resource: str, limit: int | None) -> None:
    """Set a project's limit, or the default of all projects (``project_id`` None); a limit of None is the default.

    A limit below what is used takes nothing away; it only stops more.
    """
    if resource not in DEFAULTS:
        raise InvalidInputError(f"There is no quota named {resource}.", field=resource)
    if limit is None:
        QuotaLimit.objects.filter(project_id=project_id, resource=resource).delete()
        return
    if not UNLIMITED <= limit <= 2_147_483_647:
        raise InvalidInputError(
            f"The limit of {resource} must be -1 (unlimited) or a whole number from 0.", field=resource
        )
    QuotaLimit.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})


@transaction.atomic
def repair() -> int:
    """Set every counter to the sum of its rows; returns how many were wrong.  A repeat finds nothing.

    What looks wrong may only have moved between two looks: it is looked at again when nobody else can move it.
    """
    suspects: dict[uuid.UUID, list[str]] = {}
    for found in selectors.differences():
        suspects.setdefault(found.project_id, []).append(found.resource)
    repaired = 0
    for project_id, resources in suspects.items():
        QuotaUsage.objects.bulk_create(
            (QuotaUsage(project_id=project_id, resource=name) for name in resources), ignore_conflicts=True
        )
        _lock(project_id, resources)
        for wrong in selectors.differences(project_id):
            if wrong.resource in resources:
                counter = QuotaUsage.objects.filter(project_id=project_id, resource=wrong.resource)
                repaired += counter.update(in_use=wrong.held[0], reserved=wrong.held[1])
    return repaired


def _lock(project_id: uuid.UUID, resources: Iterable[str]) -> None:
    """Take a project's counters in one order where the database locks rows: nobody waits in a ring."""
    if connection.features.has_select_for_update:
        rows = QuotaUsage.objects.select_for_update(no_key=True).filter(project_id=project_id)
        list(rows.filter(resource__in=list(resources)).order_by("resource").values_list("pk"))


def _amount_of(amounts: Mapping[str, int]) -> Case:
    """Return the SQL expression of each row's amount by its resource."""
    cases = [When(resource=name, then=Value(amount)) for name, amount in amounts.items()]
    return Case(*cases, default=Value(0), output_field=IntegerField())
