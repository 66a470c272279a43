"""Receipts: signed and encrypted statements of the authentication methods that a user has proved so far, as in
Keystone.

Users whose rules require several methods may prove them in several requests. Each insufficient request returns a
receipt for the methods proved so far. Receipts are not stored; they are not tokens, and tokens are not receipts.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.credentials import mfa
from provisioning.identity.encryption import keys
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import User
from provisioning.identity.tokens.tokens import LONGEST_VALUE

METHODS = frozenset({"password", "totp"})
"""Methods that a receipt can contain. A token or application credential is excluded, because its restrictions
would be lost in a receipt.
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of a receipt; ``value`` is a secret."""

    value: str
    methods: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime


class MoreMethodsError(NotAuthenticatedError):
    """The proofs are correct but not sufficient for the user's rules. The receipt contains the proved methods."""

    code = "more_methods_needed"

    def __init__(self, user: User, receipt: Receipt) -> None:
        """The message is the same as for a wrong proof."""
        self.user, self.receipt = user, receipt
        super().__init__(REFUSED)

    @property
    def required(self) -> list[list[str]]:
        """The user's rules that are partly satisfied."""
        return mfa.required(self.user, self.receipt.methods)


class _Payload(msgspec.Struct, array_like=True, frozen=True, tag="receipt"):
    user: bytes
    methods: tuple[str, ...]
    issued: int  # microseconds since 1970
    expires: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Payload)


def issue(user: User, methods: tuple[str, ...]) -> Receipt:
    """Issue a receipt for these methods, which the user has proved."""
    now = timezone.now()
    expires = now + timedelta(seconds=settings.RECEIPT_LIFETIME)
    issued, until = ((moment - _EPOCH) // timedelta(microseconds=1) for moment in (now, expires))
    payload = _Payload(user.id.bytes, methods, issued, until)
    value = keys.current().encrypt(_encoder.encode(payload)).decode().rstrip("=")
    return Receipt(value, methods, now, expires)


def methods_of(value: str, user: User) -> tuple[str, ...]:
    """Return the methods of a receipt.

    Raises NotAuthenticatedError if the receipt was not issued here for this user, if it has expired, or if the user's
    tokens were invalidated after it was issued, for example by a new password.
    """
    if not 0 < len(value) <= LONGEST_VALUE or not value.isascii():
        raise NotAuthenticatedError(REFUSED)
    try:
        payload = _decoder.decode(keys.current().decrypt(value + "=" * (-len(value) % 4)))
    except (InvalidToken, msgspec.DecodeError) as error:
        raise NotAuthenticatedError(REFUSED) from error
    issued, expires = (_EPOCH + timedelta(microseconds=moment) for moment in (payload.issued, payload.expires))
    since = user.tokens_valid_after
    if uuid.UUID(bytes=payload.user) != user.id or expires <= timezone.now() or (since is not None and since > issued):
        raise NotAuthenticatedError(REFUSED)
    return payload.methods
