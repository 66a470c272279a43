"""Receipts: signed and encrypted statements of which ways to sign in somebody has proved so far (Keystone's).

A user whose rules ask for several methods may prove them one after the other: each answer that is not enough yet brings
a receipt, which stands for what was proved.  No row is kept for one; it is no token, and no token is one.
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
from provisioning.identity import keys, mfa
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import User
from provisioning.identity.tokens import LONGEST_VALUE

METHODS = frozenset({"password", "totp"})
"""What a receipt stands for: proofs of the person.  A token or application credential would lose its bounds by one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receipt says; ``value`` is a secret."""

    value: str
    methods: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime


class MoreMethodsError(NotAuthenticatedError):
    """What was proved is right, and not enough for the user's rules; the receipt stands for it."""

    code = "more_methods_needed"

    def __init__(self, user: User, receipt: Receipt) -> None:
        """Say in words no more than of a wrong proof."""
        self.user, self.receipt = user, receipt
        super().__init__(REFUSED)

    @property
    def required(self) -> list[list[str]]:
        """The user's rules of which a part is proved."""
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
    """Return what a receipt stands for.

    Raises NotAuthenticatedError unless it was issued here and for this user, whose tokens were not all ended since, as
    by a new password, and has not expired.
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
