"""Context of the lists of volumes, snapshots and backups, and of the page of a volume."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from portal.dashboard.paging import page_of
from portal.dashboard.records import instance_names, may
from portal.dashboard.volumes import wording
from portal.dashboard.volumes.wording import failure, type_name
from portal.dashboard.wording import progress
from provisioning.common.context import RequestContext
from provisioning.compute.block_devices import roots_among
from provisioning.identity import policy
from provisioning.volumes import selectors
from provisioning.volumes.holds import HELD_BY
from provisioning.volumes.models import Attachment, Backup, Snapshot, Volume
from provisioning.volumes.selectors import copies, offers
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus

AT_REST = frozenset({VolumeStatus.AVAILABLE, VolumeStatus.IN_USE})
BROKEN = frozenset(
    {
        VolumeStatus.ERROR,
        VolumeStatus.ERROR_DELETING,
        VolumeStatus.ERROR_EXTENDING,
        VolumeStatus.ERROR_RESTORING,
        VolumeStatus.ERROR_BACKING_UP,
    }
)
NOBODY = uuid.UUID(int=0)
FAILURES = 5
"""Number of the newest failures shown on the page of a volume."""


def list_parts(context: RequestContext, number: str = "") -> dict[str, Any]:
    """Return the context of a page of the volume list, newest first."""
    rows = selectors.visible_volumes(context).prefetch_related("attachments").order_by("-created_at", "-id")
    pages = page_of(rows, number)
    names = _names(context, pages)
    return {
        "rows": [_row(context, volume, names) for volume in pages],
        "pages": pages,
        "can_create": policy.allows(context, "volume:create"),
    }


def page_parts(context: RequestContext, identity: str | uuid.UUID, _number: str = "") -> dict[str, Any]:
    """Return the context of the page of a volume. Raises VolumeNotFoundError."""
    volume = selectors.volume_for(context, identity)
    names = _names(context, [volume])
    snapshots = selectors.visible_snapshots(context).filter(volume=volume).order_by("-created_at", "-id")
    backups = copies.visible_backups(context).filter(volume_id=volume.id).order_by("-created_at", "-id")
    sees_backups = policy.allows(context, "backup:get_all")
    told = offers.messages_for(context).filter(resource_id=volume.id)
    row = _row(context, volume, names)
    roots = roots_among([use["attachment"].id for use in row["users"]])
    return {
        "row": {**row, "users": [_of_root(use) if use["attachment"].id in roots else use for use in row["users"]]},
        "limits": selectors.iotune_of(volume),
        "sees_snapshots": policy.allows(context, "volume:get_all_snapshots"),
        "snapshots": [_snapshot(context, each) for each in snapshots],
        "sees_backups": sees_backups,
        "backups": [backup_row(context, each) for each in backups] if sees_backups else [],
        "failures": [failure(each) for each in told.order_by("-created_at", "-id")[:FAILURES]],
        "place": volume.pool if policy.allows(context, "volume_extension:volume_host_attribute") else None,
    }


def snapshot_parts(context: RequestContext, number: str = "") -> dict[str, Any]:
    """Return the context of a page of the snapshot list, newest first."""
    pages = page_of(selectors.visible_snapshots(context).order_by("-created_at", "-id"), number)
    return {"rows": [_snapshot(context, each) for each in pages], "pages": pages, "can_create": False}


def backup_parts(context: RequestContext, number: str = "") -> dict[str, Any]:
    """Return the context of a page of the backup list, newest first."""
    pages = page_of(copies.visible_backups(context).order_by("-created_at", "-id"), number)
    ids = {backup.volume_id for backup in pages}
    names = {row.id: str(row) for row in selectors.visible_volumes(context).filter(id__in=ids)} if ids else {}
    rows = [{**backup_row(context, each), "volume_name": names.get(each.volume_id, "")} for each in pages]
    return {"rows": rows, "pages": pages, "can_create": False}


def backup_row(context: RequestContext, backup: Backup) -> dict[str, Any]:
    """Return the row of a backup."""
    available = backup.status == "available"
    return {
        "backup": backup,
        "status": wording.backup_status(backup.status),
        "progress": None if available else progress(backup.progress_bytes, backup.progress_total),
        "volume_name": "",
        "can_restore": available and may(context, "backup:restore", backup),
        "can_delete": backup.status in {"available", "error"} and may(context, "backup:delete", backup),
    }


def _row(context: RequestContext, volume: Volume, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    attachments = list(volume.attachments.all())
    free, used = volume.status == VolumeStatus.AVAILABLE, volume.status == VolumeStatus.IN_USE
    changes = may(context, "volume:update", volume)
    busy = volume.status not in {*AT_REST, *BROKEN}
    return {
        "volume": volume,
        "status": wording.volume_status(volume.status),
        "progress": progress(volume.progress_bytes, volume.progress_total) if busy else None,
        "type": type_name(volume.volume_type),
        "users": [_use(context, each, names) for each in attachments],
        "can_edit": changes,
        "can_extend": (free and may(context, "volume:extend", volume))
        or (used and may(context, "volume:extend_attached_volume", volume)),
        "can_attach": (free or (used and volume.multiattach))
        and policy.allows(context, "os_compute_api:os-volumes-attachments:create"),
        "can_snapshot": (free or used) and may(context, "volume:create_snapshot", volume),
        "can_back_up": (free or used) and may(context, "backup:create", volume),
        "can_retype": (free or used) and may(context, "volume:retype", volume),
        "can_upload": free and may(context, "volume_extension:volume_actions:upload_image", volume),
        "can_hand_over": free and may(context, "volume:create_transfer", volume),
        "can_withdraw": volume.status == VolumeStatus.AWAITING_TRANSFER
        and may(context, "volume:delete_transfer", volume),
        "can_launch": free and volume.bootable and policy.allows(context, "os_compute_api:servers:create"),
        "can_delete": (free or volume.status in BROKEN) and not attachments and may(context, "volume:delete", volume),
    }


def _use(context: RequestContext, attachment: Attachment, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    known = names.get(attachment.instance_id or NOBODY, "")
    return {
        "attachment": attachment,
        "name": known or _unnamed(attachment),
        "known": bool(known),
        "device": attachment.mountpoint,
        "read_only": attachment.mode == "ro",
        "attached": attachment.status == AttachStatus.ATTACHED,
        "can_detach": bool(known)
        and attachment.status in {AttachStatus.ATTACHED, AttachStatus.ERROR_DETACHING}
        and policy.allows(context, "os_compute_api:os-volumes-attachments:delete"),
    }


def _unnamed(attachment: Attachment) -> str:
    """Return the label of an attachment whose instance or client has no name here."""
    if HELD_BY in attachment.connector and attachment.instance_id is None:
        return "an instance without a record"
    return "an instance" if attachment.instance_id else "an external client"


def _of_root(use: dict[str, Any]) -> dict[str, Any]:
    return {**use, "is_root": True, "can_detach": False}


def _snapshot(context: RequestContext, snapshot: Snapshot) -> dict[str, Any]:
    available = snapshot.status == SnapshotStatus.AVAILABLE
    return {
        "snapshot": snapshot,
        "volume": snapshot.volume,
        "status": wording.snapshot_status(snapshot.status),
        "can_create_volume": available and policy.allows(context, "volume:create"),
        "can_revert": available
        and snapshot.volume.status == VolumeStatus.AVAILABLE
        and may(context, "volume:revert_to_snapshot", snapshot.volume),
        "can_edit": may(context, "volume:update_snapshot", snapshot),
        "can_delete": snapshot.status in {SnapshotStatus.AVAILABLE, SnapshotStatus.ERROR, SnapshotStatus.ERROR_DELETING}
        and may(context, "volume:delete_snapshot", snapshot),
    }


def _names(context: RequestContext, volumes: Iterable[Volume]) -> dict[uuid.UUID, str]:
    uses: Sequence[uuid.UUID | None] = [
        attachment.instance_id for volume in volumes for attachment in volume.attachments.all()
    ]
    return instance_names(context, uses)
