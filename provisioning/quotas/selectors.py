"""Reading limits and usage."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from django.db.models import Q, Sum

from provisioning.quotas.limits import DEFAULTS
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation


def limits_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → limit for the project: its own, else the operator's default, else Nova's.  -1: unlimited."""
    limits = dict(DEFAULTS)
    rows = QuotaLimit.objects.filter(Q(project_id=project_id) | Q(project_id=None))
    for owner, resource, limit in sorted(
        rows.values_list("project_id", "resource", "limit"), key=lambda row: row[0] is not None
    ):
        if resource in limits or owner is not None:
            limits[resource] = limit
    return limits


def usage_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → what the project holds, in use and reserved; 0 for what was never used."""
    usage = dict.fromkeys(DEFAULTS, 0)
    rows = QuotaUsage.objects.filter(project_id=project_id).values_list("resource", "in_use", "reserved")
    for resource, in_use, reserved in rows:
        usage[resource] = in_use + reserved
    return usage


class Detail(NamedTuple):
    """One resource of a project: its limit (-1: unlimited), what is in use and what is reserved for what is being made."""

    limit: int
    in_use: int
    reserved: int


def detail_of(scope_id: uuid.UUID) -> dict[str, Detail]:
    """Return every resource of a project in the order of the defaults, in two queries.

    ``key_pairs`` belong to users and are 0 here, as in Nova; so is what is limited for each thing and not in sum.
    """
    rows = QuotaUsage.objects.filter(project_id=scope_id).values_list("resource", "in_use", "reserved")
    held = {resource: (in_use, reserved) for resource, in_use, reserved in rows}
    return {name: Detail(limit, *held.get(name, (0, 0))) for name, limit in limits_of(scope_id).items()}


class Difference(NamedTuple):
    """A counter that is not the sum of its rows; both as (in use, reserved)."""

    project_id: uuid.UUID
    resource: str
    counted: tuple[int, int]
    held: tuple[int, int]


def differences(project_id: uuid.UUID | None = None) -> list[Difference]:
    """Return every counter (of one project or of all) that is not the sum of what its owners hold: empty, unless
    something is wrong, or moves between the two looks.
    """
    mine = Q() if project_id is None else Q(project_id=project_id)
    held: dict[tuple[uuid.UUID, str], list[int]] = {}
    sums = Reservation.objects.filter(mine).values_list("project_id", "resource", "committed")
    for owner, resource, committed, total in sums.annotate(total=Sum("amount")):
        held.setdefault((owner, resource), [0, 0])[0 if committed else 1] = total
    counted = {
        (row.project_id, row.resource): (row.in_use, row.reserved) for row in QuotaUsage.objects.filter(mine).iterator()
    }
    keys = sorted(counted.keys() | held.keys())
    found = ((key, counted.get(key, (0, 0)), tuple(held.get(key, (0, 0)))) for key in keys)
    return [Difference(*key, have, (should[0], should[1])) for key, have, should in found if have != should]
