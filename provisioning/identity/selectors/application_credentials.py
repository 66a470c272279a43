"""Application credentials: their restrictions, and lists for their users."""

import uuid
from typing import NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import AccessRule, ApplicationCredential, Role, User
from provisioning.identity.roles import effective


class Limits(NamedTuple):
    """The restrictions of an application credential's tokens, in addition to the user's own roles."""

    roles: frozenset[str]
    """Names, including implied roles.  A token is only valid while the user has all of them."""
    unrestricted: bool
    access_rules: tuple[tuple[str, str, str], ...] | None
    """(service, method, path pattern); None: all requests are allowed."""
    user_id: uuid.UUID
    project_id: uuid.UUID
    """The credential's tokens are only valid for this user and project."""


def limits_of(credential_id: uuid.UUID) -> Limits | None:
    """Return the restrictions, or None if the credential was deleted or has expired; one query."""
    found = effective.held_to(credential_id, timezone.now())
    if found is None:
        return None
    return Limits(found.roles, found.unrestricted, found.access_rules or None, found.user_id, found.project_id)


def own_application_credentials(context: RequestContext) -> QuerySet[ApplicationCredential]:
    """Return the caller's application credentials, in any order."""
    return ApplicationCredential.objects.filter(user=context.user_id)


def application_credentials_of(user: User, *, name: str | None = None) -> list[ApplicationCredential]:
    """Return the user's application credentials with their roles, access rules and project, by name."""
    found = ApplicationCredential.objects.filter(user=user).order_by("name")
    if name is not None:
        found = found.filter(name=name) if "\0" not in name else found.none()
    return list(found.select_related("project").prefetch_related("roles", "access_rules"))


def application_credential_by(
    *, credential_id: str | None = None, user: User | None = None, name: str | None = None
) -> ApplicationCredential | None:
    """Return the application credential with this id, or with this user and name, or None. It may have expired.

    With an id and a user, it must belong to that user.
    """
    found = ApplicationCredential.objects.select_related("user__domain", "project__domain")
    if user is not None:
        found = found.filter(user=user)
    if credential_id is not None:
        key = read_id(credential_id)
        return found.filter(id=key).first() if key else None
    if user is None or name is None or "\0" in name:
        return None
    return found.filter(name=name).first()


def existing_application_credential(user: User, credential_id: str) -> ApplicationCredential:
    """Return the user's application credential with this id.  Raises NotFoundError."""
    found = application_credential_by(credential_id=credential_id, user=user)
    if found is None:
        raise NotFoundError(f"Could not find Application Credential: {credential_id[:64]}.")
    return found


def access_rules_of(user: User) -> list[AccessRule]:
    """Return the user's access rules, by service, path and method."""
    return list(AccessRule.objects.filter(user=user).order_by("service", "path", "method"))


def existing_access_rule(user: User, rule_id: str) -> AccessRule:
    """Return the user's access rule with this id.  Raises NotFoundError."""
    key = read_id(rule_id)
    found = AccessRule.objects.filter(user=user, id=key).first() if key else None
    if found is None:
        raise NotFoundError(f"Could not find Access Rule: {rule_id[:64]}.")
    return found


def role_by(*, role_id: str | None = None, name: str | None = None) -> Role | None:
    """Return the global role with this id, or else with this name, or None."""
    roles = Role.objects.filter(domain=None)
    if role_id is not None:
        key = read_id(role_id)
        return roles.filter(id=key).first() if key else None
    return roles.filter(name=name).first() if name is not None and "\0" not in name else None
