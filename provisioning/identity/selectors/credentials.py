"""Credentials, application credentials and trusts that are visible to their owners and to administrators."""

import uuid
from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import AccessRule, ApplicationCredential, Credential, Project, Role, Trust, User
from provisioning.identity.roles import effective
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id

LARGEST = 1000
"""Maximum number of rows in one response."""


def credentials_for(
    context: RequestContext, *, user_id: str | None = None, kind: str | None = None, everybody: bool = False
) -> list[Credential]:
    """Return the caller's credentials, or with ``everybody`` the credentials of all users, filtered by user and
    type.
    """
    found = _visible(context, everybody=everybody)
    if user_id is not None:
        key = read_id(user_id)
        found = found.filter(user=key) if key is not None else found.none()
    if kind is not None:
        found = found.filter(type=kind) if "\0" not in kind else found.none()
    return list(found.order_by("created_at", "id")[:LARGEST])


def ec2_credentials(context: RequestContext) -> QuerySet[Credential]:
    """Return the caller's EC2 credentials in its project, in any order."""
    return _visible(context, everybody=False).filter(type="ec2", project=context.project_id)


def existing_credential(context: RequestContext, credential_id: str, *, everybody: bool = False) -> Credential:
    """Return a credential that is visible to the caller.  Raises NotFoundError."""
    found = None
    if credential_id.isalnum() and credential_id.isascii():
        found = _visible(context, everybody=everybody).filter(id=credential_id).first()
    if found is None:
        raise NotFoundError(f"Could not find credential: {credential_id[:64]}.")
    return found


def project_to_enter(context: RequestContext, user_id: uuid.UUID, project_id: str) -> Project:
    """Return the project if the user has a role there or the token is for it.  Raises NotFoundError."""
    key = read_id(project_id)
    found = next((project for project in projects_of(user_id) if project.id == key), None)
    if found is None and key is not None and context.trust_id is not None and key == context.project_id:
        found = by_id(Project, key)
    if found is None:
        raise NotFoundError(f"Could not find project: {project_id[:64]}.")
    return found


def _visible(context: RequestContext, *, everybody: bool) -> QuerySet[Credential]:
    """Return the credentials that are visible to the caller.

    With the token of an application credential or trust, these are only credentials that were created with it, because
    other blobs could give more rights. With the token of a trust, even an operator does not see credentials of other
    projects.
    """
    found = Credential.objects.select_related("user", "project", "application_credential")
    if not everybody:
        found = found.filter(user=context.user_id)
    if context.application_credential_id is not None and not context.is_admin:
        found = found.filter(application_credential=context.application_credential_id)
    if context.trust_id is not None:
        found = found.filter(project=context.project_id)
        found = found if context.is_admin else found.filter(trust=context.trust_id)
    return found


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


def trust_by(trust_id: str, *, used_up: bool = False) -> Trust | None:
    """Return the trust with this id if it can be used: None if it has expired or has no uses left, as in Keystone.

    ``used_up``: also if it has no uses left; tokens that were issued for it stay valid.
    """
    key = read_id(trust_id)
    found = Trust.objects.select_related("trustor__domain", "trustee__domain", "project__domain")
    found = found.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    if not used_up:
        found = found.filter(Q(remaining_uses=None) | Q(remaining_uses__gt=0))
    return found.filter(id=key).first() if key else None


def existing_trust(trust_id: str, *, used_up: bool = False) -> Trust:
    """As ``trust_by``, but raises NotFoundError instead of returning None."""
    found = trust_by(trust_id, used_up=used_up)
    if found is None:
        raise NotFoundError(f"Could not find trust: {trust_id[:64]}.")
    return found


def trust_of_token(trust_id: uuid.UUID) -> Trust:
    """Return the trust of a valid token, which may have no uses left; raises NotFoundError."""
    found = Trust.objects.filter(id=trust_id).first()
    if found is None:
        raise NotFoundError(f"Could not find trust: {trust_id.hex}.")
    return found


def trusts(*, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Trust]:
    """Return the trusts of these users, or all, the oldest first, including trusts that can no longer be used."""
    found: QuerySet[Trust] = Trust.objects.order_by("created_at", "id")
    for name, text in (("trustor", trustor_id), ("trustee", trustee_id)):
        if text is not None:
            key = read_id(text)
            found = found.filter(**{name: key}) if key else found.none()
    return list(found)


def roles_of_trust(trust: Trust) -> list[Role]:
    """Return the existing roles of the trust, by name."""
    return list(Role.objects.filter(trustrole__trust=trust).order_by("name", "id"))


def roles_named(requested: Iterable[dict[str, str]]) -> list[Role]:
    """Return roles of any domain, each specified by ``id`` or ``name``, without duplicates.

    Raises NotFoundError, and InvalidInputError for an ambiguous name.
    """
    result: dict[object, Role] = {}
    for reference in requested:
        text = reference.get("id", reference.get("name", ""))
        column, value = ("id", read_id(text)) if "id" in reference else ("name", text if "\0" not in text else None)
        roles = list(Role.objects.filter(**{column: value})[:2]) if value is not None else []
        if not roles:
            raise NotFoundError(f"Could not find role: {text[:64]}.")
        if len(roles) > 1:
            raise InvalidInputError(f"There are multiple roles named {text[:64]!r}. Specify the id.", field="roles")
        result[roles[0].id] = roles[0]
    return list(result.values())
