"""Sessions of a user."""

import uuid
from collections.abc import Collection
from datetime import datetime

from django.db.models import F, Max, Q
from django.utils import timezone

from provisioning.identity.models import SignIn, User


def last_uses(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
    """Return application credential → time of its last use by a program with a valid session; one query."""
    found = SignIn.objects.filter(application_credential__in=ids, expires_at__gt=timezone.now())
    ended = Q(user__tokens_valid_after__isnull=False, last_used_at__lt=F("user__tokens_valid_after"))
    return dict(found.exclude(ended).values_list("application_credential").annotate(Max("last_used_at")))


def sign_ins_of(user: User) -> list[SignIn]:
    """Return the valid sessions, the last used first, with project and application credential."""
    found = SignIn.objects.filter(user=user, expires_at__gt=timezone.now())
    if user.tokens_valid_after is not None:
        found = found.filter(last_used_at__gte=user.tokens_valid_after)
    return list(found.select_related("project", "application_credential").order_by("-last_used_at", "id"))
