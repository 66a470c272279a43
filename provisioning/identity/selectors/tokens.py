"""What a token is worth now."""

from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity import effective, tokens
from provisioning.identity.errors import REFUSED
from provisioning.identity.selectors import application_credentials
from provisioning.identity.tokens import TokenData


def token_data(value: str) -> TokenData:
    """Return what a token says if it is good now (see ``context_for_token``); raises NotAuthenticatedError."""
    data = tokens.read(value)
    context_of(data)
    return data


def context_for_token(value: str, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """Return who asks with this token.

    Looked up at each use (one query, one more for an application credential), so that what was taken away is gone at
    once: raises NotAuthenticatedError when the token has expired or was revoked, when its session was ended, when its
    user, project or a domain of them is disabled or gone, when the password was changed since, when the user has no
    role there any more, or when its application credential is gone, has expired, or has a role that the user lost; of
    a trust's token see ``effective.trust_subject``.
    """
    return context_of(tokens.read(value), request_id=request_id, global_request_id=global_request_id)


def context_of(data: TokenData, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """As ``context_for_token``, for a token that was read before; open connections ask again with it."""
    found, user_id = effective.token_subject(data) if data.trust is None else None, data.user_id
    if data.trust is not None and (worth := effective.trust_subject(data)) is not None:
        found, user_id = worth.subject, worth.user_id
    if found is None:
        raise NotAuthenticatedError(REFUSED)
    roles, unrestricted, access_rules = found.roles, True, None
    if data.application_credential is not None:
        limits = application_credentials.limits_of(data.application_credential)
        own = limits is not None and (limits.user_id, limits.project_id) == (data.user_id, data.project_id)
        if limits is None or not own or not limits.roles or not limits.roles <= roles:
            raise NotAuthenticatedError(REFUSED)
        roles, unrestricted, access_rules = limits.roles, limits.unrestricted, limits.access_rules
    return RequestContext(
        user_id=user_id,
        user_name=found.user_name,
        project_id=data.project_id,
        project_name=found.scope_name if data.project_id else "",
        user_domain_id=found.user_domain_id,
        project_domain_id=found.scope_domain_id if data.project_id else "",
        domain_id=data.domain_id,
        system=data.system,
        roles=roles,
        request_id=request_id or new_request_id(),
        global_request_id=global_request_id,
        audit_id=data.audit_id,
        sign_in_id=data.sign_in,
        application_credential_id=data.application_credential,
        unrestricted=unrestricted,
        access_rules=access_rules,
        trust_id=data.trust,
    )
