"""Queries of flavors, key pairs and limits, for a caller."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import CharField, Q, QuerySet, UUIDField, Value

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Flavor, FlavorAccess, KeyPair
from provisioning.identity import policy
from provisioning.quotas import selectors as quotas

SEES_ALL = "novella:flavors:index:all"
SMALLEST_FIRST = tuple(Sort(key, descending=False) for key in ("memory_mb", "vcpus", "root_gb", "id"))
FLAVORS = Listing[Flavor](
    order=(Sort("id", descending=False),), marker="flavorid", no_marker="marker [{marker}] not found"
)
KEY_PAIRS = Listing[KeyPair](order=(Sort("name", descending=False),), marker="name")
"""Key pairs of one user, whose names are unique."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A project's limits by resource (-1: unlimited) and its usage."""

    limits: dict[str, int]
    usage: dict[str, int]

    def left(self, resource: str) -> int | None:
        """Return the unused amount of a resource; None when it is unlimited."""
        limit = self.limits.get(resource, -1)
        return None if limit < 0 else max(limit - self.usage.get(resource, 0), 0)


def flavors_for(
    context: RequestContext,
    *,
    is_public: bool | None = None,
    min_ram: int | None = None,
    min_disk: int | None = None,
    disabled: bool = False,
    sort: Sequence[Sort] = SMALLEST_FIRST,
    limit: int | None = None,
    marker: str | None = None,
) -> list[Flavor]:
    """Return the flavors that the caller may use, smallest first; ``marker`` is a flavor's id.

    ``is_public`` filters for operators, who see all flavors: True returns public flavors and private flavors of the
    caller's project. ``min_ram`` is in MiB, ``min_disk`` in GiB. ``disabled`` includes disabled flavors. ``sort`` must
    end with ``id``. Raises InvalidInputError for an unknown marker.
    """
    visible = _visible(context, disabled=disabled)
    rows = visible
    if is_public is not None:
        rows = rows.filter(
            Q(is_public=True) | _granted(context.project_id or NOBODY) if is_public else Q(is_public=False)
        )
    if min_ram is not None:
        rows = rows.filter(memory_mb__gte=min_ram)
    if min_disk is not None:
        rows = rows.filter(root_gb__gte=min_disk)
    return FLAVORS.page(rows, Part(sort=sort, limit=limit, marker=marker), among=visible)


def flavors_of_project(project_id: uuid.UUID) -> list[Flavor]:
    """Return the flavors that all users of a project may launch, for code without a caller."""
    rows = FlavorAccess.objects.filter(project_id=project_id).values("flavor_id")
    return list(Flavor.objects.filter(Q(is_public=True) | Q(pk__in=rows), disabled=False).order_by("id"))


def flavor_for(context: RequestContext, ref: str, *, disabled: bool = False) -> Flavor:
    """Return a flavor by its id; ``disabled`` includes disabled flavors. Raises NotFoundError."""
    if disabled or policy.allows(context, SEES_ALL):
        flavor = _visible(context, disabled=disabled).filter(flavorid=ref).first()
    else:
        flavor = _USABLE.first(ref=ref, project_id=context.project_id or NOBODY)
    if flavor is None:
        raise NotFoundError(f"Flavor {ref} could not be found.")
    return flavor


def flavor_access_for(context: RequestContext, ref: str) -> tuple[Flavor, list[uuid.UUID]]:
    """Return a flavor and the ids of the projects with access to it. Raises NotFoundError."""
    flavor = flavor_for(context, ref, disabled=True)
    return flavor, list(flavor.access.order_by("project_id").values_list("project_id", flat=True))


def visible_flavors(context: RequestContext) -> QuerySet[Flavor]:
    """Return the flavors that the caller sees and that are not disabled, in any order."""
    return _visible(context, disabled=False)


def _visible(context: RequestContext, *, disabled: bool) -> QuerySet[Flavor]:
    rows = Flavor.objects.all() if disabled else Flavor.objects.filter(disabled=False)
    if policy.allows(context, SEES_ALL):
        return rows
    return rows.filter(Q(is_public=True) | _granted(context.project_id or NOBODY))


def _granted(project_id: uuid.UUID | Value) -> Q:
    """Match the private flavors to which a project has access."""
    return Q(pk__in=FlavorAccess.objects.filter(project_id=project_id).values("flavor_id"))


_USABLE = Prepared(
    lambda ref, project_id: Flavor.objects.filter(
        Q(is_public=True) | _granted(project_id), disabled=False, flavorid=ref
    ),
    ref=CharField(),
    project_id=UUIDField(),
)


def own_key_pairs(context: RequestContext) -> QuerySet[KeyPair]:
    """Return the caller's key pairs, in any order."""
    return KeyPair.objects.filter(user_id=context.user_id or NOBODY)


def key_pairs_for(
    context: RequestContext, *, user_id: uuid.UUID | None = None, limit: int | None = None, marker: str | None = None
) -> list[KeyPair]:
    """Return key pairs by name: the caller's own, or another user's if allowed; ``marker`` is a name.

    Raises ForbiddenError, InvalidInputError for an unknown marker.
    """
    owner = key_pair_user(context, user_id, "os_compute_api:os-keypairs:index")
    return KEY_PAIRS.page(KeyPair.objects.filter(user_id=owner), Part(limit=limit, marker=marker))


def key_pair_for(
    context: RequestContext,
    name: str,
    *,
    user_id: uuid.UUID | None = None,
    rule: str = "os_compute_api:os-keypairs:show",
) -> KeyPair:
    """Return a key pair of the caller, or of another user if allowed. Raises NotFoundError, ForbiddenError."""
    owner = key_pair_user(context, user_id, rule)
    row = KeyPair.objects.filter(user_id=owner, name=name).first()
    if row is None:
        raise NotFoundError(f"Keypair {name} not found for user {owner.hex}")
    return row


def key_pair_user(context: RequestContext, user_id: uuid.UUID | None, rule: str) -> uuid.UUID:
    """Return the owner of the requested key pairs, by default the caller. Raises ForbiddenError for other users."""
    if user_id is None or user_id == context.user_id:
        return context.user_id or NOBODY
    policy.enforce(context, rule, {"user_id": user_id})
    return user_id


def limits_for(context: RequestContext, *, own: bool = True) -> Limits:
    """Return the limits and the usage of the caller's project; ``key_pairs`` are the caller's own.

    With ``own``, each resource has the limit and usage of the project or of the caller, whichever leaves less.
    """
    if context.project_id is None:
        raise ForbiddenError("Limits belong to a project: use a token that is scoped to one.")
    user = context.user_id if own else None
    room = quotas.room_of(context.project_id, user, quotas.bounds_of(context.project_id, user))
    keys = quotas.usage_of(context.user_id or NOBODY)["key_pairs"]
    return Limits(limits=room.limits, usage=room.usage | {"key_pairs": keys})
