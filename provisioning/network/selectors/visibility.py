"""Which records of others a project sees: those that are everybody's, and those that a policy shares with it."""

import uuid
from typing import TypeVar

from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Value

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.identity import policy
from provisioning.network.models import RbacPolicy

M = TypeVar("M", bound=Model)
EVERYBODYS = ("shared", "external")
"""Columns that stand for a policy that is everybody's."""
WITHOUT_COLUMN = ("security_group", "address_group")
"""Kinds that have no such column."""


def visible(context: RequestContext, rows: QuerySet[M], kind: str, *, all_projects: bool = False) -> QuerySet[M]:
    """Return the rows that the caller sees: the project's own, everybody's, and what a policy shares with the project.

    ``kind``: the ``object_type`` of such policies, ``network``; ``all_projects`` is for operators.
    """
    if all_projects and sees_all(context):
        return rows
    columns = {field.name for field in rows.model._meta.concrete_fields}
    seen = own(context) | shared_with((context.project_id or NOBODY).hex, kind)
    for name in EVERYBODYS:
        seen |= Q(**{name: True}) if name in columns else Q()
    if kind in WITHOUT_COLUMN:
        seen |= shared_with(RbacPolicy.EVERYBODY, kind)
    return rows.filter(seen)


def own(context: RequestContext) -> Q:
    """Match rows of the caller's project; an unscoped caller owns nothing."""
    return Q(project_id=context.project_id or NOBODY)


def shared_with(project: str | Value, kind: str, *actions: str, row: str = "pk") -> Q:
    """Match records of this kind that a policy shares with this very project, an id without dashes.

    ``actions``: those that count, all unless some are named; ``row``: where the record's id is in what is filtered.
    """
    found = RbacPolicy.objects.filter(object_type=kind, object_id=OuterRef(row), target_project=project)
    return Q(Exists(found.filter(action__in=actions) if actions else found))


def usable(project_id: uuid.UUID | Value, project: str | Value, path: str = "") -> Q:
    """Match networks that a project may put ports on: its own, everybody's, and those shared with it.

    An external one is for routers and floating IPs unless it is shared, too.  ``path``: where the network is in what is
    filtered, ``network__``.
    """
    there = Q(**{f"{path}project_id": project_id, f"{path}external": False}) | Q(**{f"{path}shared": True})
    return there | shared_with(project, "network", "access_as_shared", row=f"{path}pk")


def sees_all(context: RequestContext) -> bool:
    """Whether the caller may see every project's objects."""
    return policy.allows(context, "novella:get_networks:all_projects")
