"""Deletes expired revocations, sessions, application credentials and trusts."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from provisioning.identity.lockout.lockout import forget_addresses
from provisioning.identity.models import ApplicationCredential, RevokedToken, SignIn, Trust
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.sign_ins import WRITTEN_EVERY
from provisioning.identity.tokens.tokens import KEPT_AFTER_END


def flush(*, credentials_after: timedelta = timedelta()) -> dict[str, int]:
    """Delete expired records; return the number of each kind, by its plural name. Safe to repeat.

    Revocations and sessions are kept as long as one of their tokens can be validated with ``allow_expired``.
    Application credentials and trusts, and the EC2 credentials created with them, are deleted ``credentials_after``
    their expiry. A trust without remaining uses is kept as long as its last token can be validated.
    """
    now = timezone.now()
    ended = now - KEPT_AFTER_END
    return {
        "revocations": RevokedToken.objects.filter(expires_at__lt=ended).delete()[0],
        "sessions": SignIn.objects.filter(expires_at__lt=ended - 2 * WRITTEN_EVERY).delete()[0],
        "known addresses": forget_addresses(),
        "application credentials": _application_credentials(now - credentials_after),
        "trusts": _trusts(now - credentials_after),
    }


@transaction.atomic
def _application_credentials(before: datetime) -> int:
    expired = list(ApplicationCredential.objects.filter(expires_at__lte=before))
    for record in expired:
        delete_application_credential(record)
    return len(expired)


@transaction.atomic
def _trusts(before: datetime) -> int:
    ended = Q(expires_at__lte=before)
    used_up = Q(used_up_at__lte=before - KEPT_AFTER_END - timedelta(seconds=settings.TOKEN_LIFETIME))
    ids = list(Trust.objects.filter(ended | used_up).values_list("id", flat=True))
    Trust.objects.filter(id__in=ids).delete()
    return len(ids)
