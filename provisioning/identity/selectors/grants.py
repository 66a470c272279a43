"""Who has which role where, as it was given."""

from __future__ import annotations

from typing import Unpack

from provisioning.common.ids import read_id
from provisioning.identity.grant_target import Target, columns_of
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User

Record = Domain | Group | Project | Role | User
_MODELS: dict[str, type[Group] | type[Project] | type[Role] | type[User]] = {
    "group": Group,
    "project": Project,
    "role": Role,
    "user": User,
}


def record_of(kind: str, text: str) -> Record | None:
    """Return the ``domain``, ``group``, ``project``, ``role`` or ``user`` of this id, or None."""
    if kind == "domain":
        return None if "\0" in text else Domain.objects.filter(id=text).first()
    key = read_id(text)
    return _MODELS[kind].objects.filter(id=key).first() if key else None


def granted_roles(**target: Unpack[Target]) -> list[Role]:
    """Return the roles that were given to this user or group on this target itself, by name."""
    rows = RoleAssignment.objects.filter(**columns_of(**target))
    return list(Role.objects.filter(id__in=rows.values("role")).order_by("name", "id"))


def has_grant(role: Role, **target: Unpack[Target]) -> bool:
    """Whether the role was given so."""
    return RoleAssignment.objects.filter(role=role, **columns_of(**target)).exists()
