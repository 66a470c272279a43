"""What a user may enter: roles on projects, domains and the system."""

import uuid
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from provisioning.identity import effective
from provisioning.identity.models import Domain, GroupMembership, Project, RoleAssignment


def roles_of(user_id: uuid.UUID, project_id: uuid.UUID) -> frozenset[str]:
    """Return the user's roles on the project by name, implied ones included; empty when user or project is disabled."""
    return effective.role_names(user_id, project_id=project_id)


def roles_on_system(user_id: uuid.UUID) -> frozenset[str]:
    """As ``roles_of``, on the whole system."""
    return effective.role_names(user_id, system=True)


@dataclass(frozen=True, slots=True)
class Entries:
    """What a user may get a token for: projects and domains, each by name, and whether for the system."""

    projects: list[Project]
    domains: list[Domain]
    system: bool

    @property
    def count(self) -> int:
        return len(self.projects) + len(self.domains) + self.system


def entries_of(user_id: uuid.UUID) -> Entries:
    """Return all that the user may enter; it takes no more queries than ``projects_of`` for who has no domain."""
    given = _given_to(user_id)
    others = given.filter(Q(system=True) | Q(domain__isnull=False, inherited=False) | Q(inherited=True))
    rows = list(others.only("project_id", "domain_id", "system", "inherited"))
    below = {row.project_id for row in rows if row.project_id is not None}
    domain_ids = {row.domain_id for row in rows if row.domain_id is not None and not row.inherited}
    domains = Domain.objects.filter(id__in=domain_ids, enabled=True).order_by("name") if domain_ids else ()
    return Entries(_projects(given, below), list(domains), any(row.system for row in rows))


def projects_of(user_id: uuid.UUID) -> list[Project]:
    """Return the enabled projects on which the user has a role, in whatever way, by name."""
    given = _given_to(user_id)
    below = set(given.filter(project__isnull=False, inherited=True).values_list("project_id", flat=True))
    return _projects(given, below)


def _projects(given: QuerySet[RoleAssignment], below: set[uuid.UUID]) -> list[Project]:
    """Return the projects on which roles were given, or that are below these ones."""
    inherited: set[uuid.UUID] = set()
    while below:  # down the trees, which are few levels deep
        below = set(Project.objects.filter(parent__in=below).values_list("id", flat=True)) - inherited
        inherited |= below
    found = Project.objects.filter(
        Q(id__in=given.filter(project__isnull=False, inherited=False).values("project_id"))
        | Q(domain__in=given.filter(domain__isnull=False, inherited=True).values("domain_id"))
        | Q(id__in=inherited),
        enabled=True,
        domain__enabled=True,
    )
    return list(found.select_related("domain").order_by("name", "id"))


def domains_of(user_id: uuid.UUID) -> list[Domain]:
    """Return the enabled domains on which themselves the user has a role, by name."""
    given = _given_to(user_id).filter(domain__isnull=False, inherited=False)
    return list(Domain.objects.filter(id__in=given.values("domain_id"), enabled=True).order_by("name"))


def _given_to(user_id: uuid.UUID) -> QuerySet[RoleAssignment]:
    groups = GroupMembership.objects.filter(user=user_id).values("group")
    return RoleAssignment.objects.filter(Q(user=user_id) | Q(group__in=groups))
