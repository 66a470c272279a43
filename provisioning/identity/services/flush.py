"""Removing what has ended and is of no more use to anybody."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from provisioning.identity.lockout import forget_addresses
from provisioning.identity.models import ApplicationCredential, RevokedToken, SignIn
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.sign_ins import WRITTEN_EVERY
from provisioning.identity.tokens import KEPT_AFTER_END


def flush(*, credentials_after: timedelta = timedelta()) -> dict[str, int]:
    """Remove what has expired and return how many of each kind, by its name in the plural; safe to repeat.

    Revocations and sessions stay as long as a token of theirs can still be looked into; application credentials go,
    with the EC2 credentials made with them, when they expired so long ago as ``credentials_after`` says.
    """
    now = timezone.now()
    ended = now - KEPT_AFTER_END
    return {
        "revocations": RevokedToken.objects.filter(expires_at__lt=ended).delete()[0],
        "sessions": SignIn.objects.filter(expires_at__lt=ended - 2 * WRITTEN_EVERY).delete()[0],
        "known addresses": forget_addresses(),
        "application credentials": _application_credentials(now - credentials_after),
    }


@transaction.atomic
def _application_credentials(before: datetime) -> int:
    expired = list(ApplicationCredential.objects.filter(expires_at__lte=before))
    for record in expired:
        delete_application_credential(record)
    return len(expired)
