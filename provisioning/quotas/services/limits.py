"""Setting limits, and comparing with those of which nothing is kept."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.common.numbers import MAX_INTEGER
from provisioning.common.retry import when_broken_off
from provisioning.identity import owner_locks
from provisioning.identity.models import Project
from provisioning.quotas import selectors
from provisioning.quotas.limits import COMPUTE, DEFAULTS, EACH, UNLIMITED, is_per_type
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation

OWN = frozenset(COMPUTE)
"""What a user may have a limit of its own of, in a project."""


def check_each(limits: Mapping[str, int], resource: str, asked: int) -> None:
    """Raise OverQuotaError when one thing (a server's metadata, one file) would have more than the limit.

    ``resource`` is one of ``limits.EACH``; the others are sums, and pass ``reserve`` or ``hold``.
    """
    if resource not in EACH:
        raise ValueError(f"{resource} is held in sum: reserve it.")
    limit = limits.get(resource, UNLIMITED)
    if limit != UNLIMITED and asked > limit:
        raise OverQuotaError(resource, limit=limit, used=0, asked=asked)


def set_limit(
    project_id: uuid.UUID | None, resource: str, limit: int | None, *, user_id: uuid.UUID | None = None
) -> None:
    """Set the limit of a project, of a user in it, or the default of all projects (``project_id`` None).

    A limit of None is the default, or for a user the project's.  A limit below what is used takes nothing away; it only
    stops more.
    """
    if resource not in DEFAULTS and not is_per_type(resource):
        raise InvalidInputError(f"There is no quota named {resource}.", field=resource)
    if user_id is not None and resource not in OWN:
        raise InvalidInputError(f"The quota of {resource} is a project's: no user has one.", field=resource)
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
    """Set several limits of a project or of a user in it, all or none, as ``set_limit``.

    Limits of a project that Identity does not know are kept, too, as in Neutron and Cinder.
    What only projects have a limit of is set for the project, whichever user is named.  Unless ``force``,
    InvalidInputError names a project's limit below what it holds or what its users' limits add up to, a user's below
    what the user holds, and one above what the other users' limits leave of the project's.
    """
    if project_id is not None and not force:
        owner_locks.lock_rows(Project, [project_id])
        _check(limits, _ranges(project_id, user_id))
    for resource, limit in limits.items():
        set_limit(project_id, resource, limit, user_id=user_id if resource in OWN else None)


def _ranges(project_id: uuid.UUID, user_id: uuid.UUID | None) -> dict[str, tuple[int, int]]:
    """Return resource → the least and the largest limit that may be set; -1: unlimited."""
    bounds, used = selectors.bounds_of(project_id, user_id), selectors.usage_of(project_id)
    given = selectors.given_to_users(project_id, besides=user_id)
    if user_id is None:
        return {
            name: (max(used.get(name, 0), given.get(name, 0)), UNLIMITED)
            for name in used.keys() | bounds.project.keys()
        }
    held = selectors.usage_in(project_id, user_id)
    return {
        name: (
            held.get(name, 0) if name in OWN else used.get(name, 0),
            limit if limit == UNLIMITED else limit - given.get(name, 0),
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
    """Give a project the defaults again, or (None) all projects Nova's; returns whether there was anything to forget.

    The limits of a project's users go with its own, as in Nova; with ``user_id`` only this user's do.  ``resources``:
    only these; None: every one.
    """
    rows = QuotaLimit.objects.filter(project_id=project_id)
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    if resources is not None:
        rows = rows.filter(resource__in=list(resources))
    return bool(rows.delete()[0])


@transaction.atomic
def rename_resources(names: Mapping[str, str]) -> None:
    """Let limits, counters and reservations follow the new name of a volume type: old resource → new."""
    for old, new in names.items():
        for model in (QuotaLimit, QuotaUsage, Reservation):
            model.objects.filter(resource=old).update(resource=new)
