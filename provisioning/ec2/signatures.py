"""Signed requests that change something count once."""

import hashlib
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.ec2.models import SpentSignature

KEPT = timedelta(days=7, minutes=15)
"""As long as a signature can be good at all."""
AGAIN = timedelta(seconds=2)
"""A client that asks for the same thing twice within a second signs both alike: so long after the first use it may."""


def spend(access: str, signature: str) -> None:
    """Write down that a request is used; NotAuthenticatedError when it was before, longer than ``AGAIN`` ago."""
    digest = hashlib.sha256(f"{access}\0{signature}".encode()).hexdigest()
    now = timezone.now()
    try:
        with transaction.atomic():
            SpentSignature.objects.create(digest=digest, ends_at=now + KEPT)
    except IntegrityError as error:
        if not SpentSignature.objects.filter(digest=digest, ends_at__gte=now + KEPT - AGAIN).exists():
            raise NotAuthenticatedError("This signed request was used before. Sign a new one.") from error
