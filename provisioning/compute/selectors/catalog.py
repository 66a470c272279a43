"""Flavors, key pairs and limits as one caller sees them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.compute.models import Flavor, KeyPair
from provisioning.compute.selectors.instances import NOBODY
from provisioning.identity import policy
from provisioning.quotas import selectors as quotas


@dataclass(frozen=True, slots=True)
class Limits:
    """A project's limits by resource (-1: unlimited) and what it holds of them."""

    limits: dict[str, int]
    usage: dict[str, int]

    def left(self, resource: str) -> int | None:
        """Return what is left of a resource; None when it is unlimited."""
        limit = self.limits.get(resource, -1)
        return None if limit < 0 else max(limit - self.usage.get(resource, 0), 0)


def flavors_for(
    context: RequestContext,
    *,
    is_public: bool | None = None,
    min_ram: int | None = None,
    min_disk: int | None = None,
    limit: int | None = None,
    marker: str | None = None,
) -> list[Flavor]:
    """Return the flavors the caller may use, the smallest first; ``marker`` is a flavor's id.

    ``is_public`` narrows them for operators, who see all; ``min_ram`` in MiB, ``min_disk`` in GiB.  Raises
    NotFoundError for an unknown marker.
    """
    rows = _visible(context)
    if is_public is not None:
        rows = rows.filter(is_public=is_public)
    if min_ram is not None:
        rows = rows.filter(memory_mb__gte=min_ram)
    if min_disk is not None:
        rows = rows.filter(root_gb__gte=min_disk)
    flavors = list(rows.order_by("memory_mb", "vcpus", "root_gb", "id"))
    if marker is not None:
        position = next((index for index, flavor in enumerate(flavors) if flavor.flavorid == marker), None)
        if position is None:
            raise NotFoundError(f"Flavor {marker} could not be found.", field="marker")
        flavors = flavors[position + 1 :]
    return flavors[:limit] if limit is not None else flavors


def flavor_for(context: RequestContext, ref: str) -> Flavor:
    """Return one flavor by its id.  Raises NotFoundError."""
    flavor = _visible(context).filter(flavorid=ref).first()
    if flavor is None:
        raise NotFoundError(f"Flavor {ref} could not be found.")
    return flavor


def _visible(context: RequestContext) -> QuerySet[Flavor]:
    rows = Flavor.objects.filter(disabled=False)
    if policy.allows(context, "compute:flavors:list:all"):
        return rows
    return rows.filter(Q(is_public=True) | Q(access__project_id=context.project_id or NOBODY)).distinct()


def key_pairs_for(context: RequestContext, *, limit: int | None = None, marker: str | None = None) -> list[KeyPair]:
    """Return the caller's key pairs by name; ``marker`` is a name."""
    rows = KeyPair.objects.filter(user_id=context.user_id or NOBODY).order_by("name")
    if marker is not None:
        key_pair_for(context, marker)
        rows = rows.filter(name__gt=marker)
    return list(rows[:limit] if limit is not None else rows)


def key_pair_for(context: RequestContext, name: str) -> KeyPair:
    """Return one of the caller's key pairs.  Raises NotFoundError."""
    row = KeyPair.objects.filter(user_id=context.user_id or NOBODY, name=name).first()
    if row is None:
        raise NotFoundError(f"Keypair {name} not found for user {context.user_id.hex if context.user_id else '-'}")
    return row


def limits_for(context: RequestContext) -> Limits:
    """Return the limits and the usage of the caller's project; ``key_pairs`` are the caller's own."""
    if context.project_id is None:
        raise ForbiddenError("Limits belong to a project: use a token that is scoped to one.")
    usage = dict(quotas.usage_of(context.project_id))
    usage["key_pairs"] = quotas.usage_of(context.user_id or NOBODY)["key_pairs"]
    return Limits(limits=dict(quotas.limits_of(context.project_id)), usage=usage)
