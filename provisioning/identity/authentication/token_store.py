"""Stores the content of a token, without the token itself, for tasks that must stop when the token is revoked."""

from typing import Any

import msgspec
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.tokens.tokens import TokenData


def keep(data: TokenData) -> dict[str, Any]:
    """Return the content of a token as plain JSON, without secrets."""
    kept: dict[str, Any] = msgspec.to_builtins(data)
    return kept


def recall(kept: dict[str, Any]) -> TokenData:
    """Return the content that was passed to ``keep``."""
    return msgspec.convert(kept, TokenData)


def still_good(kept: dict[str, Any]) -> RequestContext:
    """Return the caller's current context; raises NotAuthenticatedError if the token has expired or was revoked."""
    data = recall(kept)
    if data.expires_at <= timezone.now():
        raise NotAuthenticatedError(REFUSED)
    return context_of(data)
