"""Issues tokens for a scope, and revokes them."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.common.values.ids import read_id
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Domain, Project, RevokedToken, SignIn, Trust, User
from provisioning.identity.roles import effective
from provisioning.identity.selectors.entries import domains_of, entries_of, projects_of, roles_on_system
from provisioning.identity.tokens import announce, tokens
from provisioning.identity.tokens.tokens import KEPT_AFTER_END, IssuedToken, Scope, TokenData


def scope_for_sign_in(user: User, project_id: str | None = None) -> Scope:
    """Return the initial scope: the requested project, the user's default project, or the first by name.

    For a user without projects: their own domain, the first domain by name, or the system. Raises ForbiddenError if
    the user has no role on the requested project, or no role at all.
    """
    if project_id is not None:
        return project_to_enter(user, project_id)
    entries = entries_of(user.id)
    for found, first in ((entries.projects, user.default_project_id), (entries.domains, user.domain_id)):
        if found:
            return next((each for each in found if each.id == first), found[0])
    if entries.system:
        return "system"
    raise ForbiddenError("You have no role on any project, domain or the system. Ask an operator.")


def project_to_enter(user: User, project_id: str) -> Project:
    """Return the project.  Raises ForbiddenError if the user has no role there or it is disabled."""
    requested = read_id(project_id)
    row = next((project for project in projects_of(user.id) if project.id == requested), None)
    if row is None:
        raise ForbiddenError("You have no role on that project.")
    return row


def domain_to_enter(user: User, domain_id: str) -> Domain:
    """Return the domain.  Raises ForbiddenError if the user has no role on the domain itself or it is disabled."""
    row = next((domain for domain in domains_of(user.id) if domain.id == domain_id), None)
    if row is None:
        raise ForbiddenError("You have no role on that domain.")
    return row


def system_to_enter(user: User) -> Scope:
    """Return the system scope.  Raises ForbiddenError if the user has no role on the system."""
    if not roles_on_system(user.id):
        raise ForbiddenError("You have no role on the system.")
    return "system"


def issue_token(
    user: User,
    scope: Scope,
    methods: tuple[str, ...],
    *,
    parent: TokenData | None = None,
    sign_in: SignIn | None = None,
    application_credential: ApplicationCredential | None = None,
    lifetime: timedelta | None = None,
) -> IssuedToken:
    """Issue a token for an authenticated user.  Raises NotAuthenticatedError if the user has no role in the scope."""
    if not may_enter(user, scope):
        raise NotAuthenticatedError(REFUSED)
    return tokens.issue(
        user,
        scope,
        methods,
        parent=parent,
        sign_in=sign_in,
        application_credential=application_credential,
        lifetime=lifetime,
    )


def may_enter(user: User, scope: Scope) -> bool:
    """Return whether the user has a role in the scope. An unscoped token needs no role; a trust is for its trustee."""
    if scope is None:
        return True
    if isinstance(scope, Trust):
        now = timezone.now()
        token = TokenData(user.id, scope.project_id, (), now, now, ("",), trust=scope.id)
        return effective.trust_subject(token) is not None
    roles = effective.role_names(
        user.id,
        project_id=scope.id if isinstance(scope, Project) else None,
        domain_id=scope.id if isinstance(scope, Domain) else None,
        system=scope == "system",
    )
    return bool(roles)


@when_broken_off
@transaction.atomic
def revoke_token(data: TokenData, *, whole_chain: bool = False) -> None:
    """Revoke a token and all tokens issued for it; ``whole_chain``: also the tokens that it was issued for."""
    audit_id = data.chain[-1] if whole_chain else data.audit_id
    RevokedToken.objects.filter(expires_at__lt=timezone.now() - KEPT_AFTER_END).delete()
    RevokedToken.objects.get_or_create(audit_id=audit_id, defaults={"expires_at": data.expires_at})
    announce.revoked(user_id=data.user_id, audit_id=audit_id)
