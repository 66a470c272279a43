"""Lists of domains, projects, users, roles and assignments for those who run the cloud."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.models import Domain, Project, Role, RoleAssignment, User

Record = TypeVar("Record", bound=Model)

LARGEST = 1000
"""Rows of one answer."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list is narrowed to; None: not by this."""

    name: str | None = None
    domain_id: str | None = None
    enabled: bool | None = None


def domains(filters: Filters, *, only: str | None = None) -> list[Domain]:
    """Return the domains by name; with ``only`` no other than the one of this id."""
    found = Domain.objects.order_by("name")
    if only is not None:
        found = found.filter(id=only)
    return list(_narrow(found, Filters(filters.name, None, filters.enabled))[:LARGEST])


def projects(filters: Filters, *, open_to: uuid.UUID | None = None) -> list[Project]:
    """Return the projects by name; with ``open_to`` those on which this user has a role."""
    found = Project.objects.order_by("name", "id")
    if open_to is not None:
        found = found.filter(roleassignment__user=open_to, enabled=True, domain__enabled=True).distinct()
    return list(_narrow(found, filters)[:LARGEST])


def users(filters: Filters, *, only: uuid.UUID | None = None) -> list[User]:
    """Return the users by name; with ``only`` no other than the one of this id."""
    found = User.objects.order_by("name", "id")
    if only is not None:
        found = found.filter(id=only)
    return list(_narrow(found, filters)[:LARGEST])


def roles(name: str | None = None) -> list[Role]:
    """Return the roles by name."""
    found = Role.objects.order_by("name")
    return list(found.filter(name=name) if name is not None else found)


def role(role_id: str) -> Role:
    """Return a role, or raise NotFoundError."""
    key = read_id(role_id)
    found = Role.objects.filter(id=key).first() if key else None
    if found is None:
        raise NotFoundError(f"Could not find role: {role_id[:64]}.")
    return found


def domain(domain_id: str) -> Domain:
    """Return a domain, or raise NotFoundError."""
    found = Domain.objects.filter(id=domain_id).first()
    if found is None:
        raise NotFoundError(f"Could not find domain: {domain_id[:64]}.")
    return found


def assignments(
    *, user_id: str | None = None, project_id: str | None = None, role_id: str | None = None
) -> list[RoleAssignment]:
    """Return who has which role on which project, with names; an id that is none matches nothing."""
    found = RoleAssignment.objects.select_related("user__domain", "project__domain", "role").order_by("id")
    for column, text in (("user_id", user_id), ("project_id", project_id), ("role_id", role_id)):
        if text is None:
            continue
        key = read_id(text)
        found = found.filter(**{column: key}) if key is not None else found.none()
    return list(found[:LARGEST])


def _narrow(found: QuerySet[Record], filters: Filters) -> QuerySet[Record]:
    wanted = {"name": filters.name, "domain": filters.domain_id, "enabled": filters.enabled}
    return found.filter(**{column: value for column, value in wanted.items() if value is not None})
