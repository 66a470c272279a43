"""Replay protection: a signed request that changes something is accepted only once."""

import hashlib
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError, TooManyRequestsError
from provisioning.ec2.models import SpentSignature
from provisioning.identity.credentials.ec2_signatures import SignedRequest

ALIKE = timedelta(seconds=1)
"""The resolution of signatures: equal requests within one second have the same signature."""


class SignedAlikeError(TooManyRequestsError):
    """The same request was sent within one second. It is not carried out; the client must sign it again."""

    def __init__(self, wait: timedelta) -> None:
        """``wait``: the time until the same request gets a different signature."""
        super().__init__("The same request was received within this second. Send it again.", retry_after=1)
        self.wait = wait


def spend(signed: SignedRequest) -> None:
    """Record a used signature until it expires.

    A repeated request raises SignedAlikeError within a second of the first one, and NotAuthenticatedError after that.
    """
    digest = hashlib.sha256(f"{signed.access}\0{signed.signature}".encode()).hexdigest()
    now = timezone.now()
    try:
        with transaction.atomic():
            SpentSignature.objects.create(digest=digest, spent_at=now, ends_at=signed.valid_until)
    except IntegrityError as error:
        known = SpentSignature.objects.filter(digest=digest).first()
        spent_at = known.spent_at if known is not None else None
        left = spent_at + ALIKE - now if spent_at is not None else timedelta(0)
        if left > timedelta(0):
            raise SignedAlikeError(min(left, ALIKE)) from error
        raise NotAuthenticatedError("This signed request was used before. Sign a new one.") from error
