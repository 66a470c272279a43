"""Visibility of records: which records of other projects a caller sees, because they are public or because a policy
shares them, and whether a record is shared, from the view of the caller and of its owner.
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
from provisioning.common.database.prepared import Prepared
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.network.errors import RbacPolicyNotFoundError
from provisioning.network.models import Network, RbacPolicy

M = TypeVar("M", bound=Model)
WITHOUT_COLUMN = ("security_group", "address_group")
"""Kinds without the column ``shared``."""
SHAREABLE = ("network", "address_scope", "subnetpool", *WITHOUT_COLUMN)
"""Kinds that policies can share."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The project and the rights of a caller. The ids can be parameters of a prepared query for all callers."""

    project_id: uuid.UUID | Value
    project: str | Value
    """The project's id without dashes."""
    everything: bool = False
    """Whether the records of every project are requested."""


def viewer_of(context: RequestContext | Viewer, *, all_projects: bool = False) -> Viewer:
    """Return the viewer of a caller, or the given viewer unchanged; ``all_projects`` is for operators."""
    if isinstance(context, Viewer):
        return context
    project = context.project_id or NOBODY
    return Viewer(project, project.hex, all_projects and sees_all(context))


def visible(
    context: RequestContext | Viewer, rows: QuerySet[M], kind: str, *, all_projects: bool = False
) -> QuerySet[M]:
    """Return the rows that the caller sees: the project's own, public ones, and those that a policy shares with it.

    Records that can be shared are annotated with ``shared_with_caller``.  ``kind``: the ``object_type`` of policies,
    such as ``network``; ``all_projects`` is for operators.
    """
    viewer = viewer_of(context, all_projects=all_projects)
    if kind in SHAREABLE:
        rows = with_conditions(rows, shared_with_caller=shared_with_caller(viewer, kind))
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
    """Match records of this kind that a policy shares with this project in particular, not with all projects.

    ``project``: the id without dashes; ``actions``: only policies with these actions, by default all; ``row``: the path
    to the record's id.
    """
    rows = RbacPolicy.objects.filter(object_type=kind, object_id=OuterRef(row), target_project=project)
    return Q(Exists(rows.filter(action__in=actions) if actions else rows))


def shared_with_caller(context: RequestContext | Viewer, kind: str, path: str = "") -> Q:
    """Match records that a policy shares with all projects or with the caller's: Neutron's ``shared``.

    The result is the same for owners and operators.  ``path``: the path to the record.
    """
    row = f"{path}pk"
    named = shared_with(viewer_of(context).project, kind, RbacPolicy.SHARED, row=row)
    if kind in WITHOUT_COLUMN:
        return named | shared_with(RbacPolicy.EVERYBODY, kind, RbacPolicy.SHARED, row=row)
    return named | Q(**{f"{path}shared": True})


def shared_with_others(path: str = "") -> Q:
    """Match networks that are shared with any project other than their owner.

    The result does not depend on the caller, because the names of guests on such networks contain their project.
    ``path``: the path to the network, such as ``network__``.
    """
    owner = Replace(Cast(OuterRef(f"{path}project_id"), CharField()), Value("-"), Value(""))
    policies = RbacPolicy.objects.filter(object_type="network", object_id=OuterRef(f"{path}pk"))
    others = policies.filter(action=RbacPolicy.SHARED).exclude(target_project=owner)
    return Q(**{f"{path}shared": True}) | Q(Exists(others))


def is_shared_with_others(network_id: uuid.UUID) -> bool:
    """Whether a network is shared with any project but its owner; one query."""
    return Network.objects.filter(shared_with_others(), pk=network_id).exists()


def with_conditions(rows: QuerySet[M], **conditions: Q) -> QuerySet[M]:
    """Annotate each row with whether it meets the conditions, by their names; no additional query."""
    columns = {name: ExpressionWrapper(each, output_field=BooleanField()) for name, each in conditions.items()}
    records: QuerySet[M] = rows.annotate(**columns)
    return records


def usable(project_id: uuid.UUID | Value, project: str | Value, path: str = "") -> Q:
    """Match networks that a project may create ports on: its own, public ones, and those shared with it.

    An external network, which is for routers and floating IPs, matches only if it is shared as well.  ``path``: the
    path to the network, such as ``network__``.
    """
    there = Q(**{f"{path}project_id": project_id, f"{path}external": False}) | Q(**{f"{path}shared": True})
    return there | shared_with(project, "network", RbacPolicy.SHARED, row=f"{path}pk")


def is_usable(project_id: uuid.UUID, network_id: uuid.UUID) -> bool:
    """Whether a project may create ports on a network; one query."""
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
    """Whether the caller may see the records of every project."""
    return policy.allows(context, "novella:get_networks:all_projects")


def rbac_policies_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[RbacPolicy]:
    """Return the project's policies; ``all_projects`` is for operators."""
    rows = RbacPolicy.objects.all()
    return rows if all_projects and sees_all(context) else rows.filter(own(context))


def rbac_policy_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> RbacPolicy:
    """Return one policy. Raises RbacPolicyNotFoundError if it does not exist or belongs to another project."""
    rbac_policy = rbac_policies_for(context, all_projects=all_projects).filter(pk=read_id(identity) or NOBODY).first()
    if rbac_policy is None:
        raise RbacPolicyNotFoundError(f"RBAC policy with ID {identity} not found")
    return rbac_policy
