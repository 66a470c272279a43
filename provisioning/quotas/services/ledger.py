"""Reserve, then commit or release: concurrent requests cannot exceed the limits of a project.

Each owner (an instance, a network, a key pair …) has at most one row for each resource. The counters of a scope (a
project, or a user for key pairs) are the sums of its rows and change in the same transaction, by one conditional
update.

For resources with limits of users (``limits.OF_USERS``) the rows also contain the user. The usage of a user is the sum
of these rows; it is queried only when the user has such a limit, while the project's counters are locked.

The project or user itself is locked first, so that no resources are added while it is being deleted.

Code that creates an owner's record calls ``reserve`` or ``hold`` first, and code that deletes it calls ``release``,
each in the same transaction. Therefore ``quota_check`` finds both the record and its rows or neither, even after a
process was killed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from django.db import connection, transaction
from django.db.models import BigIntegerField, Case, F, Q, QuerySet, UUIDField, Value, When

from provisioning.common.database.prepared import (
    Prepared,
    PreparedDeleteReturning,
    PreparedInsert,
    PreparedUpdate,
    PreparedUpdateReturning,
)
from provisioning.common.errors import OverQuotaError
from provisioning.identity.records import owner_locks
from provisioning.quotas import selectors
from provisioning.quotas.limits import LEDGER, OF_USERS, PER_USER, UNLIMITED, is_per_type
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation
from provisioning.quotas.selectors import NO_BOUNDS, Bounds

Amounts = Mapping[str, int]
"""Resource → amount."""


def reserve(
    scope_id: uuid.UUID,
    owner_id: uuid.UUID,
    amounts: Amounts,
    bounds: Bounds | None = None,
    *,
    user_id: uuid.UUID | None = None,
) -> None:
    """Reserve all of ``amounts`` or nothing for the owner, in the caller's transaction.

    A resource that the owner already holds is not reserved again. ``bounds``: the limits, if the caller has just read
    them; required for ``limits.PER_USER``. ``user_id``: the owner's user, required for resources with limits of users.
    Raises OverQuotaError for the first resource that exceeds its limit.
    """
    _claim(scope_id, {owner_id: amounts}, bounds, user_id, committed=False)


def hold(
    scope_id: uuid.UUID,
    owner_id: uuid.UUID,
    amounts: Amounts,
    bounds: Bounds | None = None,
    *,
    user_id: uuid.UUID | None = None,
) -> None:
    """As ``reserve`` with ``commit``, for records that are complete when the caller's transaction ends."""
    _claim(scope_id, {owner_id: amounts}, bounds, user_id, committed=True)


def hold_all(scope_id: uuid.UUID, holdings: Mapping[uuid.UUID, Amounts], *, refuse: bool = True) -> None:
    """As ``hold``, for several owners of a scope, all or nothing.

    ``refuse`` False ignores the limits, for records that the cloud creates itself (the default security group).
    """
    _claim(scope_id, holdings, None if refuse else NO_BOUNDS, None, committed=True)


def check_room(scope_id: uuid.UUID, amounts: Amounts) -> None:
    """Raise OverQuotaError if the amounts exceed the current limits. Reserves nothing; used before expensive work."""
    limits, used = selectors.limits_of(scope_id), selectors.usage_of(scope_id)
    for resource, amount in sorted(amounts.items()):
        limit = limits.get(resource, UNLIMITED)
        if limit != UNLIMITED and used.get(resource, 0) + amount > limit:
            raise OverQuotaError(resource, limit=limit, used=used.get(resource, 0), requested=amount)


