"""Records of resizes and migrations, with Nova's statuses."""

import uuid
from typing import Any

from django.db.models import Case, DateTimeField, UUIDField, Value, When
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import PreparedUpdate
from provisioning.compute.models import Flavor, Instance, Migration
from provisioning.compute.records import host_commands
from provisioning.events.selectors import OPERATORS
from provisioning.events.services import record
from provisioning.hosts.models import Host

UNDER_WAY = ("accepted", "queued", "preparing", "pre-migrating", "migrating", "running", "post-migrating")
EVACUATION = "evacuation"
MIGRATION, RESIZE, LIVE_MIGRATION = "migration", "resize", "live-migration"
CONFIRMABLE, REVERTING = ("finished", "confirming"), "reverting"
WAITING = (*CONFIRMABLE, REVERTING)
"""Statuses of a resize that the host has carried out and that can still be confirmed or reverted."""

OPEN = (*UNDER_WAY, *WAITING)
"""Statuses of migrations that have not ended."""
KIND = "migration"
"""Kind of the events about the migrations of an instance."""


def announce(instance_id: uuid.UUID) -> None:
    """Notify operators' pages that the migrations of an instance have changed."""
    record(OPERATORS, KIND, {"instance": str(instance_id)})


def open_migration(
    context: RequestContext,
    instance: Instance,
    kind: str,
    flavor: dict[str, Any],
    *,
    target: Host | None = None,
    status: str = "pre-migrating",
) -> Migration:
    """Create the record of a resize or a move of the instance, whose host is the source; ``kind`` is Nova's migration
    type. ``target`` None: the instance stays on its host.
    """
    now = timezone.now()
    source = instance.host
    host = target or source
    announce(instance.id)
    return Migration.objects.create(
        instance=instance,
        migration_type=kind,
        status=status,
        source_compute=source.name if source else "",
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
    rows = Migration.objects.filter(instance_id=instance_id, status__in=OPEN)
    return _changed(instance_id, rows.update(status=status, updated_at=timezone.now()))


def close_migration(instance_id: uuid.UUID) -> bool:
    """Close the open records of an instance that is deleted or offloaded: a finished resize counts as confirmed; a
    resize that is running or being reverted counts as failed. Returns whether there were any.
    """
    return _changed(instance_id, _CLOSE(instance_id=instance_id, now=timezone.now()))


def _changed(instance_id: uuid.UUID, many: int) -> bool:
    if many:
        announce(instance_id)
    return bool(many)


_CLOSE = PreparedUpdate(
    lambda instance_id, now: (
        Migration.objects.filter(instance_id=instance_id, status__in=OPEN),
        {
            "status": Case(When(status__in=CONFIRMABLE, then=Value("confirmed")), default=Value("error")),
            "updated_at": now,
        },
    ),
    instance_id=UUIDField(),
    now=DateTimeField(),
)


# ----- evacuations ----------------------------------------------------------------------------------------------------


def open_evacuation(context: RequestContext, instance: Instance, source: Host) -> None:
    """Create the record of an evacuation from a host that is down; its destination is set when a host is claimed."""
    now, flavor = timezone.now(), _numbered(instance.flavor)
    announce(instance.id)
    Migration.objects.create(
        instance=instance,
        migration_type=EVACUATION,
        status="accepted",
        source_compute=source.name,
        old_flavor=flavor,
        new_flavor=flavor,
        user_id=context.user_id,
        project_id=context.project_id,
        created_at=now,
        updated_at=now,
    )


def evacuated_from(instance_id: uuid.UUID) -> Host | None:
    """Return the host that the instance's running evacuation leaves; None without an evacuation."""
    rows = Migration.objects.filter(instance_id=instance_id, migration_type=EVACUATION, status__in=UNDER_WAY)
    name = rows.values_list("source_compute", flat=True).order_by("-id").first()
    return Host.objects.filter(name=name).first() if name else None


def set_destination(instance_id: uuid.UUID, host: Host) -> None:
    """Record the host that was claimed for a running evacuation."""
    rows = Migration.objects.filter(instance_id=instance_id, migration_type=EVACUATION, status__in=UNDER_WAY)
    values = {"status": "pre-migrating", "dest_compute": host.name, "dest_host": host.host_ip}
    _changed(instance_id, rows.update(**values, updated_at=timezone.now()))


def evacuated(instance_id: uuid.UUID) -> None:
    """Record that the guest is built. If the failed host is up again, it may have removed the old guest already."""
    rows = Migration.objects.filter(instance_id=instance_id, migration_type=EVACUATION, status__in=UNDER_WAY)
    for row in rows:
        source = Host.objects.filter(name=row.source_compute).values("id")
        removed = host_commands.to_destroy().filter(subject_id=instance_id, host_id__in=source)
        clean = removed.filter(created_at__gte=row.created_at, acknowledged_at__isnull=False, finished_at__isnull=False)
        set_migration(instance_id, "completed" if clean.exists() else "done")


def source_is_clean(instance_id: uuid.UUID, host_id: uuid.UUID) -> None:
    """Record that a host has removed the guests that were evacuated from it."""
    names = Host.objects.filter(id=host_id).values("name")
    rows = Migration.objects.filter(instance_id=instance_id, migration_type=EVACUATION, status="done")
    here = rows.filter(source_compute__in=names)
    _changed(instance_id, here.update(status="completed", updated_at=timezone.now()))


def _numbered(flavor: dict[str, Any]) -> dict[str, Any]:
    """Add the API's numeric id to a copy of a flavor; None when the flavor was deleted."""
    number = Flavor.objects.filter(flavorid=flavor["flavorid"]).values_list("id", flat=True).first()
    return {**flavor, "id": number}
