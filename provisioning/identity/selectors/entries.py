"""What a user may enter: roles on projects, domains and the system."""

import uuid

from django.db.models import Q, QuerySet

from provisioning.identity import effective
from provisioning.identity.models import Domain, GroupMembership, Project, RoleAssignment


def roles_of(user_id: uuid.UUID, project_id: uuid.UUID) -> frozenset[str]:
    """Return the user's roles on the project by name, implied ones included; empty when user or project is disabled."""
    return effective.role_names(user_id, project_id=project_id)


def roles_on_system(user_id: uuid.UUID) -> frozenset[str]:
    """As ``roles_of``, on the whole system."""
    return effective.role_names(user_id, system=True)


def projects_of(user_id: uuid.UUID) -> list[Project]:
    """Return the enabled projects on which the user has a role, in whatever way, by name."""
    given = _given_to(user_id)
    below = set(given.filter(project__isnull=False, inherited=True).values_list("project_id", flat=True))
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