def _claim(
    scope_id: uuid.UUID,
    holdings: Mapping[uuid.UUID, Amounts],
    bounds: Bounds | None,
    user_id: uuid.UUID | None,
    *,
    committed: bool,
) -> None:
    """Write the missing rows of the owners, and raise the counters."""
    missing = _missing(holdings)
    if not missing:
        return
    alone = connection.in_atomic_block and not connection.features.has_select_for_update
    with transaction.atomic():
        of_user = any(resource in PER_USER for _, resource in missing)
        (owner_locks.lock_user if of_user else owner_locks.lock_project)(scope_id)
        if not alone:  # for concurrent calls with the same owner
            lock_counters(scope_id, {resource for _, resource in missing})
            missing = _missing(holdings)
        if missing:
            raise_counters(scope_id, missing, bounds, "in_use" if committed else "reserved", user_id)
            _RESERVE(
                Reservation(
                    project_id=scope_id,
                    user_id=user_id if resource in OF_USERS else None,
                    owner_id=owner,
                    resource=resource,
                    amount=amount,
                    committed=committed,
                )
                for (owner, resource), amount in missing.items()
            )


_RESERVE = PreparedInsert(Reservation)


def raise_counters(
    scope_id: uuid.UUID,
    amounts: Mapping[tuple[uuid.UUID, str], int],
    bounds: Bounds | None,
    column: str,
    user_id: uuid.UUID | None,
) -> None:
    """Raise the counters before their rows are written. After OverQuotaError, which undoes nothing, the caller's
    transaction must be rolled back.
    """
    totals: dict[str, int] = {}
    for (_, resource), amount in sorted(amounts.items(), key=lambda item: item[0][1]):
        totals[resource] = totals.get(resource, 0) + amount
    if bounds is None:
        bounds = selectors.bounds_of(scope_id, user_id)
    taken = _raise_within_limits(scope_id, totals, bounds.project, column)
    if len(taken) < len(totals):
        others = {name: amount for name, amount in totals.items() if name not in taken}
        _raise_singly(scope_id, others, bounds.project, column)
    if user_id is not None and bounds.user:
        _check_user(scope_id, user_id, totals, bounds.user)


def _check_user(scope_id: uuid.UUID, user_id: uuid.UUID, totals: Amounts, limits: Amounts) -> None:
    """Raise OverQuotaError when the amounts exceed a user's own limits.

    The user's usage cannot change concurrently, because the project's counters of these resources are locked.
    """
    bounded = [name for name in totals if name in OF_USERS and limits.get(name, UNLIMITED) != UNLIMITED]
    used = selectors.usage_in(scope_id, user_id) if bounded else {}
    for name in bounded:
        if used[name] + totals[name] > limits[name]:
            raise OverQuotaError(name, limit=limits[name], used=used[name], requested=totals[name], of_user=True)


def _missing(holdings: Mapping[uuid.UUID, Amounts]) -> dict[tuple[uuid.UUID, str], int]:
    """Return (owner, resource) → amount of the requested rows that do not exist yet."""
    named = {resource for amounts in holdings.values() for resource in amounts}
    unknown = {resource for resource in named - LEDGER if not is_per_type(resource)}
    if unknown:
        raise ValueError(f"There is no ledger of {', '.join(sorted(unknown))}.")
    held = set(_held(list(holdings)))
    return {
        (owner, resource): amount
        for owner, amounts in holdings.items()
        for resource, amount in amounts.items()
        if amount > 0 and (owner, resource) not in held
    }


def _held(owner_ids: list[uuid.UUID]) -> Iterable[tuple[uuid.UUID, str]]:
    """Return (owner, resource) of the existing rows."""
    if len(owner_ids) == 1:
        return _HELD_BY_ONE(owner_id=owner_ids[0])
    return Reservation.objects.filter(owner_id__in=owner_ids).values_list("owner_id", "resource")


_HELD_BY_ONE = Prepared(
    lambda owner_id: Reservation.objects.filter(owner_id=owner_id).values_list("owner_id", "resource"),
    owner_id=UUIDField(),
)


