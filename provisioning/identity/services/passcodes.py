"""Passcodes of authenticator apps (TOTP, RFC 6238): six digits by SHA-1, every 30 seconds, each valid once."""

import base64
import binascii
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.conf import settings
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from provisioning.common.errors import NotAuthenticatedError, UnavailableError
from provisioning.identity.errors import REFUSED
from provisioning.identity.lockout import lockout, throttle
from provisioning.identity.models import Credential, RevokedToken, User
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.services import credentials
from provisioning.identity.services.passwords import typed_name

STEP = 30
"""Seconds for which a passcode is valid (RFC 6238)."""
EARLIER = 1
"""Number of earlier steps that are also valid, because clocks differ and typing takes time."""
MOST_SECRETS = 20
"""Maximum number of secrets of one user that are tried."""


@dataclass(frozen=True, slots=True)
class PasscodeProof:
    """A user by id, or by name and domain, and the passcode."""

    passcode: str
    user_id: str | None = None
    user_name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


def authenticate_passcode(proof: PasscodeProof, source: str) -> tuple[User, int]:
    """Return the user of a passcode, and its step, which must be passed to ``use_passcode`` if all other proofs are
    correct.

    Raises NotAuthenticatedError, with the same message for all reasons.  Raises TooManyAttemptsError while the client
    must wait.
    """
    throttle.check_address(source)
    typed = typed_name(proof.user_id, proof.user_name, proof.domain_id, proof.domain_name)
    user: User | None = None
    if "\0" not in typed:  # PostgreSQL rejects it in queries
        user = record_by(
            User,
            record_id=proof.user_id,
            name=proof.user_name,
            domain_id=proof.domain_id,
            domain_name=proof.domain_name,
        )
    account = lockout.account_of(user, typed).of("passcode")
    with throttle.Attempt(f"passcode {typed}", source, account) as attempt:
        step = _step(user, proof.passcode) if user is not None else None
        if user is None or step is None or attempt.is_locked() or not (user.enabled and user.domain.enabled):
            raise NotAuthenticatedError(REFUSED)
        attempt.succeeded()
    return user, step


def use_passcode(user: User, step: int) -> None:
    """Mark the user's passcodes of this step as used.  Raises NotAuthenticatedError if they already are."""
    used = hashlib.sha256(f"passcode {user.id.hex} {step}".encode()).hexdigest()[:32]
    ends = timezone.now() + timedelta(seconds=STEP * (EARLIER + 2))
    _, first = RevokedToken.objects.get_or_create(audit_id=used, defaults={"expires_at": ends})
    if not first:
        raise NotAuthenticatedError(REFUSED)


def _step(user: User, passcode: str) -> int | None:
    """Return the step for which the user's passcode is valid, or None."""
    if not settings.TOTP:
        return None
    typed, now = "".join(passcode.split()), int(time.time()) // STEP
    result: int | None = None
    for app in _apps(user):
        for step in range(now - EARLIER, now + 1):
            if constant_time_compare(app.generate(step * STEP).decode(), typed):
                result = step
    return result


def _apps(user: User) -> Iterator[TOTP]:
    """Yield a generator of passcodes for each of the user's secrets that can be decrypted and parsed."""
    for record in Credential.objects.filter(user=user, type=credentials.TOTP).order_by("created_at")[:MOST_SECRETS]:
        try:
            text = "".join(credentials.blob_of(record).split()).rstrip("=").upper()
            secret = base64.b32decode(text + "=" * (-len(text) % 8))
        except (UnavailableError, binascii.Error, ValueError):
            continue
        if secret:
            yield TOTP(secret, 6, SHA1(), STEP, enforce_key_length=False)  # noqa: S303 - what the apps compute
