"""Records of resizes and migrations, with Nova's statuses."""

import uuid
from typing import Any

from django.db.models import Case, DateTimeField, UUIDField, Value, When
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.prepared import PreparedUpdate
from provisioning.compute.models import Flavor, Instance, Migration

UNDER_WAY = ("pre-migrating", "migrating", "post-migrating")
WAITING = ("finished", "confirming", "reverting")
"""Statuses of a resize that the host has carried out and that can still be confirmed or reverted."""


def open_migration(context: RequestContext, instance: Instance, kind: str, flavor: dict[str, Any]) -> Migration:
    """Create the record of a resize on the same host; ``kind`` is Nova's migration type."""
    now = timezone.now()
    host = instance.host
    return Migration.objects.create(
        instance=instance,
        migration_type=kind,
        status="pre-migrating",
        source_compute=host.name if host else "",
        dest_compute=host.name if host else "",
        dest_host=host.host_ip if host else "",
        old_flavor=_numbered(instance.flavor),
        new_flavor=_numbered(flavor),
        user_id=context.user_id,
        project_id=context.project_id,
        created_at=now,
        updated_at=now,
    )


def set_migration(instance_id: uuid.UUID, status: str) -> bool:
    """Set the status of the instance's open migration record; False when there is none."""
    rows = Migration.objects.filter(instance_id=instance_id, status__in=[*UNDER_WAY, *WAITING])
    return bool(rows.update(status=status, updated_at=timezone.now()))


def close_migration(instance_id: uuid.UUID) -> None:
    """Close the open records of an instance that is deleted or offloaded: a finished resize counts as confirmed, a
    running one as failed.
    """
    _CLOSE(instance_id=instance_id, now=timezone.now())


_CLOSE = PreparedUpdate(
    lambda instance_id, now: (
        Migration.objects.filter(instance_id=instance_id, status__in=[*UNDER_WAY, *WAITING]),
        {
            "status": Case(When(status__in=UNDER_WAY, then=Value("error")), default=Value("confirmed")),
            "updated_at": now,
        },
    ),
    instance_id=UUIDField(),
    now=DateTimeField(),
)


def _numbered(flavor: dict[str, Any]) -> dict[str, Any]:
    """Add the API's numeric id to a copy of a flavor; None when the flavor was deleted."""
    number = Flavor.objects.filter(flavorid=flavor["flavorid"]).values_list("id", flat=True).first()
    return {**flavor, "id": number}
