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
    rows = _visible(context, everybody=everybody)
    if user_id is not None:
        key = read_id(user_id)
        rows = rows.filter(user=key) if key is not None else rows.none()
    if kind is not None:
        rows = rows.filter(type=kind) if "\0" not in kind else rows.none()
    return list(rows.order_by("created_at", "id")[:LARGEST])


def ec2_credentials(context: RequestContext) -> QuerySet[Credential]:
    """Return the caller's EC2 credentials in its project, in any order."""
    return _visible(context, everybody=False).filter(type="ec2", project=context.project_id)


def existing_credential(context: RequestContext, credential_id: str, *, everybody: bool = False) -> Credential:
    """Return a credential that is visible to the caller.  Raises NotFoundError."""
    credential = None
    if credential_id.isalnum() and credential_id.isascii():
        credential = _visible(context, everybody=everybody).filter(id=credential_id).first()
    if credential is None:
        raise NotFoundError(f"Could not find credential: {credential_id[:64]}.")
    return credential


def project_to_enter(context: RequestContext, user_id: uuid.UUID, project_id: str) -> Project:
    """Return the project if the user has a role there or the token is for it.  Raises NotFoundError."""
    key = read_id(project_id)
    row = next((project for project in projects_of(user_id) if project.id == key), None)
    if row is None and key is not None and context.trust_id is not None and key == context.project_id:
        row = by_id(Project, key)
    if row is None:
        raise NotFoundError(f"Could not find project: {project_id[:64]}.")
    return row


def _visible(context: RequestContext, *, everybody: bool) -> QuerySet[Credential]:
    """Return the credentials that are visible to the caller.

    With the token of an application credential or trust, these are only credentials that were created with it, because
    other blobs could give more rights. With the token of a trust, even an operator does not see credentials of other
    projects.
    """
    rows = Credential.objects.select_related("user", "project", "application_credential")
    if not everybody:
        rows = rows.filter(user=context.user_id)
    if context.application_credential_id is not None and not context.is_admin:
        rows = rows.filter(application_credential=context.application_credential_id)
    if context.trust_id is not None:
        rows = rows.filter(project=context.project_id)
        rows = rows if context.is_admin else rows.filter(trust=context.trust_id)
    return rows


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
    rows = ApplicationCredential.objects.filter(user=user).order_by("name")
    if name is not None:
        rows = rows.filter(name=name) if "\0" not in name else rows.none()
    return list(rows.select_related("project").prefetch_related("roles", "access_rules"))


def application_credential_by(
    *, credential_id: str | None = None, user: User | None = None, name: str | None = None
) -> ApplicationCredential | None:
    """Return the application credential with this id, or with this user and name, or None. It may have expired.

    With an id and a user, it must belong to that user.
    """
    rows = ApplicationCredential.objects.select_related("user__domain", "project__domain")
    if user is not None:
        rows = rows.filter(user=user)
    if credential_id is not None:
        key = read_id(credential_id)
        return rows.filter(id=key).first() if key else None
    if user is None or name is None or "\0" in name:
        return None
    return rows.filter(name=name).first()


def existing_application_credential(user: User, credential_id: str) -> ApplicationCredential:
    """Return the user's application credential with this id.  Raises NotFoundError."""
    application_credential = application_credential_by(credential_id=credential_id, user=user)
    if application_credential is None:
        raise NotFoundError(f"Could not find Application Credential: {credential_id[:64]}.")
    return application_credential


def access_rules_of(user: User) -> list[AccessRule]:
    """Return the user's access rules, by service, path and method."""
    return list(AccessRule.objects.filter(user=user).order_by("service", "path", "method"))


def existing_access_rule(user: User, rule_id: str) -> AccessRule:
    """Return the user's access rule with this id.  Raises NotFoundError."""
    key = read_id(rule_id)
    access_rule = AccessRule.objects.filter(user=user, id=key).first() if key else None
    if access_rule is None:
        raise NotFoundError(f"Could not find Access Rule: {rule_id[:64]}.")
    return access_rule


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
    rows = Trust.objects.select_related("trustor__domain", "trustee__domain", "project__domain")
    rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    if not used_up:
        rows = rows.filter(Q(remaining_uses=None) | Q(remaining_uses__gt=0))
    return rows.filter(id=key).first() if key else None


def existing_trust(trust_id: str, *, used_up: bool = False) -> Trust:
    """As ``trust_by``, but raises NotFoundError instead of returning None."""
    trust = trust_by(trust_id, used_up=used_up)
    if trust is None:
        raise NotFoundError(f"Could not find trust: {trust_id[:64]}.")
    return trust


def trust_of_token(trust_id: uuid.UUID) -> Trust:
    """Return the trust of a valid token, which may have no uses left; raises NotFoundError."""
    trust = Trust.objects.filter(id=trust_id).first()
    if trust is None:
        raise NotFoundError(f"Could not find trust: {trust_id.hex}.")
    return trust


def trusts(*, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Trust]:
    """Return the trusts of these users, or all, the oldest first, including trusts that can no longer be used."""
    rows: QuerySet[Trust] = Trust.objects.order_by("created_at", "id")
    for name, text in (("trustor", trustor_id), ("trustee", trustee_id)):
        if text is not None:
            key = read_id(text)
            rows = rows.filter(**{name: key}) if key else rows.none()
    return list(rows)


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
