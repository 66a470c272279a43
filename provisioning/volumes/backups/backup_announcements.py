"""Announces changes of backups: events for the pages of their project, and Cinder's notifications."""

from typing import Any

from provisioning.events import services as events
from provisioning.events.services import Entry
from provisioning.notifications import services as notifications
from provisioning.notifications.messages import Notification, is_selected, publisher, versioned, when
from provisioning.volumes.models import Backup

TYPES = tuple(f"backup.{verb}.{moment}" for verb in ("create", "delete", "restore") for moment in ("start", "end"))
"""Names of Cinder's notifications."""


def announce_backup(backup: Backup, *notices: str, gone: bool = False) -> None:
    """Record an event for a changed backup, and send notifications.

    ``notices``: names of notifications without ``backup.``, such as ``create.start``; ``gone``: the backup was deleted.
    """
    payload = {
        "id": str(backup.id),
        "record": "backup",
        "volume_id": str(backup.volume_id),
        "name": backup.name,
        "project_id": backup.project_id.hex,
        "status": str(backup.status),
        "progress_bytes": backup.progress_bytes,
        "progress_total": backup.progress_total,
        "deleted": gone,
    }
    entries: list[Entry] = [(f"project:{backup.project_id}", "volume", payload)]
    selected = [name for name in (f"backup.{each}" for each in notices) if is_selected(name)]
    if selected:
        source, data = publisher("cinder-backup"), _data(backup)
        entries += notifications.entries([Notification(name, source, data, str(backup.pk)) for name in selected])
    events.record_all(entries)


def _data(backup: Backup) -> dict[str, Any]:
    """Return the payload of a notification, with Cinder's field names."""
    data = {
        "tenant_id": backup.project_id.hex,
        "user_id": backup.user_id.hex if backup.user_id else None,
        "availability_zone": backup.availability_zone,
        "backup_id": str(backup.id),
        "display_name": backup.name,
        "created_at": when(backup.created_at),
        "status": str(backup.status),
        "volume_id": str(backup.volume_id),
        "size": backup.size_gb,
        "service": backup.service,
        "fail_reason": backup.fail_reason or None,
        "parent_id": str(backup.parent_id) if backup.parent_id else None,
        "snapshot_id": str(backup.snapshot_id) if backup.snapshot_id else None,
    }
    return versioned("BackupPayload", "1.0", data)
