"""The records of what became of each resize and move, with Nova's words for their statuses."""

import uuid
from typing import Any

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.models import Flavor, Instance, Migration

UNDER_WAY = ("pre-migrating", "migrating", "post-migrating")
WAITING = ("finished", "confirming", "reverting")
"""The guest has its new size, which may still be confirmed or reverted."""


def open_migration(context: RequestContext, instance: Instance, kind: str, flavor: dict[str, Any]) -> Migration:
    """Write down that a move of an instance begins: of ``kind`` ``resize`` or another of Nova's, to another size on the
    host where it is.
    """
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
    """Give the instance's open migration another status; False when there is none."""
    rows = Migration.objects.filter(instance_id=instance_id, status__in=[*UNDER_WAY, *WAITING])
    return bool(rows.update(status=status, updated_at=timezone.now()))


def close_migration(instance_id: uuid.UUID) -> None:
    """End what is open because the instance goes: what was done counts as confirmed, what was not as failed."""
    rows, now = Migration.objects.filter(instance_id=instance_id), timezone.now()
    rows.filter(status__in=UNDER_WAY).update(status="error", updated_at=now)
    rows.filter(status__in=WAITING).update(status="confirmed", updated_at=now)


def _numbered(flavor: dict[str, Any]) -> dict[str, Any]:
    """Return the copy of a flavor with the number that the API has for it, None when the flavor is gone."""
    number = Flavor.objects.filter(flavorid=flavor["flavorid"]).values_list("id", flat=True).first()
    return {**flavor, "id": number}
