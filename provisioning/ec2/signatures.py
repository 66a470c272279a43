"""Signed requests that change something count once."""

import hashlib
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError, TooManyRequestsError
from provisioning.ec2.models import SpentSignature

KEPT = timedelta(days=7, minutes=15)
"""As long as a signature can be good at all."""
ALIKE = timedelta(seconds=1)
"""Signatures name the second: what a client asks for twice in one is signed alike."""


class SignedAlikeError(TooManyRequestsError):
    """The same was asked for within a second: not done again, and to be sent again with a new signature."""

    def __init__(self, wait: timedelta) -> None:
        """``wait``: until the client signs in another way."""
        super().__init__("The same request was made within this second. Send it again.", retry_after=1)
        self.wait = wait


def spend(access: str, signature: str) -> None:
    """Write down that a request is used.

    When it was before, raises SignedAlikeError within a second after that, and NotAuthenticatedError from then on.
    """
    digest = hashlib.sha256(f"{access}\0{signature}".encode()).hexdigest()
    now = timezone.now()
    try:
        with transaction.atomic():
            SpentSignature.objects.create(digest=digest, ends_at=now + KEPT)
    except IntegrityError as error:
        known = SpentSignature.objects.filter(digest=digest).first()
        left = known.ends_at - KEPT + ALIKE - now if known is not None else timedelta(0)
        if left > timedelta(0):
            raise SignedAlikeError(min(left, ALIKE)) from error
        raise NotAuthenticatedError("This signed request was used before. Sign a new one.") from error
