"""Setting limits, and comparing with those of which nothing is kept."""

import uuid
from collections.abc import Iterable, Mapping

from django.db import transaction

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.common.numbers import MAX_INTEGER
from provisioning.common.retry import when_broken_off
from provisioning.quotas import selectors
from provisioning.quotas.limits import DEFAULTS, EACH, UNLIMITED, is_per_type
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation


def check_each(limits: Mapping[str, int], resource: str, asked: int) -> None:
    """Raise OverQuotaError when one thing (a server's metadata, one file) would have more than the limit.

    ``resource`` is one of ``limits.EACH``; the others are sums, and pass ``reserve`` or ``hold``.
    """
    if resource not in EACH:
        raise ValueError(f"{resource} is held in sum: reserve it.")
    limit = limits.get(resource, UNLIMITED)
    if limit != UNLIMITED and asked > limit:
        raise OverQuotaError(resource, limit=limit, used=0, asked=asked)


def set_limit(project_id: uuid.UUID | None, resource: str, limit: int | None) -> None:
    """Set a project's limit, or the default of all projects (``project_id`` None); a limit of None is the default.

    A limit below what is used takes nothing away; it only stops more.
    """
    if resource not in DEFAULTS and not is_per_type(resource):
        raise InvalidInputError(f"There is no quota named {resource}.", field=resource)
    if limit is None:
        QuotaLimit.objects.filter(project_id=project_id, resource=resource).delete()
        return
    if not UNLIMITED <= limit <= MAX_INTEGER:
        raise InvalidInputError(
            f"The limit of {resource} must be -1 (unlimited) or a whole number from 0.", field=resource
        )
    QuotaLimit.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})


@when_broken_off
@transaction.atomic
def set_limits(project_id: uuid.UUID | None, limits: Mapping[str, int | None], *, force: bool = False) -> None:
    """Set several limits, all or none, as ``set_limit``.

    Unless ``force``, a project's limit below what it holds is refused: InvalidInputError naming it.
    """
    used = selectors.usage_of(project_id) if project_id is not None and not force else {}
    for resource, limit in limits.items():
        if limit is not None and UNLIMITED < limit < used.get(resource, 0):
            raise InvalidInputError(
                f"Quota limit {limit} for {resource} must be greater than or equal to already used and reserved"
                f" {used[resource]}; force sets it all the same.",
                field=resource,
            )
        set_limit(project_id, resource, limit)


def reset_limits(project_id: uuid.UUID | None, resources: Iterable[str] | None = None) -> bool:
    """Give a project the defaults again, or (None) all projects Nova's; returns whether there was anything to forget.

    ``resources``: only these; None: every one.
    """
    rows = QuotaLimit.objects.filter(project_id=project_id)
    if resources is not None:
        rows = rows.filter(resource__in=list(resources))
    return bool(rows.delete()[0])


@transaction.atomic
def rename_resources(names: Mapping[str, str]) -> None:
    """Let limits, counters and reservations follow the new name of a volume type: old resource → new."""
    for old, new in names.items():
        for model in (QuotaLimit, QuotaUsage, Reservation):
            model.objects.filter(resource=old).update(resource=new)
