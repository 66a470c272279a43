"""Who has which role where, as it was given."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Q

from provisioning.common.ids import read_id
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.selectors.trees import parents_of

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


def granted_roles(
    *,
    user: User | None = None,
    group: Group | None = None,
    project: Project | None = None,
    domain: Domain | None = None,
    system: bool = False,
    inherited: bool = False,
) -> list[Role]:
    """Return the roles that were given to this user or group on this target itself, by name; see ``services.grant``."""
    rows = RoleAssignment.objects.filter(
        user=user, group=group, project=project, domain=domain, system=system, inherited=inherited
    )
    return list(Role.objects.filter(id__in=rows.values("role")).order_by("name", "id"))


def has_grant(role: Role, **where: Any) -> bool:
    """Whether the role was given so; the arguments are those of ``granted_roles``."""
    blank = {"user": None, "group": None, "project": None, "domain": None, "system": False, "inherited": False}
    return RoleAssignment.objects.filter(role=role, **(blank | where)).exists()


@dataclass(frozen=True, slots=True)
class Member:
    """One role of a user or a group on a project."""

    role: Role
    user: User | None
    group: Group | None
    inherited_from: Project | Domain | None
    """What it was given on when that is above the project: only there it can be taken away."""

    @property
    def name(self) -> str:
        """Whose role it is."""
        return self.user.name if self.user is not None else self.group.name if self.group is not None else ""

    @property
    def kind(self) -> Literal["user", "group"]:
        """What has the role."""
        return "user" if self.user is not None else "group"

    @property
    def how(self) -> Literal["direct", "project", "domain"]:
        """Given on the project itself, or inherited from a project above it or from its domain."""
        if self.inherited_from is None:
            return "direct"
        return "project" if isinstance(self.inherited_from, Project) else "domain"


def members_of(project: Project) -> list[Member]:
    """Return who has which role on the project, users before groups and by name: what was given on it and what it
    inherits.  Groups are not expanded, and implied roles are left out.
    """
    above: list[uuid.UUID] = [each.id for each in parents_of(project)]
    found = RoleAssignment.objects.filter(
        Q(project=project, inherited=False)
        | Q(project__in=above, inherited=True)
        | Q(domain=project.domain_id, inherited=True)
    ).select_related("role", "user__domain", "group__domain", "project", "domain")
    members = [
        Member(row.role, row.user, row.group, (row.project or row.domain) if row.inherited else None) for row in found
    ]
    return sorted(members, key=lambda each: (each.kind == "group", each.name, each.role.name, each.how))
