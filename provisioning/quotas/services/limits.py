"""Sets limits, and checks limits on single values."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.identity.models import Project
from provisioning.identity.records import owner_locks
from provisioning.quotas import selectors
from provisioning.quotas.limits import COMPUTE, DEFAULTS, EACH, UNLIMITED, is_per_type
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation

OWN = frozenset(COMPUTE)
"""Resources for which a user can have its own limit in a project."""


def check_each(limits: Mapping[str, int], resource: str, requested: int) -> None:
    """Raise OverQuotaError when a single value (a server's metadata, one file) exceeds the limit.

    ``resource`` is one of ``limits.EACH``; all other resources are sums, which require ``reserve`` or ``hold``.
    """
    if resource not in EACH:
        raise ValueError(f"{resource} is a sum and must be reserved.")
    limit = limits.get(resource, UNLIMITED)
    if limit != UNLIMITED and requested > limit:
        raise OverQuotaError(resource, limit=limit, used=0, requested=requested)


def set_limit(
    project_id: uuid.UUID | None, resource: str, limit: int | None, *, user_id: uuid.UUID | None = None
) -> None:
    """Set the limit of a project, of a user in it, or the default of all projects (``project_id`` None).

    ``limit`` None: a project gets the default again, a user the project's limit. A limit below the usage is allowed; it
    only prevents new allocations.
    """
    if resource not in DEFAULTS and not is_per_type(resource):
        raise InvalidInputError(f"There is no quota named {resource}.", field=resource)
    if user_id is not None and resource not in OWN:
        raise InvalidInputError(f"The quota of {resource} cannot be set for a user.", field=resource)
    whose: dict[str, Any] = {"project_id": project_id, "user_id": user_id, "resource": resource}
    if limit is None:
        QuotaLimit.objects.filter(**whose).delete()
        return
    if not UNLIMITED <= limit <= MAX_INTEGER:
        raise InvalidInputError(
            f"The limit of {resource} must be -1 (unlimited) or a whole number from 0.", field=resource
        )
    QuotaLimit.objects.update_or_create(**whose, defaults={"limit": limit})


@when_broken_off
@transaction.atomic
def set_limits(
    project_id: uuid.UUID | None,
    limits: Mapping[str, int | None],
    *,
    force: bool = False,
    user_id: uuid.UUID | None = None,
) -> None:
    """Set several limits of a project or of a user in it, all or none; otherwise like ``set_limit``.

    As in Neutron and Cinder, unknown projects are accepted. Limits that users cannot have are set for the project even
    with ``user_id``. Unless ``force``, raises InvalidInputError for these limits:

    * a project's limit below its usage, or below the sum of its users' limits
    * a user's limit below the user's usage, or above the project's limit minus the limits of its other users
    """
    if project_id is not None and not force:
        owner_locks.lock_rows(Project, [project_id])
        _check(limits, _ranges(project_id, user_id))
    for resource, limit in limits.items():
        set_limit(project_id, resource, limit, user_id=user_id if resource in OWN else None)


def _ranges(project_id: uuid.UUID, user_id: uuid.UUID | None) -> dict[str, tuple[int, int]]:
    """Return resource → minimum and maximum that ``set_limits`` accepts as its limit; -1: unlimited."""
    bounds, used = selectors.bounds_of(project_id, user_id), selectors.usage_of(project_id)
    allotted = selectors.given_to_users(project_id, besides=user_id)
    if user_id is None:
        return {
            name: (max(used.get(name, 0), allotted.get(name, 0)), UNLIMITED)
            for name in used.keys() | bounds.project.keys()
        }
    held = selectors.usage_in(project_id, user_id)
    return {
        name: (
            held.get(name, 0) if name in OWN else used.get(name, 0),
            limit if limit == UNLIMITED else limit - allotted.get(name, 0),
        )
        for name, limit in bounds.project.items()
    }


def _check(limits: Mapping[str, int | None], ranges: Mapping[str, tuple[int, int]]) -> None:
    for resource, limit in limits.items():
        least, most = ranges.get(resource, (0, UNLIMITED))
        if limit is None or limit < UNLIMITED:
            continue
        if UNLIMITED < limit < least:
            raise InvalidInputError(
                f"Quota limit {limit} for {resource} must be greater than or equal to already used and reserved"
                f" {least}; force sets it all the same.",
                field=resource,
            )
        if most != UNLIMITED and not 0 <= limit <= most:
            raise InvalidInputError(
                f"Quota limit {limit} for {resource} must be less than or equal to {most}; force sets it all the same.",
                field=resource,
            )


def reset_limits(
    project_id: uuid.UUID | None, resources: Iterable[str] | None = None, *, user_id: uuid.UUID | None = None
) -> bool:
    """Reset a project to the defaults, or (None) the defaults to the built-in limits; return whether any was set.

    As in Nova this includes the limits of the project's users; with ``user_id`` only those of this user are reset.
    ``resources``: only these resources; None: all.
    """
    rows = QuotaLimit.objects.filter(project_id=project_id)
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    if resources is not None:
        rows = rows.filter(resource__in=list(resources))
    return bool(rows.delete()[0])


@transaction.atomic
def rename_resources(names: Mapping[str, str]) -> None:
    """Rename the limits, counters and reservations of a renamed volume type: old resource → new."""
    for old, new in names.items():
        for model in (QuotaLimit, QuotaUsage, Reservation):
            model.objects.filter(resource=old).update(resource=new)
