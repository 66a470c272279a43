"""Issues and revokes tokens."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Domain, Project, RevokedToken, SignIn, Trust, User
from provisioning.identity.roles import effective
from provisioning.identity.tokens import announce, tokens
from provisioning.identity.tokens.tokens import KEPT_AFTER_END, IssuedToken, Scope, TokenData


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
