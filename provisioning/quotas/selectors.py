"""Queries of limits and usage."""

import math
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from django.db.models import Q, Sum, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.quotas import registry
from provisioning.quotas.limits import DEFAULTS, OF_USERS, UNLIMITED, delivered, is_per_type, raised
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation


class Bounds(NamedTuple):
    """The limits of a project, and a user's own limits in it."""

    project: Mapping[str, int]
    user: Mapping[str, int] = {}

    @property
    def least(self) -> dict[str, int]:
        """The lower of both limits for each resource."""
        if not self.user:
            return dict(self.project)
        return {name: _lower(limit, self.user.get(name, UNLIMITED)) for name, limit in self.project.items()}


NO_BOUNDS = Bounds({})


def _lower(one: int, other: int) -> int:
    return max(one, other) if UNLIMITED in {one, other} else min(one, other)


def limits_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → limit of the project: its own, the operator's default, or the built-in one. -1: unlimited."""
    return _of_project(_LIMITS(project_id=project_id))


def bounds_of(project_id: uuid.UUID, user_id: uuid.UUID | None) -> Bounds:
    """Return the limits of a project and of a user in it, with one query."""
    if user_id is None:
        return Bounds(limits_of(project_id))
    rows = list(_BOUNDS(project_id=project_id, user_id=user_id))
    own = {resource: limit for _, user, resource, limit in rows if user is not None}
    return Bounds(_of_project((owner, name, limit) for owner, user, name, limit in rows if user is None), own)


def _of_project(rows: Iterable[tuple[uuid.UUID | None, str, int]]) -> dict[str, int]:
    limits = delivered()
    defaults: dict[str, int] = {}
    own: dict[str, int] = {}
    for owner, resource, limit in rows:
        (defaults if owner is None else own)[resource] = limit
    limits |= {name: limit for name, limit in defaults.items() if name in limits or is_per_type(name)}
    return raised(limits | own, defaults, own)


def usage_of(project_id: uuid.UUID) -> dict[str, int]:
    """Return resource → usage of the project, in use and reserved; 0 for unused resources."""
    usage = dict.fromkeys(DEFAULTS, 0)
    for resource, in_use, reserved in _USAGE(project_id=project_id):
        usage[resource] = in_use + reserved
    return usage


def usage_in(project_id: uuid.UUID, user_id: uuid.UUID) -> dict[str, int]:
    """Return resource → usage of a user in a project, for resources in ``OF_USERS``; 0 for unused resources."""
    return dict.fromkeys(OF_USERS, 0) | {
        name: detail.in_use + detail.reserved for name, detail in _held_by(project_id, user_id).items()
    }


def _held_by(project_id: uuid.UUID, user_id: uuid.UUID) -> dict[str, "Detail"]:
    result: dict[str, Detail] = {}
    rows = Reservation.objects.filter(project_id=project_id, user_id=user_id).values_list("resource", "committed")
    for resource, committed, amount in rows.annotate(amount=Sum("amount")).order_by():
        before = result.get(resource, Detail(UNLIMITED, 0, 0))
        column = "in_use" if committed else "reserved"
        result[resource] = before._replace(**{column: amount})
    return result


class Room(NamedTuple):
    """The effective limits for a user in a project. For each resource, ``limits`` has the stricter of the project's and
    the user's limit, and ``usage`` the usage that counts against it.
    """

    limits: dict[str, int]
    usage: dict[str, int]
    of_user: frozenset[str]
    """Resources whose effective limit is the user's own."""


def room_of(project_id: uuid.UUID, user_id: uuid.UUID | None, bounds: Bounds) -> Room:
    """Return the effective limits for a user in a project, with one query, or two for users with their own limits."""
    usage, limits = usage_of(project_id), bounds.least
    mine = {name for name in OF_USERS & bounds.user.keys() if bounds.user[name] != UNLIMITED}
    if user_id is None or not mine:
        return Room(limits, usage, frozenset())
    used = usage_in(project_id, user_id)
    tighter = {name for name in mine if _left(bounds.user[name], used[name]) < _left(bounds.project[name], usage[name])}
    for name in mine:
        limits[name] = bounds.user[name] if name in tighter else bounds.project[name]
    return Room(limits, usage | {name: used[name] for name in tighter}, frozenset(tighter))


def _left(limit: int, used: int) -> float:
    return math.inf if limit == UNLIMITED else limit - used


