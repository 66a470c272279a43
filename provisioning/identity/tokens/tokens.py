"""Tokens: signed and encrypted statements of a user's authentication and scope; they are not stored.

The validity of a token is checked in the database at each use (``selectors.context_for_token``); only revocations are
stored there.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.utils import timezone

from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.identity.encryption import keys
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Domain, Project, SignIn, Trust, User

LONGEST_CHAIN = 16
"""Maximum length of a chain of tokens that were issued for one another."""
LONGEST_VALUE = 2048
"""Maximum length of a token."""
KEPT_AFTER_END = timedelta(days=2)
"""How long an expired token can still be validated with ``allow_expired``."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TokenData:
    """The content of a token."""

    user_id: uuid.UUID
    project_id: uuid.UUID | None
    methods: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime
    chain: tuple[str, ...]
    """Audit ids: first the id of this token, then the ids of the tokens from which it was issued, up to the first token
    of the chain.
    """
    domain_id: str | None = None
    system: bool = False
    sign_in: uuid.UUID | None = None
    """The session (models.SignIn) of the token."""
    application_credential: uuid.UUID | None = None
    trust: uuid.UUID | None = None
    """The trust of the token. ``user_id`` is the trustee, even with impersonation."""

    @property
    def audit_id(self) -> str:
        """The id of this token, which is not secret."""
        return self.chain[0]

    @property
    def audit_ids(self) -> list[str]:
        """Audit ids as Keystone shows them: the token's own id, and the id of the first token of the chain if there are
        several.
        """
        return [self.chain[0]] if len(self.chain) == 1 else [self.chain[0], self.chain[-1]]

    def root(self) -> TokenData:
        """Return this content with a chain that contains its first token only. Tokens issued from it are therefore
        revoked only with the whole chain.
        """
        return replace(self, chain=self.chain[-1:])


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token and its content; ``value`` is a secret."""

    value: str
    data: TokenData


class _Payload(msgspec.Struct, array_like=True, frozen=True):
    user: bytes
    project: bytes | None
    methods: tuple[str, ...]
    issued: int  # microseconds since 1970
    expires: int
    chain: tuple[bytes, ...]
    domain: str | None = None
    system: bool = False
    sign_in: bytes | None = None
    application_credential: bytes | None = None
    trust: bytes | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Payload)


Scope = Project | Domain | Trust | Literal["system"] | None
"""The scope of a token; None: unscoped. A trust: its project, if it has one."""


def issue(
    user: User,
    scope: Scope,
    methods: tuple[str, ...],
    *,
    parent: TokenData | None = None,
    sign_in: SignIn | None = None,
    application_credential: ApplicationCredential | None = None,
    lifetime: timedelta | None = None,
) -> IssuedToken:
    """Issue a token; the caller has authorized it.  ``lifetime`` can shorten the configured lifetime.

    With a ``parent`` (the token it is issued for), the new token expires no later than the parent, inherits the
    parent's methods, session and application credential, and is revoked with it. It also expires no later than its
    application credential or trust. Raises ForbiddenError if the chain of parents is too long.
    """
    now = timezone.now()
    longest = timedelta(seconds=settings.TOKEN_LIFETIME)
    expires = now + (longest if lifetime is None else min(longest, lifetime))
    if application_credential is not None and application_credential.expires_at is not None:
        expires = min(expires, application_credential.expires_at)
    if isinstance(scope, Trust) and scope.expires_at is not None:
        expires = min(expires, scope.expires_at)
    chain: tuple[str, ...] = (_text(uuid.uuid4().bytes),)
    if parent is not None:
        if len(parent.chain) >= LONGEST_CHAIN:
            raise ForbiddenError("This token was passed on too many times. Sign in again.")
        expires = min(expires, parent.expires_at)
        methods = tuple(dict.fromkeys((*methods, *parent.methods)))
        chain += parent.chain
    data = TokenData(
        user_id=user.id,
        project_id=scope.id if isinstance(scope, Project) else scope.project_id if isinstance(scope, Trust) else None,
        methods=methods,
        issued_at=now,
        expires_at=expires,
        chain=chain,
        domain_id=scope.id if isinstance(scope, Domain) else None,
        system=scope == "system",
        sign_in=sign_in.id if sign_in else parent.sign_in if parent else None,
        application_credential=(
            application_credential.id if application_credential else parent.application_credential if parent else None
        ),
        trust=scope.id if isinstance(scope, Trust) else None,
    )
    payload = _Payload(
        user=data.user_id.bytes,
        project=data.project_id.bytes if data.project_id else None,
        methods=data.methods,
        issued=(data.issued_at - _EPOCH) // timedelta(microseconds=1),
        expires=(data.expires_at - _EPOCH) // timedelta(microseconds=1),
        chain=tuple(_bytes(audit_id) for audit_id in data.chain),
        domain=data.domain_id,
        system=data.system,
        sign_in=data.sign_in.bytes if data.sign_in else None,
        application_credential=data.application_credential.bytes if data.application_credential else None,
        trust=data.trust.bytes if data.trust else None,
    )
    value = keys.current().encrypt(_encoder.encode(payload)).decode().rstrip("=")
    return IssuedToken(value, data)


def read(value: str, *, ended: bool = False) -> TokenData:
    """Return the content of a token. Raises NotAuthenticatedError unless it was issued here and has not expired.

    ``ended``: accept tokens that expired at most ``KEPT_AFTER_END`` ago. Does not check revocation, which
    ``selectors.context_for_token`` does.
    """
    if not 0 < len(value) <= LONGEST_VALUE or not value.isascii():
        raise NotAuthenticatedError(REFUSED)
    try:
        payload = _decoder.decode(keys.current().decrypt(value + "=" * (-len(value) % 4)))
    except (InvalidToken, msgspec.DecodeError) as error:
        raise NotAuthenticatedError(REFUSED) from error
    data = TokenData(
        user_id=uuid.UUID(bytes=payload.user),
        project_id=uuid.UUID(bytes=payload.project) if payload.project else None,
        methods=payload.methods,
        issued_at=_EPOCH + timedelta(microseconds=payload.issued),
        expires_at=_EPOCH + timedelta(microseconds=payload.expires),
        chain=tuple(_text(audit_id) for audit_id in payload.chain),
        domain_id=payload.domain,
        system=payload.system,
        sign_in=uuid.UUID(bytes=payload.sign_in) if payload.sign_in else None,
        application_credential=(
            uuid.UUID(bytes=payload.application_credential) if payload.application_credential else None
        ),
        trust=uuid.UUID(bytes=payload.trust) if payload.trust else None,
    )
    if data.expires_at <= timezone.now() - (KEPT_AFTER_END if ended else timedelta()):
        raise NotAuthenticatedError(REFUSED)
    return data


def _text(audit_id: bytes) -> str:
    return base64.urlsafe_b64encode(audit_id).decode().rstrip("=")


def _bytes(audit_id: str) -> bytes:
    return base64.urlsafe_b64decode(audit_id + "==")