def _raise_within_limits(scope_id: uuid.UUID, totals: Amounts, limits: Amounts, column: str) -> set[str]:
    """Raise each existing counter whose limit allows it, with one statement; returns their resources."""
    bounds = {name: limit for name in totals if (limit := limits.get(name, UNLIMITED)) != UNLIMITED}
    values = {**totals} | {f"{name}_limit": bounds[name] for name in bounds}
    return set(_raise(tuple(totals), frozenset(bounds), column)(scope_id=scope_id, **values))


@cache
def _raise(resources: tuple[str, ...], bounded: frozenset[str], column: str) -> Prepared[str]:
    """Return the statement that raises these counters by their amounts; counters in ``bounded`` have a maximum."""

    def rows(scope_id: Value, **values: Value) -> tuple[QuerySet[QuotaUsage, str], dict[str, Any]]:
        fits = Q(pk__in=[])
        for name in resources:
            room = Q(in_use__lte=values[f"{name}_limit"] - values[name] - F("reserved")) if name in bounded else Q()
            fits |= Q(resource=name) & room
        amounts = {name: values[name] for name in resources}
        fitting = QuotaUsage.objects.filter(fits, project_id=scope_id).values_list("resource", flat=True)
        return fitting, {column: F(column) + amount_of(amounts)}

    numbers = (*resources, *(f"{name}_limit" for name in bounded))
    return PreparedUpdateReturning(rows, scope_id=UUIDField(), **{name: BigIntegerField() for name in numbers})


def _raise_singly(scope_id: uuid.UUID, totals: Amounts, limits: Amounts, column: str) -> None:
    """Create missing counters, then raise them one by one. Raises OverQuotaError for the first that does not fit."""
    make_counters(scope_id, totals)
    for resource, amount in totals.items():
        if not _raise_within_limits(scope_id, {resource: amount}, limits, column):
            used = selectors.usage_of(scope_id).get(resource, 0)
            raise OverQuotaError(resource, limit=limits[resource], used=used, requested=amount)


@transaction.atomic(savepoint=False)
def commit(owner_id: uuid.UUID) -> None:
    """Record the owner's reserved amounts as in use. Idempotent."""
    rows = _RESERVED(owner_id=owner_id)
    if not rows:
        return
    _COMMIT(owner_id=owner_id)
    amounts = {resource: amount for _, resource, amount in sorted(rows)}
    lock_counters(rows[0][0], amounts)
    _settle(tuple(amounts))(scope_id=rows[0][0], **amounts)


_RESERVED = Prepared(
    lambda owner_id: (
        Reservation.objects.select_for_update()
        .filter(owner_id=owner_id, committed=False)
        .values_list("project_id", "resource", "amount")
    ),
    owner_id=UUIDField(),
)
_COMMIT = PreparedUpdate(
    lambda owner_id: (Reservation.objects.filter(owner_id=owner_id, committed=False), {"committed": True}),
    owner_id=UUIDField(),
)


@cache
def _settle(resources: tuple[str, ...]) -> PreparedUpdate:
    """Return the statement that moves amounts of these counters from reserved to in use."""

    def rows(scope_id: Value, **amounts: Value) -> tuple[QuerySet[QuotaUsage], dict[str, Any]]:
        counters = QuotaUsage.objects.filter(project_id=scope_id, resource__in=resources)
        amount = amount_of(amounts)
        return counters, {"reserved": F("reserved") - amount, "in_use": F("in_use") + amount}

    return PreparedUpdate(rows, scope_id=UUIDField(), **{name: BigIntegerField() for name in resources})


@transaction.atomic(savepoint=False)
def release(owner_id: uuid.UUID, *, only: Collection[str] = (), keep: Collection[str] = ()) -> None:
    """Release all amounts that the owner holds, reserved or in use. Idempotent.

    ``only`` limits the release to these resources; ``keep`` excludes resources.
    """
    rows = _delete(tuple(sorted(only)), tuple(sorted(keep)))(owner_id=owner_id)
    if not rows:
        return
    scope_id = rows[0][0]
    lock_counters(scope_id, [resource for _, resource, _, _ in rows])
    for of, column in ((False, "reserved"), (True, "in_use")):
        amounts = {resource: amount for _, resource, amount, committed in rows if committed is of}
        if amounts:
            _lower(tuple(sorted(amounts)), column)(scope_id=scope_id, **amounts)


