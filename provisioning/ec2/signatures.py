"""Signed requests that change something count once."""

import hashlib
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError, TooManyRequestsError
from provisioning.ec2.models import SpentSignature
from provisioning.identity.ec2_signatures import SignedRequest

ALIKE = timedelta(seconds=1)
"""Signatures name the second: what a client asks for twice in one is signed alike."""


class SignedAlikeError(TooManyRequestsError):
    """The same was asked for within a second: not done again, and to be sent again with a new signature."""

    def __init__(self, wait: timedelta) -> None:
        """``wait``: until the client signs in another way."""
        super().__init__("The same request was made within this second. Send it again.", retry_after=1)
        self.wait = wait


def spend(signed: SignedRequest) -> None:
    """Record that a signed request was used, for as long as its signature is valid.

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
