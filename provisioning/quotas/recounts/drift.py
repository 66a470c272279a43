"""Differences between the records, the reservations and the counters, as sentences."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.db.models import Sum

from provisioning.quotas import registry
from provisioning.quotas.limits import OF_USERS, PER_USER
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.registry import Counted, Holding


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference. ``written`` is recorded, ``right`` would be correct; both are (in use, reserved)."""

    kind: Literal["counter", "orphan", "missing", "different", "user"]
    scope_id: uuid.UUID
    resource: str
    owner_id: uuid.UUID | None
    written: tuple[int, int]
    right: tuple[int, int]
    user_id: uuid.UUID | None = None
    """The user according to the record."""

    def __str__(self) -> str:
        scope = f"{'User' if self.resource in PER_USER else 'Project'} {self.scope_id.hex}, {self.resource}:"
        if self.kind == "counter":
            return f"{scope} the counters show {_text(self.written)}; the reservations add up to {_text(self.right)}."
        if self.kind == "orphan":
            return f"{scope} {_text(self.written)} for {self.owner_id}, which does not exist or no longer holds any."
        if self.kind == "missing":
            return f"{scope} {self.owner_id} exists ({_text(self.right)}) and passed no quota."
        if self.kind == "user":
            whose = self.user_id.hex if self.user_id else "nobody"
            return f"{scope} {self.owner_id} is recorded for another user, but belongs to {whose}."
        return f"{scope} {self.owner_id} is recorded with {_text(self.written)} but has {_text(self.right)}."


def find(scope_id: uuid.UUID | None = None) -> list[Finding]:
    """Return the differences for one scope or for all. Concurrent changes can appear as differences."""
    return [*_owners(scope_id), *_counters(scope_id)]


def _owners(scope_id: uuid.UUID | None) -> Iterator[Finding]:
    """Compare the reservations with the records of their owners."""
    written = {
        (scope, owner, resource): (_pair(amount, committed=committed), user)
        for scope, owner, resource, amount, committed, user in _RESERVATIONS(scope_id)
    }
    right = {
        _key(held): (_pair(held.amount, committed=held.committed), held.user_id if held.resource in OF_USERS else None)
        for held in registry.holdings(scope_id)
    }
    for key in sorted(written.keys() | right.keys()):
        there, should = written.get(key), right.get(key)
        if there != should:
            kind: Literal["orphan", "missing", "different", "user"]
            kind = "orphan" if should is None else "missing" if there is None else "different"
            if there and should and there[0] == should[0]:
                kind = "user"
            amounts = there[0] if there else (0, 0), should[0] if should else (0, 0)
            yield Finding(kind, key[0], key[2], key[1], *amounts, user_id=should[1] if should else None)


def _counters(scope_id: uuid.UUID | None) -> Iterator[Finding]:
    """Compare counters with the sums of the reservations."""
    sums: dict[tuple[uuid.UUID, str], tuple[int, int]] = {}
    for scope, resource, committed, total in _SUMS(scope_id):
        before, more = sums.get((scope, resource), (0, 0)), _pair(total, committed=committed)
        sums[scope, resource] = (before[0] + more[0], before[1] + more[1])
    counted = {(row.project_id, row.resource): (row.in_use, row.reserved) for row in _COUNTERS(scope_id)}
    for key in sorted(counted.keys() | sums.keys()):
        there, should = counted.get(key, (0, 0)), sums.get(key, (0, 0))
        if there != should:
            yield Finding("counter", key[0], key[1], None, there, should)


_RESERVATIONS = Counted(
    lambda: Reservation.objects.values_list("project_id", "owner_id", "resource", "amount", "committed", "user_id")
)
_SUMS = Counted(
    lambda: Reservation.objects.values_list("project_id", "resource", "committed").annotate(total=Sum("amount"))
)
_COUNTERS = Counted(QuotaUsage.objects.all)


def _key(held: Holding) -> tuple[uuid.UUID, uuid.UUID, str]:
    return held.scope_id, held.owner_id, held.resource


def _pair(amount: int, *, committed: bool) -> tuple[int, int]:
    return (amount, 0) if committed else (0, amount)


def _text(amounts: tuple[int, int]) -> str:
    """Return amounts as text: ``3 in use and 1 reserved``."""
    in_use, reserved = amounts
    parts = [f"{in_use} in use"] * bool(in_use or not reserved) + [f"{reserved} reserved"] * bool(reserved)
    return " and ".join(parts)
