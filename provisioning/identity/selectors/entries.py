"""The scopes of a user: roles on projects, domains and the system."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.identity.models import Domain, GroupMembership, Project, RoleAssignment
from provisioning.identity.roles import effective


def roles_of(user_id: uuid.UUID, project_id: uuid.UUID) -> frozenset[str]:
    """Return the names of the user's roles on the project, including implied ones; empty if user or project is
    disabled.
    """
    return effective.role_names(user_id, project_id=project_id)


def roles_on_system(user_id: uuid.UUID) -> frozenset[str]:
    """As ``roles_of``, on the system."""
    return effective.role_names(user_id, system=True)


@dataclass(frozen=True, slots=True)
class Entries:
    """The scopes for which a user may get a token: projects and domains, sorted by name, and whether the system
    is one.
    """

    projects: list[Project]
    domains: list[Domain]
    system: bool

    @property
    def count(self) -> int:
        return len(self.projects) + len(self.domains) + self.system


def entries_of(user_id: uuid.UUID) -> Entries:
    """Return all scopes of the user. For a user without domain roles it takes no more queries than ``projects_of``."""
    rows = _BEYOND_PROJECTS(user=user_id)
    below = {project_id for project_id, *_ in rows if project_id is not None}
    domain_ids = {domain_id for _, domain_id, _, inherited in rows if domain_id is not None and not inherited}
    domains = Domain.objects.filter(id__in=domain_ids, enabled=True).order_by("name") if domain_ids else ()
    return Entries(_projects(user_id, below), list(domains), any(system for _, _, system, _ in rows))


def projects_of(user_id: uuid.UUID) -> list[Project]:
    """Return the enabled projects on which the user has a role, directly or indirectly, by name."""
    return _projects(user_id, {project_id for (project_id,) in _INHERITED(user=user_id)})


def _projects(user_id: uuid.UUID, below: set[uuid.UUID]) -> list[Project]:
    """Return the projects on which the user was assigned roles, and the projects below each project in ``below``."""
    if not below:
        return _GIVEN_PROJECTS(user=user_id)
    inherited: set[uuid.UUID] = set()
    while below:  # the trees have few levels
        below = set(Project.objects.filter(parent__in=below).values_list("id", flat=True)) - inherited
        inherited |= below
    return list(_enabled(_projects_of(user_id) | Q(id__in=inherited)))


def _enabled(projects: Q) -> QuerySet[Project]:
    rows = Project.objects.filter(projects, enabled=True, domain__enabled=True)
    return rows.select_related("domain").order_by("name", "id")


def domains_of(user_id: uuid.UUID) -> list[Domain]:
    """Return the enabled domains on which the user has a role that applies to the domain itself, by name."""
    assignments = _assignments_of(user_id).filter(domain__isnull=False, inherited=False)
    return list(Domain.objects.filter(id__in=assignments.values("domain_id"), enabled=True).order_by("name"))


def _assignments_of(user_id: Any) -> QuerySet[RoleAssignment]:
    groups = GroupMembership.objects.filter(user=user_id).values("group")
    return RoleAssignment.objects.filter(Q(user=user_id) | Q(group__in=groups))


def _projects_of(user_id: Any) -> Q:
    """Match the projects on which the user was assigned roles, directly or for all projects of their domain."""
    assignments = _assignments_of(user_id)
    here = assignments.filter(project__isnull=False, inherited=False).values("project_id")
    in_domain = assignments.filter(domain__isnull=False, inherited=True).values("domain_id")
    return Q(id__in=here) | Q(domain__in=in_domain)


_BEYOND_PROJECTS: Prepared[tuple[Any, ...]] = Prepared(
    lambda user: (
        _assignments_of(user)
        .filter(Q(system=True) | Q(domain__isnull=False, inherited=False) | Q(inherited=True))
        .values_list("project_id", "domain_id", "system", "inherited")
    ),
    user=UUIDField(),
)
"""Roles on the system, on domains, and inherited roles on projects or domains."""
_INHERITED = Prepared(
    lambda user: _assignments_of(user).filter(project__isnull=False, inherited=True).values_list("project_id"),
    user=UUIDField(),
)
_GIVEN_PROJECTS = Prepared(lambda user: _enabled(_projects_of(user)), user=UUIDField())
