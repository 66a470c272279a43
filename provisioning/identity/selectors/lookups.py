"""Look-ups by id or name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.models import Domain, Group, Project, Role, User


def role_records(names: Iterable[str]) -> list[Role]:
    """Return the roles of these names, by name."""
    return list(Role.objects.filter(name__in=list(names), domain=None).order_by("name"))


def domain_by(*, domain_id: str | None = None, name: str | None = None) -> Domain | None:
    """Return the domain of this id, or else of this name, or None."""
    if domain_id is not None:
        return Domain.objects.filter(id=domain_id).first()
    return Domain.objects.filter(name=name).first() if name is not None else None


def project_by(
    *,
    project_id: str | None = None,
    name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
) -> Project | None:
    """Return the project of this id, or else of this name in the domain given by id or name, or None."""
    projects = Project.objects.select_related("domain")
    if project_id is not None:
        key = read_id(project_id)
        return projects.filter(id=key).first() if key else None
    if domain_id is not None:
        return projects.filter(name=name, domain=domain_id).first()
    return projects.filter(name=name, domain__name=domain_name).first()


def group_named(name: str, domain_id: str) -> Group | None:
    """Return the group of this name in the domain, or None."""
    return Group.objects.filter(name=name, domain=domain_id).first() if "\0" not in name else None


def user_by(
    *, user_id: str | None = None, name: str | None = None, domain_id: str | None = None, domain_name: str | None = None
) -> User | None:
    """Return the user of this id, or else of this name in the domain given by id or name, or None."""
    users = User.objects.select_related("domain", "default_project")
    if user_id is not None:
        key = read_id(user_id)
        return users.filter(id=key).first() if key else None
    if domain_id is not None:
        return users.filter(name=name, domain=domain_id).first()
    return users.filter(name=name, domain__name=domain_name).first()


def users_by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, User]:
    """Return the users of these ids that exist; for lists that show names."""
    return User.objects.in_bulk(list(ids))


def projects_by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Project]:
    """Return the projects of these ids that exist; for lists that show names."""
    return Project.objects.in_bulk(list(ids))


def existing_user(user_id: str) -> User:
    """Return the user, or raise NotFoundError in Keystone's words."""
    found = user_by(user_id=user_id)
    if found is None:
        raise NotFoundError(f"Could not find user: {user_id[:64]}.")
    return found


def existing_project(project_id: str) -> Project:
    """Return the project, or raise NotFoundError in Keystone's words."""
    found = project_by(project_id=project_id)
    if found is None:
        raise NotFoundError(f"Could not find project: {project_id[:64]}.")
    return found