_LIMITS = Prepared(
    lambda project_id: QuotaLimit.objects.filter(
        Q(project_id=project_id) | Q(project_id=None), user_id=None
    ).values_list("project_id", "resource", "limit"),
    project_id=UUIDField(),
)
_BOUNDS = Prepared(
    lambda project_id, user_id: QuotaLimit.objects.filter(
        Q(project_id=project_id) | Q(project_id=None), Q(user_id=None) | Q(user_id=user_id)
    ).values_list("project_id", "user_id", "resource", "limit"),
    project_id=UUIDField(),
    user_id=UUIDField(),
)
_USAGE = Prepared(
    lambda project_id: QuotaUsage.objects.filter(project_id=project_id).values_list("resource", "in_use", "reserved"),
    project_id=UUIDField(),
)


class Detail(NamedTuple):
    """Limit of a resource (-1: unlimited), amount in use, and amount reserved for records being created."""

    limit: int
    in_use: int
    reserved: int


def detail_of(scope_id: uuid.UUID, more: Iterable[str] = ()) -> dict[str, Detail]:
    """Return resource → detail of a project in the order of the defaults, with two queries.

    Includes volume types with a limit, and the resources in ``more``. The usage of ``key_pairs`` is 0, as in Nova,
    because they belong to users. The usage of limits on single values is also 0.
    """
    rows = QuotaUsage.objects.filter(project_id=scope_id).values_list("resource", "in_use", "reserved")
    held = {resource: (in_use, reserved) for resource, in_use, reserved in rows}
    limits = limits_of(scope_id)
    limits |= {name: UNLIMITED for name in more if name not in limits}
    return {name: Detail(limit, *held.get(name, (0, 0))) for name, limit in limits.items()}


def detail_in(project_id: uuid.UUID, user_id: uuid.UUID) -> dict[str, Detail]:
    """Return resource → detail of a project, for a user in it.

    The limits are the user's own, or the project's. The usage is the user's for ``limits.OF_USERS``, and the project's
    for all other resources.
    """
    bounds, held = bounds_of(project_id, user_id), _held_by(project_id, user_id)
    result: dict[str, Detail] = {}
    for name, detail in detail_of(project_id).items():
        used = held.get(name, Detail(UNLIMITED, 0, 0)) if name in OF_USERS else detail
        result[name] = used._replace(limit=bounds.user.get(name, detail.limit))
    return result


def whole_detail_of(project_id: uuid.UUID, more: Iterable[str] = ()) -> dict[str, Detail]:
    """Return ``detail_of`` with the usage of resources without a ledger, counted from the records."""
    found, used = detail_of(project_id, more), registry.measured(project_id)
    return found | {name: found[name]._replace(in_use=amount) for name, amount in used.items()}


def own_limit(project_id: uuid.UUID, resource: str) -> int | None:
    """Return the project's limit, or the operator's default; None when neither is set."""
    rows = QuotaLimit.objects.filter(Q(project_id=project_id) | Q(project_id=None), user_id=None, resource=resource)
    limits = dict(rows.values_list("project_id", "limit"))
    return limits.get(project_id, limits.get(None))


def projects_with_limits(resources: Iterable[str] = DEFAULTS) -> list[uuid.UUID]:
    """Return the ids of the projects with their own limits for one of these resources."""
    rows = QuotaLimit.objects.filter(project_id__isnull=False, user_id=None, resource__in=list(resources))
    return [
        project for project in rows.order_by("project_id").values_list("project_id", flat=True).distinct() if project
    ]


def given_to_users(project_id: uuid.UUID, *, besides: uuid.UUID | None = None) -> dict[str, int]:
    """Return resource → sum of the limits of a project's users, except those of one user and unlimited ones."""
    rows = QuotaLimit.objects.filter(project_id=project_id, user_id__isnull=False, limit__gte=0)
    if besides is not None:
        rows = rows.exclude(user_id=besides)
    return dict(rows.values_list("resource").annotate(given=Sum("limit")).order_by())


def own_limits(project_id: uuid.UUID | None, more: Iterable[str] = ()) -> dict[str, int]:
    """Return resource → the project's own limit; ``project_id`` None: the operator's defaults.

    ``more``: additional names of limits of volume types.
    """
    rows = QuotaLimit.objects.filter(project_id=project_id, user_id=None, resource__in=[*DEFAULTS, *more])
    return dict(rows.values_list("resource", "limit"))


def default_limits(more: Iterable[str] = ()) -> dict[str, int]:
    """Return the limits of a project that has no limits of its own: the operator's defaults, or the built-in ones."""
    own = own_limits(None, more)
    return raised(delivered() | own, own, {})


def holdings(project_ids: Iterable[uuid.UUID], resources: Collection[str]) -> dict[uuid.UUID, dict[str, Detail]]:
    """Return project → resource → limit and usage, with two queries for any number of projects."""
    keys = list(project_ids)
    mine = Q(project_id__in=keys)
    set_by = {
        (owner, resource): limit
        for owner, resource, limit in QuotaLimit.objects.filter(
            mine | Q(project_id=None), user_id=None, resource__in=resources
        )
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
