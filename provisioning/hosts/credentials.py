"""Rotation of hosts' credentials over the agents' connections: the old one is valid until the new one is in use.

1. An operator requests a new credential (``credential_wanted_at``).
2. The agent generates a secret, stores it in addition to the old credential and sends it.
3. The portal accepts both.
4. The agent uses the new credential and reports this, or sends a hello with it; the portal then rejects the old one.
"""

import logging
import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.events import services as events
from provisioning.hosts import commands
from provisioning.hosts.enrolment import check_credential, digest_of
from provisioning.hosts.models import Host

log = logging.getLogger(__name__)


def renew(names: Iterable[str] = ()) -> list[str]:
    """Request new credentials from these hosts, or from all enrolled hosts; disconnected hosts get the request later.

    Returns their names. Raises NotFoundError for an unknown name, and then requests no credentials.
    """
    host_names = sorted(set(names))
    hosts = list(
        Host.objects.exclude(credential_digest="")
        .filter(**{"name__in": host_names} if host_names else {})
        .order_by("name")
    )
    missing = set(host_names) - {host.name for host in hosts}
    if missing:
        raise NotFoundError(f"No enrolled host is called {', '.join(sorted(missing))}.")
    with transaction.atomic():
        Host.objects.filter(id__in=[host.id for host in hosts]).update(credential_wanted_at=timezone.now())
        for host in hosts:
            events.record(commands.topic(host.id), "credential", {})
    return [host.name for host in hosts]


def requested_at(host_id: uuid.UUID) -> datetime | None:
    """Return when a new credential was requested from the host; None if no request is open."""
    return Host.objects.filter(id=host_id).values_list("credential_wanted_at", flat=True).first()


def store_new(host_id: uuid.UUID, credential: str) -> None:
    """Store the new credential in addition to the old one. Raises InvalidInputError if it is too short or was not
    requested.
    """
    check_credential(credential)
    rows = Host.objects.filter(id=host_id).exclude(credential_wanted_at=None)
    if not rows.update(next_credential_digest=digest_of(credential)):
        raise InvalidInputError("No new credential was requested.", field="credential")


def activate(host_id: uuid.UUID) -> bool:
    """Record that the host uses its new credential, and invalidate the old one.  False if there is no new one."""
    known = Host.objects.filter(id=host_id).exclude(next_credential_digest="")
    changed = known.update(
        credential_digest=F("next_credential_digest"), next_credential_digest="", credential_wanted_at=None
    )
    if changed:
        log.info("Host %s has a new credential.", host_id)
    return bool(changed)
