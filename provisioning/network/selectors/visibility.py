"""Which records of others a project sees, those that are everybody's and those that a policy shares with it; and
whether a record is shared, as its caller sees it and as its owner's neighbours do.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import (
    BooleanField,
    CharField,
    Exists,
    ExpressionWrapper,
    Model,
    OuterRef,
    Q,
    QuerySet,
    UUIDField,
    Value,
)
from django.db.models.functions import Cast, Replace

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.common.prepared import Prepared
from provisioning.identity import policy
from provisioning.network.models import Network, RbacPolicy

M = TypeVar("M", bound=Model)
WITHOUT_COLUMN = ("security_group", "address_group")
"""Kinds that have no such column."""
SHAREABLE = ("network", "address_scope", "subnetpool", *WITHOUT_COLUMN)
"""Kinds that policies are about."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The project and the power of a caller; any caller, where the ids are parameters of a prepared query."""

    project_id: uuid.UUID | Value
    project: str | Value
    """The same id without dashes."""
    everything: bool = False
    """Whether the objects of every project are asked for."""


def viewer_of(context: RequestContext | Viewer, *, all_projects: bool = False) -> Viewer:
    """Return the viewer; ``all_projects`` is for operators, and a viewer says that itself."""
    if isinstance(context, Viewer):
        return context
    project = context.project_id or NOBODY
    return Viewer(project, project.hex, all_projects and sees_all(context))


def visible(
    context: RequestContext | Viewer, rows: QuerySet[M], kind: str, *, all_projects: bool = False
) -> QuerySet[M]:
    """Return the rows that the caller sees: the project's own, everybody's, and what a policy shares with the project.

    What may be shared says with ``shared_with_caller`` whether it is.
    ``kind``: the ``object_type`` of such policies, ``network``; ``all_projects`` is for operators.
    """
    viewer = viewer_of(context, all_projects=all_projects)
    if kind in SHAREABLE:
        rows = saying(rows, shared_with_caller=shared_with_caller(viewer, kind))
    if viewer.everything:
        return rows
    if kind not in SHAREABLE:
        return rows.filter(own(viewer))
    policies = RbacPolicy.objects.filter(object_type=kind, object_id=OuterRef("pk"))
    seen = policies.filter(Q(target_project=viewer.project) | Q(target_project=RbacPolicy.EVERYBODY))
    return rows.filter(own(viewer) | Exists(seen))


def own(context: RequestContext | Viewer) -> Q:
    """Match rows of the caller's project; an unscoped caller owns nothing."""
    return Q(project_id=context.project_id or NOBODY)


def shared_with(project: str | Value, kind: str, *actions: str, row: str = "pk") -> Q:
    """Match records of this kind that a policy shares with this very project, an id without dashes.

    ``actions``: those that count, all unless some are named; ``row``: where the record's id is in what is filtered.
    """
    found = RbacPolicy.objects.filter(object_type=kind, object_id=OuterRef(row), target_project=project)
    return Q(Exists(found.filter(action__in=actions) if actions else found))


def shared_with_caller(context: RequestContext | Viewer, kind: str, path: str = "") -> Q:
    """Match records that are shared as the caller sees it: a policy shares them with everybody or with its project.

    Neutron's ``shared`` is that, for owners and operators, too.  ``path``: where the record is in what is filtered.
    """
    row = f"{path}pk"
    named = shared_with(viewer_of(context).project, kind, RbacPolicy.SHARED, row=row)
    if kind in WITHOUT_COLUMN:
        return named | shared_with(RbacPolicy.EVERYBODY, kind, RbacPolicy.SHARED, row=row)
    return named | Q(**{f"{path}shared": True})


def shared_with_others(path: str = "") -> Q:
    """Match networks that are shared with anybody but their owner, whoever asks: names there are those of projects.

    ``path``: where the network is in what is filtered, ``network__``.
    """
    owner = Replace(Cast(OuterRef(f"{path}project_id"), CharField()), Value("-"), Value(""))
    policies = RbacPolicy.objects.filter(object_type="network", object_id=OuterRef(f"{path}pk"))
    others = policies.filter(action=RbacPolicy.SHARED).exclude(target_project=owner)
    return Q(**{f"{path}shared": True}) | Q(Exists(others))


def is_shared_with_others(network_id: uuid.UUID) -> bool:
    """Whether a network is shared with anybody but its owner; one query."""
    return Network.objects.filter(shared_with_others(), pk=network_id).exists()


def saying(rows: QuerySet[M], **conditions: Q) -> QuerySet[M]:
    """Return the rows, each of which says by these names whether it meets the conditions; no further query."""
    columns = {name: ExpressionWrapper(each, output_field=BooleanField()) for name, each in conditions.items()}
    found: QuerySet[M] = rows.annotate(**columns)
    return found


def usable(project_id: uuid.UUID | Value, project: str | Value, path: str = "") -> Q:
    """Match networks that a project may put ports on: its own, everybody's, and those shared with it.

    An external one is for routers and floating IPs unless it is shared, too.  ``path``: where the network is in what is
    filtered, ``network__``.
    """
    there = Q(**{f"{path}project_id": project_id, f"{path}external": False}) | Q(**{f"{path}shared": True})
    return there | shared_with(project, "network", RbacPolicy.SHARED, row=f"{path}pk")


def is_usable(project_id: uuid.UUID, network_id: uuid.UUID) -> bool:
    """Whether a project may put ports on a network; one query."""
    return bool(_USABLE(network_id=network_id, project_id=project_id, project=project_id.hex))


_USABLE = Prepared(
    lambda network_id, project_id, project: Network.objects.filter(
        usable(project_id, project), pk=network_id
    ).values_list("pk"),
    network_id=UUIDField(),
    project_id=UUIDField(),
    project=CharField(),
)


def sees_all(context: RequestContext) -> bool:
    """Whether the caller may see every project's objects."""
    return policy.allows(context, "novella:get_networks:all_projects")