@cache
def _delete(only: tuple[str, ...], keep: tuple[str, ...]) -> Prepared[tuple[uuid.UUID, str, int, bool]]:
    """Return the statement that deletes an owner's rows and returns scope, resource, amount and ``committed``."""

    def rows(owner_id: Value) -> QuerySet[Reservation, tuple[uuid.UUID, str, int, bool]]:
        held = Reservation.objects.filter(owner_id=owner_id)
        held = held.filter(resource__in=only) if only else held
        held = held.exclude(resource__in=keep) if keep else held
        return held.values_list("project_id", "resource", "amount", "committed")

    return PreparedDeleteReturning(rows, owner_id=UUIDField())


@cache
def _lower(resources: tuple[str, ...], column: str) -> PreparedUpdate:
    """Return the statement that lowers these counters by their amounts."""

    def rows(scope_id: Value, **amounts: Value) -> tuple[QuerySet[QuotaUsage], dict[str, Any]]:
        counters = QuotaUsage.objects.filter(project_id=scope_id, resource__in=resources)
        return counters, {column: F(column) - amount_of(amounts)}

    return PreparedUpdate(rows, scope_id=UUIDField(), **{name: BigIntegerField() for name in resources})


@transaction.atomic
def forget(scope_ids: Collection[uuid.UUID]) -> None:
    """Delete limits, counters and reservations with their projects or users."""
    for model in (Reservation, QuotaUsage, QuotaLimit):
        model.objects.filter(project_id__in=scope_ids).delete()
    QuotaLimit.objects.filter(user_id__in=scope_ids).delete()


def make_counters(scope_id: uuid.UUID, resources: Iterable[str]) -> None:
    QuotaUsage.objects.bulk_create(
        (QuotaUsage(project_id=scope_id, resource=name) for name in sorted(resources)), ignore_conflicts=True
    )


def lock_counters(scope_id: uuid.UUID, resources: Iterable[str]) -> None:
    """Lock a scope's counters in a fixed order, which prevents deadlocks, on databases with row locks."""
    if connection.features.has_select_for_update:
        _lock(tuple(sorted(resources)))(scope_id=scope_id)


@cache
def _lock(resources: tuple[str, ...]) -> Prepared[tuple[int]]:
    """Return the query that locks these counters."""

    def rows(scope_id: Value) -> QuerySet[QuotaUsage, tuple[int]]:
        counters = QuotaUsage.objects.select_for_update(no_key=True).filter(project_id=scope_id)
        return counters.filter(resource__in=resources).order_by("resource").values_list("pk")

    return Prepared(rows, scope_id=UUIDField())


def lock_all(scope_id: uuid.UUID) -> None:
    """Lock all reservations and counters of a scope until the caller's transaction ends; create missing counters.

    The lock order is reservations before counters, as in ``commit`` and ``release``.
    """
    if connection.features.has_select_for_update:
        rows = Reservation.objects.select_for_update(no_key=True).filter(project_id=scope_id)
        list(rows.order_by("pk").values_list("pk"))
    make_counters(scope_id, LEDGER)
    lock_counters(scope_id, LEDGER)


def amount_of(amounts: Mapping[str, int | Value]) -> Case:
    """Return the SQL expression for the amount of a row's resource; 0 if the resource has no amount."""
    cases = [
        When(resource=name, then=amount if isinstance(amount, Value) else Value(amount))
        for name, amount in amounts.items()
    ]
    return Case(*cases, default=Value(0), output_field=BigIntegerField())
