"""Reading limits and usage."""

import uuid
from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import Q, UUIDField

from provisioning.common.prepared import Prepared
from provisioning.quotas import registry
from provisioning.quotas.limits import DEFAULTS, UNLIMITED, delivered, is_per_type
from provisioning.quotas.models import QuotaLimit, QuotaUsage


def limits_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → limit for the project: its own, else the operator's default, else Nova's.  -1: unlimited."""
    limits = delivered()
    for owner, resource, limit in sorted(_LIMITS(project_id=project_id), key=lambda row: row[0] is not None):
        if resource in limits or owner is not None or is_per_type(resource):
            limits[resource] = limit
    return limits


def usage_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → what the project holds, in use and reserved; 0 for what was never used."""
    usage = dict.fromkeys(DEFAULTS, 0)
    for resource, in_use, reserved in _USAGE(project_id=project_id):
        usage[resource] = in_use + reserved
    return usage


_LIMITS = Prepared(
    lambda project_id: QuotaLimit.objects.filter(Q(project_id=project_id) | Q(project_id=None)).values_list(
        "project_id", "resource", "limit"
    ),
    project_id=UUIDField(),
)
_USAGE = Prepared(
    lambda project_id: QuotaUsage.objects.filter(project_id=project_id).values_list("resource", "in_use", "reserved"),
    project_id=UUIDField(),
)


class Detail(NamedTuple):
    """One resource: its limit (-1: unlimited), what is in use, and what is reserved for what is being made."""

    limit: int
    in_use: int
    reserved: int


def detail_of(scope_id: uuid.UUID, more: Iterable[str] = ()) -> dict[str, Detail]:
    """Return every resource of a project in the order of the defaults, in two queries.

    Of volume types those with a limit are among them, and those that ``more`` names.

    ``key_pairs`` belong to users and are 0 here, as in Nova; so is what is limited for each thing and not in sum.
    """
    rows = QuotaUsage.objects.filter(project_id=scope_id).values_list("resource", "in_use", "reserved")
    held = {resource: (in_use, reserved) for resource, in_use, reserved in rows}
    limits = limits_of(scope_id)
    limits |= {name: UNLIMITED for name in more if name not in limits}
    return {name: Detail(limit, *held.get(name, (0, 0))) for name, limit in limits.items()}


def whole_detail_of(project_id: uuid.UUID, more: Iterable[str] = ()) -> dict[str, Detail]:
    """Return as ``detail_of``, and what is not kept in the ledger counted from the records."""
    found, used = detail_of(project_id, more), registry.measured(project_id)
    return found | {name: found[name]._replace(in_use=amount) for name, amount in used.items()}


def own_limit(project_id: uuid.UUID, resource: str) -> int | None:
    """Return the project's limit, else the operator's default; None where nobody has set one."""
    rows = QuotaLimit.objects.filter(Q(project_id=project_id) | Q(project_id=None), resource=resource)
    found = dict(rows.values_list("project_id", "limit"))
    return found.get(project_id, found.get(None))


def projects_with_limits(resources: Iterable[str] = DEFAULTS) -> list[uuid.UUID]:
    """Return the ids of the projects that have limits of their own for one of these resources."""
    rows = QuotaLimit.objects.filter(project_id__isnull=False, resource__in=list(resources))
    return [found for found in rows.order_by("project_id").values_list("project_id", flat=True).distinct() if found]


def own_limits(project_id: uuid.UUID | None, more: Iterable[str] = ()) -> dict[str, int]:
    """Return resource → limit where the project has one of its own; for None where the operator set the default.

    ``more``: names of limits of volume types that are wanted, too.
    """
    rows = QuotaLimit.objects.filter(project_id=project_id, resource__in=[*DEFAULTS, *more])
    return dict(rows.values_list("resource", "limit"))


def default_limits(more: Iterable[str] = ()) -> dict[str, int]:
    """Return what a project without limits of its own has: the operator's default, else Nova's; ``more`` as above."""
    return delivered() | own_limits(None, more)


def holdings(project_ids: Iterable[uuid.UUID], resources: Collection[str]) -> dict[uuid.UUID, dict[str, Detail]]:
    """Return project → resource → holding, in two statements however many projects there are."""
    keys = list(project_ids)
    mine = Q(project_id__in=keys)
    set_by = {
        (owner, resource): limit
        for owner, resource, limit in QuotaLimit.objects.filter(mine | Q(project_id=None), resource__in=resources)
        .values_list("project_id", "resource", "limit")
        .order_by()
    }
    counted = {
        (owner, resource): (in_use, reserved)
        for owner, resource, in_use, reserved in QuotaUsage.objects.filter(mine, resource__in=resources).values_list(
            "project_id", "resource", "in_use", "reserved"
        )
    }
    built_in = delivered()
    return {
        key: {
            name: Detail(
                set_by.get((key, name), set_by.get((None, name), built_in[name])), *counted.get((key, name), (0, 0))
            )
            for name in resources
        }
        for key in keys
    }
