"""Announces changes of volumes and snapshots: events for the pages of their project, and Cinder's notifications."""

from collections.abc import Sequence
from typing import Any

from provisioning.events import services as events
from provisioning.events.services import Entry
from provisioning.notifications import services as notifications
from provisioning.notifications.messages import Notification, is_selected, publisher, versioned, when
from provisioning.volumes.models import Snapshot, Volume

VERBS = ("create", "delete", "attach", "detach", "resize", "retype", "migrate", "revert", "update")
TYPES = (
    *(f"volume.{verb}.{moment}" for verb in VERBS for moment in ("start", "end")),
    *(f"snapshot.{verb}.{moment}" for verb in ("create", "delete", "update") for moment in ("start", "end")),
)
"""Names of Cinder's notifications."""


def announce(volume: Volume, *notices: str, gone: bool = False) -> None:
    """Record an event for a changed volume, and send notifications.

    ``notices``: names of notifications without ``volume.``, such as ``create.start``; ``gone``: the volume was deleted.
    """
    payload = {
        "id": str(volume.id),
        "record": "volume",
        "name": volume.name,
        "project_id": volume.project_id.hex,
        "status": str(volume.status),
        "version": volume.version,
        "progress_bytes": volume.progress_bytes,
        "progress_total": volume.progress_total,
        "deleted": gone,
    }
    _write(f"project:{volume.project_id}", payload, [f"volume.{name}" for name in notices], volume)


def announce_snapshot(snapshot: Snapshot, *notices: str, gone: bool = False) -> None:
    """Record an event for a changed snapshot, and send notifications.

    ``notices``: names of notifications without ``snapshot.``; ``gone``: the snapshot was deleted.
    """
    payload = {
        "id": str(snapshot.id),
        "record": "snapshot",
        "volume_id": str(snapshot.volume_id),
        "name": snapshot.name,
        "project_id": snapshot.project_id.hex,
        "status": str(snapshot.status),
        "deleted": gone,
    }
    _write(f"project:{snapshot.project_id}", payload, [f"snapshot.{name}" for name in notices], snapshot)


def _write(topic: str, payload: dict[str, Any], notices: Sequence[str], row: Volume | Snapshot) -> None:
    selected = [name for name in notices if is_selected(name)]
    entries: list[Entry] = [(topic, "volume", payload)]
    if selected:
        source, data = publisher("cinder-volume"), _data(row)
        entries += notifications.entries([Notification(name, source, data, str(row.pk)) for name in selected])
    events.record_all(entries)


def _data(row: Volume | Snapshot) -> dict[str, Any]:
    """Return the payload of a notification, with Cinder's field names."""
    data: dict[str, Any] = {
        "tenant_id": row.project_id.hex,
        "user_id": row.user_id.hex if row.user_id else None,
        "display_name": row.name,
        "status": str(row.status),
        "created_at": when(row.created_at),
    }
    if isinstance(row, Snapshot):
        data |= {"snapshot_id": str(row.id), "volume_id": str(row.volume_id), "volume_size": row.size_gb}
        return versioned("SnapshotPayload", "1.0", data)
    data |= {
        "volume_id": str(row.id),
        "size": row.size_gb,
        "volume_type": str(row.volume_type_id) if row.volume_type_id else None,
        "snapshot_id": str(row.source_snapshot_id) if row.source_snapshot_id else None,
        "availability_zone": row.availability_zone,
        "launched_at": when(row.launched_at),
        "replication_status": None,
    }
    return versioned("VolumePayload", "1.0", data)
