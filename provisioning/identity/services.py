"""Writing identity: signing in, giving tokens back, and the records of domains, projects, users and roles.

Whatever takes something away appends an event on the topic ``auth``, so that open connections look again at once.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.utils import timezone

from provisioning.common.errors import ForbiddenError, InvalidInputError, NotAuthenticatedError
from provisioning.common.ids import read_id
from provisioning.events import services as events
from provisioning.identity import selectors, tokens
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import Domain, Project, RevokedToken, Role, RoleAssignment, User
from provisioning.identity.throttle import Attempt
from provisioning.identity.tokens import IssuedToken, TokenData

LONGEST_PASSWORD = 1024
"""Characters."""


def authenticate_password(
    *,
    user_id: str | None = None,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
    password: str,
    source: str,
) -> User:
    """Return the user whose password this is, given by id, or by name and domain; ``source`` is the caller's address.

    An unknown name, a wrong password and a disabled user give the same NotAuthenticatedError after the same work;
    TooManyAttemptsError while the caller has to wait.
    """
    typed = _typed_name(user_id, user_name, domain_id, domain_name)
    attempt = Attempt(typed, source)
    user: User | None = None
    if "\0" not in typed:  # PostgreSQL refuses to look for it
        user = selectors.user_by(user_id=user_id, name=user_name, domain_id=domain_id, domain_name=domain_name)
    if user is None or not user.has_usable_password():
        make_password(password[:LONGEST_PASSWORD])
        right = False
    else:
        right = user.check_password(password[:LONGEST_PASSWORD]) and len(password) <= LONGEST_PASSWORD
    if user is None or not right or not (user.enabled and user.domain.enabled):
        attempt.failed()
        raise NotAuthenticatedError(REFUSED)
    attempt.succeeded()
    return user


def _typed_name(user_id: str | None, user_name: str | None, domain_id: str | None, domain_name: str | None) -> str:
    """Return what the caller typed as one text: attempts are counted for it whether it names somebody or not."""
    if user_id is not None:
        return f"id {user_id.replace('-', '').lower()}"
    return f"name {(user_name or '').casefold()} in {(domain_id or domain_name or '').casefold()}"


def issue_token(
    user: User, project: Project | None, methods: tuple[str, ...], *, parent: TokenData | None = None
) -> IssuedToken:
    """Issue a token for a user who has proved who they are; NotAuthenticatedError without a role on the project."""
    if project is not None and not selectors.roles_of(user.id, project.id):
        raise NotAuthenticatedError(REFUSED)
    return tokens.issue(user, project, methods, parent=parent)


@transaction.atomic
def revoke_token(data: TokenData, *, whole_chain: bool = False) -> None:
    """Give a token back: it and all tokens got by it end now; with ``whole_chain`` those it was got by as well."""
    audit_id = data.chain[-1] if whole_chain else data.audit_id
    RevokedToken.objects.filter(expires_at__lt=timezone.now()).delete()
    RevokedToken.objects.get_or_create(audit_id=audit_id, defaults={"expires_at": data.expires_at})
    _announce(user_id=data.user_id, audit_id=audit_id)


def ensure_domain(domain_id: str, name: str, *, description: str = "") -> Domain:
    """Return the domain of this id, made if absent."""
    return Domain.objects.get_or_create(id=domain_id, defaults={"name": name, "description": description})[0]


def ensure_role(name: str, *, description: str = "") -> Role:
    """Return the role of this name, made if absent."""
    return Role.objects.get_or_create(name=name, defaults={"description": description})[0]


def ensure_project(domain: Domain, name: str, *, description: str = "") -> Project:
    """Return the project of this name in the domain, made if absent."""
    return Project.objects.get_or_create(domain=domain, name=name, defaults={"description": description})[0]


def ensure_user(
    domain: Domain, name: str, *, password: str | None = None, email: str = "", default_project: Project | None = None
) -> User:
    """Return the user of this name in the domain, made if absent; without a password a new one cannot sign in.

    What exists already is left as it is, its password too.
    """
    known = User.objects.filter(domain=domain, name=name).first()
    if known is not None:
        return known
    user = User(domain=domain, name=name, email=email, default_project=default_project)
    _check_password(password)
    user.set_password(password)
    user.save(force_insert=True)
    return user


def assign_role(user: User, project: Project, role: str) -> None:
    """Give the user a role on the project; InvalidInputError when there is no such role."""
    record = Role.objects.filter(name=role).first()
    if record is None:
        raise InvalidInputError(f"There is no role {role}.", field="role")
    RoleAssignment.objects.get_or_create(user=user, project=project, role=record)


@transaction.atomic
def remove_role(user: User, project: Project, role: str) -> None:
    """Take a role away; the user's tokens for the project are worth less at once, and nothing without any role."""
    if RoleAssignment.objects.filter(user=user, project=project, role__name=role).delete()[0]:
        _announce(user_id=user.id, project_id=project.id)


