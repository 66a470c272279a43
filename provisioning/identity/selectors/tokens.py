"""Validation of tokens, and the sessions to which they belong."""

import uuid
from collections.abc import Collection
from datetime import datetime

from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import SignIn
from provisioning.identity.roles import effective
from provisioning.identity.selectors import credentials
from provisioning.identity.tokens import tokens
from provisioning.identity.tokens.tokens import TokenData


def token_data(value: str) -> TokenData:
    """Return the content of a valid token (see ``context_for_token``); raises NotAuthenticatedError."""
    data = tokens.read(value)
    context_of(data)
    return data


def context_for_token(value: str, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """Return the context of a token's caller.

    Validated at each use (one query, one more for an application credential), so that revocations take effect
    immediately. Raises NotAuthenticatedError if the token has expired or was revoked, its session was ended, its user,
    project or one of their domains is disabled or deleted, the password was changed after it was issued, the user no
    longer has a role in its scope, or its application credential was deleted, has expired, or has a role that the user
    has lost. For tokens of trusts see ``effective.trust_subject``.
    """
    return context_of(tokens.read(value), request_id=request_id, global_request_id=global_request_id)


def context_of(data: TokenData, *, request_id: str = "", global_request_id: str | None = None) -> RequestContext:
    """As ``context_for_token``, for a token that was already decrypted; open connections use it to validate again."""
    found, user_id = effective.token_subject(data) if data.trust is None else None, data.user_id
    if data.trust is not None and (worth := effective.trust_subject(data)) is not None:
        found, user_id = worth.subject, worth.user_id
    if found is None:
        raise NotAuthenticatedError(REFUSED)
    roles, unrestricted, access_rules = found.roles, True, None
    if data.application_credential is not None:
        limits = credentials.limits_of(data.application_credential)
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


def last_uses(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
    """Return application credential → time of its last use by a program with a valid session; one query."""
    rows = _valid_sign_ins().filter(application_credential__in=ids)
    return dict(rows.values_list("application_credential").annotate(Max("last_used_at")))


def sign_ins_of(user_id: uuid.UUID) -> QuerySet[SignIn]:
    """Return the valid sessions of a user, the last used first."""
    return _valid_sign_ins().filter(user=user_id).order_by("-last_used_at", "id")


def _valid_sign_ins() -> QuerySet[SignIn]:
    ended = Q(user__tokens_valid_after__isnull=False, last_used_at__lt=F("user__tokens_valid_after"))
    return SignIn.objects.filter(expires_at__gt=timezone.now()).exclude(ended)
