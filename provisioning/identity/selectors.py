"""Reading identity: what a token is worth now, who may enter which project, and look-ups by id or name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Exists

from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import NotAuthenticatedError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity import roles, tokens
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import Domain, Project, RevokedToken, Role, RoleAssignment, User
from provisioning.identity.tokens import TokenData


def token_data(value: str) -> TokenData:
    """Return what a token says if it is good now (see ``context_for_token``); raises NotAuthenticatedError."""
    data = tokens.read(value)
    context_of(data)
    return data


def context_for_token(value: str, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """Return who asks with this token.

    Looked up at each use (one query), so that what was taken away is gone at once: raises NotAuthenticatedError when
    the token has expired or was revoked, when its user, project or a domain of them is disabled or gone, when the
    password was changed since, or when the user has no role on the project any more.
    """
    return context_of(tokens.read(value), request_id=request_id, global_request_id=global_request_id)


def context_of(data: TokenData, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """As ``context_for_token``, for a token that was read before; open connections ask again with it."""
    request_id = request_id or new_request_id()
    if data.project_id is None:
        return _unscoped(data, request_id, global_request_id)
    revoked = RevokedToken.objects.filter(audit_id__in=data.chain)
    rows = list(
        RoleAssignment.objects.filter(
            ~Exists(revoked),
            user=data.user_id,
            user__enabled=True,
            user__domain__enabled=True,
            project=data.project_id,
            project__enabled=True,
            project__domain__enabled=True,
        ).values_list(
            "role__name",
            "user__name",
            "user__domain_id",
            "user__tokens_valid_after",
            "project__name",
            "project__domain_id",
            "project__tokens_valid_after",
        )
    )
    if not rows:
        raise NotAuthenticatedError(REFUSED)
    _, user_name, user_domain, user_after, project_name, project_domain, project_after = rows[0]
    if any(after is not None and data.issued_at < after for after in (user_after, project_after)):
        raise NotAuthenticatedError(REFUSED)
    return RequestContext(
        user_id=data.user_id,
        user_name=user_name,
        project_id=data.project_id,
        project_name=project_name,
        user_domain_id=user_domain,
        project_domain_id=project_domain,
        roles=roles.expand(row[0] for row in rows),
        request_id=request_id,
        global_request_id=global_request_id,
        audit_id=data.audit_id,
    )


def _unscoped(data: TokenData, request_id: str, global_request_id: str | None) -> RequestContext:
    revoked = RevokedToken.objects.filter(audit_id__in=data.chain)
    user = User.objects.filter(~Exists(revoked), id=data.user_id, enabled=True, domain__enabled=True).first()
    if user is None or (user.tokens_valid_after is not None and data.issued_at < user.tokens_valid_after):
        raise NotAuthenticatedError(REFUSED)
    return RequestContext(
        user_id=user.id,
        user_name=user.name,
        project_id=None,
        user_domain_id=user.domain_id,
        request_id=request_id,
        global_request_id=global_request_id,
        audit_id=data.audit_id,
    )


def roles_of(user_id: uuid.UUID, project_id: uuid.UUID) -> frozenset[str]:
    """Return the user's roles on the project by name, implied ones included; empty when user or project is disabled."""
    assigned = RoleAssignment.objects.filter(
        user=user_id, user__enabled=True, user__domain__enabled=True,
        project=project_id, project__enabled=True, project__domain__enabled=True,
    )  # fmt: skip
    return roles.expand(assigned.values_list("role__name", flat=True))


def projects_of(user_id: uuid.UUID) -> list[Project]:
    """Return the enabled projects on which the user has a role, by name."""
    found = Project.objects.filter(roleassignment__user=user_id, enabled=True, domain__enabled=True)
    return list(found.select_related("domain").distinct().order_by("name", "id"))


def role_records(names: Iterable[str]) -> list[Role]:
    """Return the roles of these names, by name."""
    return list(Role.objects.filter(name__in=list(names)).order_by("name"))


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
