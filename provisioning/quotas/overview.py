"""Limits and usage for people who administer: of many projects at once, and which limits are a project's own."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import Q

from provisioning.quotas.limits import DEFAULTS
from provisioning.quotas.models import QuotaLimit, QuotaUsage


class Holding(NamedTuple):
    """What a project holds of a resource; a limit of -1 is unlimited."""

    limit: int
    in_use: int
    reserved: int


def own_limits(project_id: uuid.UUID | None) -> dict[str, int]:
    """Return resource → limit where the project has one of its own; for None where the operator set the default."""
    rows = QuotaLimit.objects.filter(project_id=project_id, resource__in=DEFAULTS)
    return dict(rows.values_list("resource", "limit"))


def default_limits() -> dict[str, int]:
    """Return resource → the limit of projects that have none of their own."""
    return DEFAULTS | own_limits(None)


def holdings(project_ids: Iterable[uuid.UUID], resources: Collection[str]) -> dict[uuid.UUID, dict[str, Holding]]:
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
    return {
        key: {
            name: Holding(
                set_by.get((key, name), set_by.get((None, name), DEFAULTS[name])), *counted.get((key, name), (0, 0))
            )
            for name in resources
        }
        for key in keys
    }
