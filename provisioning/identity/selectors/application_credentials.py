"""What an application credential may do."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from django.db.models import Q
from django.utils import timezone

from provisioning.identity import effective
from provisioning.identity.models import ApplicationCredential


class Limits(NamedTuple):
    """What a token of an application credential is held to; the user's own roles hold as well."""

    roles: frozenset[str]
    unrestricted: bool
    access_rules: tuple[tuple[str, str, str], ...] | None
    """(service, method, path pattern); None: every request."""


def limits_of(credential_id: uuid.UUID) -> Limits | None:
    """Return the limits, or None when the credential is gone or has expired."""
    current = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    found = ApplicationCredential.objects.filter(current, id=credential_id).first()
    if found is None:
        return None
    rules = tuple(found.access_rules.values_list("service", "method", "path"))
    roles = effective.implied_names(list(found.roles.values_list("id", flat=True)))
    return Limits(roles, found.unrestricted, rules or None)
