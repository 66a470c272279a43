"""Stores what a token says, without the token itself, for work that must stop when the token is revoked."""

from typing import Any

import msgspec
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.tokens import TokenData


def keep(data: TokenData) -> dict[str, Any]:
    """Return what the token says as plain JSON; there is no secret in it."""
    kept: dict[str, Any] = msgspec.to_builtins(data)
    return kept


def recall(kept: dict[str, Any]) -> TokenData:
    """Return what ``keep`` was given."""
    return msgspec.convert(kept, TokenData)


def still_good(kept: dict[str, Any]) -> RequestContext:
    """Return who asked, as they are now; raises NotAuthenticatedError once their token has ended or was revoked."""
    data = recall(kept)
    if data.expires_at <= timezone.now():
        raise NotAuthenticatedError(REFUSED)
    return context_of(data)