@transaction.atomic
def set_password(user: User, password: str) -> None:
    """Set the password and void every token of the user; InvalidInputError when it is empty or too long."""
    _check_password(password)
    user.set_password(password)
    user.save(update_fields=["password", "tokens_valid_after"])
    _announce(user_id=user.id)


def change_password(user_id: uuid.UUID, original: str, password: str, *, source: str) -> None:
    """Let users change their own password; NotAuthenticatedError when ``original`` is not the present one."""
    set_password(authenticate_password(user_id=user_id.hex, password=original, source=source), password)


def describe_project(project: Project, description: str) -> None:
    """Change what people read about the project."""
    project.description = description
    project.save(update_fields=["description"])


def update_user(user: User, *, email: str, description: str, default_project: Project | None) -> None:
    """Change what people read about the user, and where the user starts after signing in."""
    user.email, user.description, user.default_project = email, description, default_project
    user.save(update_fields=["email", "description", "default_project"])


@transaction.atomic
def set_user_enabled(user: User, *, enabled: bool) -> None:
    """Let the user in, or lock the user out and void every token."""
    user.enabled = enabled
    if not enabled:
        user.tokens_valid_after = timezone.now()
    user.save(update_fields=["enabled", "tokens_valid_after"])
    if not enabled:
        _announce(user_id=user.id)


@transaction.atomic
def set_project_enabled(project: Project, *, enabled: bool) -> None:
    """Open the project, or close it and void every token for it; what runs in it goes on."""
    project.enabled = enabled
    if not enabled:
        project.tokens_valid_after = timezone.now()
    project.save(update_fields=["enabled", "tokens_valid_after"])
    if not enabled:
        _announce(project_id=project.id)


@transaction.atomic
def revoke_all(user: User) -> None:
    """Void every token of the user: sign out everywhere."""
    user.tokens_valid_after = timezone.now()
    user.save(update_fields=["tokens_valid_after"])
    _announce(user_id=user.id)


@transaction.atomic
def delete_user(user: User) -> None:
    """Remove the user; the tokens are worth nothing without it.  What the user made stays with the projects."""
    user_id = user.id
    user.delete()
    _announce(user_id=user_id)


def _check_password(password: str | None) -> None:
    if password is None:
        return
    if not password:
        raise InvalidInputError("The password must not be empty.", field="password")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidInputError(f"The password must have at most {LONGEST_PASSWORD} characters.", field="password")


def project_for_sign_in(user: User, project_id: str | None = None) -> Project:
    """Return the project in which a person starts: the one asked for, the user's own default, or the first by name.

    Raises ForbiddenError when the user has no role there, or none anywhere.
    """
    open_to_user = selectors.projects_of(user.id)
    if project_id is not None:
        wanted = read_id(project_id)
        found = next((project for project in open_to_user if project.id == wanted), None)
        if found is None:
            raise ForbiddenError("You have no role on that project.")
        return found
    if not open_to_user:
        raise ForbiddenError("You have no role on any project. Ask an operator for one.")
    own = [project for project in open_to_user if project.id == user.default_project_id]
    return (own or open_to_user)[0]


def _announce(
    *, user_id: uuid.UUID | None = None, project_id: uuid.UUID | None = None, audit_id: str | None = None
) -> None:
    """Wake every open connection that may be concerned."""
    payload: dict[str, Any] = {
        "user_id": str(user_id) if user_id else None,
        "project_id": str(project_id) if project_id else None,
        "audit_id": audit_id,
    }
    events.record("auth", "revoked", payload)
