"""Creates, updates and deletes backups (see also ``backup_restores`` and ``backup_records``)."""

import logging
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import VOLUME_COPY, BackupVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.common.tasks import RecordTask, Timeout, UserTask
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.queue.tasks import JobTask
from provisioning.quotas.services import ledger
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_announcements import announce_backup
from provisioning.volumes.backups.backup_store import current, store_named
from provisioning.volumes.errors import (
    BackupNotFoundError,
    InvalidBackupError,
    InvalidSnapshotError,
    InvalidVolumeError,
)
from provisioning.volumes.host_link import host_commands
from provisioning.volumes.models import Backup, Snapshot, Volume
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.selectors.access import snapshot_for
from provisioning.volumes.selectors.copies import LONGEST_CHAIN, backup_for, chain_of, newest_of
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_metadata, check_texts, check_zone
from provisioning.volumes.services.user_tasks import Deletion, OfVolume
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, SETTING, deadline_of
from provisioning.volumes.states import BackupStatus, SnapshotStatus, VolumeStatus
from provisioning.volumes.tasks import SILENT, CopyTask

log = logging.getLogger(__name__)

TOPIC, DISCARD = "backups", "volumes.discard_backup_data"
TIMEOUT = Timeout(SETTING, VolumeStatus.BACKING_UP, 60 * MINUTE)
ENDED = frozenset({BackupStatus.AVAILABLE, BackupStatus.ERROR, BackupStatus.ERROR_DELETING})


def _snapshot(context: RequestContext, request: BackupRequest, volume: Volume) -> Snapshot | None:
    """Return the snapshot to back up, locked; None: the request names none."""
    if not request.snapshot_id:
        return None
    source = snapshot_for(context, request.snapshot_id)
    if source.volume_id != volume.id:
        raise InvalidSnapshotError("The snapshot does not belong to this volume.", field="snapshot_id")
    snapshot = Snapshot.objects.select_for_update().get(id=source.id)
    if snapshot.status != SnapshotStatus.AVAILABLE:
        raise InvalidSnapshotError(f"The snapshot must be available; it is {snapshot.status}.", field="snapshot_id")
    return snapshot


def _parent(volume: Volume, project_id: uuid.UUID, service: str, data_at: datetime) -> Backup:
    """Return the parent of a new incremental backup, locked.  Raises InvalidBackupError if there is no suitable one."""
    parent = newest_of(volume.id, project_id, service)
    if parent is not None:  # another request may have begun to delete it
        parent = Backup.objects.select_for_update().filter(id=parent.id, status=BackupStatus.AVAILABLE).first()
    if parent is None:
        raise InvalidBackupError("No backups available to do an incremental backup.", field="incremental")
    if parent.data_at is None or parent.data_at > data_at:
        raise InvalidBackupError("The newest backup is younger than the snapshot.", field="incremental")
    if parent.encryption_key != volume.encryption_key:
        raise InvalidBackupError("The volume's key differs from that of its newest backup.", field="incremental")
    if len(chain_of(parent)) >= LONGEST_CHAIN:
        raise InvalidBackupError(f"No more than {LONGEST_CHAIN} backups may build on each other.", field="incremental")
    return parent


def _details(volume: Volume) -> dict[str, object]:
    """Return the attributes of a volume that are stored in its backup, for a volume that is restored from it."""
    return {
        "name": volume.name,
        "description": volume.description,
        "bootable": volume.bootable,
        "image_metadata": volume.image_metadata,
        "metadata": volume.metadata,
        "volume_type": str(volume.volume_type_id) if volume.volume_type_id else "",
    }


@transaction.atomic
def update_backup(context: RequestContext, backup_id: str, changes: Mapping[str, Any]) -> Backup:
    """Update ``name``, ``description`` and ``metadata``."""
    backup = backup_for(context, backup_id)
    check_texts(changes.get("name"), changes.get("description"))
    check_metadata(changes.get("metadata", {}))
    fields = {name: changes[name] for name in ("name", "description", "metadata") if name in changes}
    for name, value in fields.items():
        setattr(backup, name, value)
    backup.save(update_fields=[*fields, "updated_at"])
    announce_backup(backup)
    return backup


def locked(backup_id: uuid.UUID) -> Backup:
    """Lock a backup until the caller's transaction ends.  Raises BackupNotFoundError."""
    backup = Backup.objects.select_for_update().filter(id=backup_id).first()
    if backup is None:
        raise BackupNotFoundError(backup_id)
    return backup


def move(backup: Backup, status: BackupStatus, *notices: str, **changes: object) -> None:
    """Set the status and other columns of a locked backup, and record its event."""
    for name, value in {"status": status, **changes}.items():
        setattr(backup, name, value)
    backup.save(update_fields=["status", *changes, "updated_at"])
    announce_backup(backup, *notices)


def stop(backup: Backup) -> None:
    """Withdraw the host's backup command, and restore the previous status of the volume or snapshot."""
    commands.withdraw(commands.unfinished(VOLUME_COPY, backup.id))
    restore_status(backup)


def restore_status(backup: Backup) -> None:
    """Restore the status that the volume or snapshot had before the backup."""
    if backup.snapshot_id is not None:
        rows = Snapshot.objects.filter(id=backup.snapshot_id, status=SnapshotStatus.BACKING_UP)
        rows.update(status=SnapshotStatus.AVAILABLE, updated_at=timezone.now())
        return
    volume = state.lock([backup.volume_id]).get(backup.volume_id)
    if volume is not None and volume.status == VolumeStatus.BACKING_UP:
        state.end_task(volume)


def fail(backup: Backup, reason: str) -> None:
    """Fail a backup that is being created: store the reason, release its volume, and queue the removal of its data."""
    stop(backup)
    move(backup, BackupStatus.ERROR, fail_reason=reason[:255], deadline=None, digest="")
    messages.write(backup.project_id, "VOLUME_BACKUP", backup.id, messages.BACKUP_CREATE, reason)
    cast(TOPIC, DISCARD, backup_id=str(backup.id))


def recover(backup: Backup) -> bool:
    """Complete a locked backup whose data is complete in its store, although the host's report is missing.

    Returns False if the data is incomplete or the store does not answer.
    """
    store = store_named(backup.service)
    try:
        manifest, digest = backup_data.manifest_of(store, backup.id)
        stored = sum(each.size for each in store.objects(str(backup.id)))
    except NovellaError:
        return False
    parents = {"", str(backup.parent_id or "")}
    if manifest.volume_id != str(backup.volume_id) or manifest.parent_id not in parents:
        return False
    commands.withdraw(commands.unfinished(VOLUME_COPY, backup.id))
    move(backup, BackupStatus.CREATING, digest=digest, stored_bytes=stored, object_count=len(manifest.chunks) + 1)
    complete(backup, full=not manifest.parent_id)
    return True


def complete(backup: Backup, *, full: bool) -> None:
    """Complete a backup after its host has sent all data. The backup fails if the store has no manifest of it.

    ``full``: the backup needs no data of its parent.
    """
    if not backup.digest:
        fail(backup, "The host reported the end of the backup, but its data is incomplete.")
        return
    restore_status(backup)
    parent = None if full else backup.parent
    total = backup.progress_total
    move(backup, BackupStatus.AVAILABLE, CreateBackup().end_of(), deadline=None, parent=parent, progress_bytes=total)


class CreateBackup(OfVolume[BackupRequest, Backup], CopyTask[Backup, BackupVolumeRequest]):
    """Copy the data of a volume or of its snapshot to the backup store."""

    rule = "backup:create"
    model = Backup
    body = BackupVolumeRequest
    legal_from = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)
    refused = InvalidVolumeError
    notification = "create"
    timeouts = {BackupStatus.CREATING: TIMEOUT}
    when_overdue = (
        "the backup is completed if its data is complete; otherwise it is in `error`, and its data is removed"
    )
    awaited_in = (BackupStatus.CREATING,)

    def allowed(self, request: BackupRequest) -> Collection[str]:
        """Return all statuses for a backup of a snapshot, whose own status is checked instead."""
        return VolumeStatus.values if request.snapshot_id else self.legal_from

    def start(self, context: RequestContext, volume: Volume, request: BackupRequest) -> Backup:
        """Start to back up a volume or its snapshot.

        1. Check the request and the snapshot, and choose the parent backup.
        2. Reserve the quota, create the record, and set the volume (or the snapshot) to ``backing-up``.
        3. Send a command to a host of its pool.

        Raises InvalidInputError, SnapshotNotFoundError, InvalidVolumeError, InvalidSnapshotError, InvalidBackupError,
        OverQuotaError, and UnavailableError if no host serves the pool.
        """
        check_texts(request.name, request.description)
        check_metadata(request.metadata)
        check_zone(request.availability_zone)
        snapshot = _snapshot(context, request, volume)
        if volume.pool_id is None:
            raise InvalidVolumeError(f"Volume {volume.id} has no data.", field="volume_id")
        if snapshot is None and volume.status == VolumeStatus.IN_USE and not request.force:
            raise InvalidVolumeError("Backing up an in-use volume must use the force flag.", field="force")
        project_id = context.project_id or volume.project_id
        store, now = current(), timezone.now()
        data_at = snapshot.created_at if snapshot else now
        parent = _parent(volume, project_id, store.service, data_at) if request.incremental else None
        backup = Backup(
            project_id=project_id,
            user_id=context.user_id,
            name=request.name,
            description=request.description,
            volume_id=volume.id,
            snapshot_id=snapshot.id if snapshot else None,
            parent=parent,
            deadline=deadline_of(VolumeStatus.BACKING_UP),
            size_gb=snapshot.size_gb if snapshot else volume.size_gb,
            container=request.container or store.container(),
            service=store.service,
            availability_zone=request.availability_zone or volume.availability_zone,
            data_at=data_at,
            metadata=dict(request.metadata),
            volume_details=_details(volume),
            encryption_key=volume.encryption_key,
            cipher=volume.cipher,
            key_size=volume.key_size,
        )
        ledger.hold(project_id, backup.id, {"backups": 1, "backup_gigabytes": backup.size_gb})
        backup.save(force_insert=True)
        if snapshot is None:
            state.move(volume, VolumeStatus.BACKING_UP)
        else:
            Snapshot.objects.filter(id=snapshot.id).update(status=SnapshotStatus.BACKING_UP, updated_at=now)
        body = BackupVolumeRequest(
            volume=host_commands.spec_of(volume),
            backup_id=str(backup.id),
            parent_id=str(parent.id) if parent else "",
            snapshot_id=str(snapshot.id) if snapshot else "",
        )
        host_commands.send_copy(volume, backup.id, body, status=VolumeStatus.BACKING_UP)
        announce_backup(backup, self.start_of())
        return backup

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Backup]:
        rows = Backup.objects.select_for_update(of=("self",)).filter(id__in=list(ids)).order_by("id")
        return {row.id: row for row in rows}

    def awaited(self, backup: Backup) -> QuerySet[HostCommand]:
        return commands.unfinished(VOLUME_COPY, backup.id)

    def heartbeat(self, backup: Backup, until: datetime) -> None:
        if backup.status == BackupStatus.CREATING:
            Backup.objects.filter(id=backup.id).update(deadline=until)
            Volume.objects.filter(id=backup.volume_id, status=VolumeStatus.BACKING_UP).update(deadline=until)

    def finished(self, backup: Backup, event: AgentEvent, body: BackupVolumeRequest, host_id: uuid.UUID) -> None:
        backup.refresh_from_db()  # the digest was written after the row was read
        complete(backup, full=event.detail.get("full") == "true")

    def failed(self, backup: Backup, reason: str) -> None:
        """Store the reason, release the volume, and queue the removal of the data."""
        fail(backup, reason)

    def overdue(self, backup: Backup) -> None:
        """Complete the backup if its manifest is in the store; otherwise it fails."""
        if not recover(backup):
            self.failed(backup, SILENT)


class BeBackedUp(RecordTask[Volume]):
    """A volume waits for the end of its backup, which has the task and the same deadline."""

    model = Volume
    timeouts = {VolumeStatus.BACKING_UP: TIMEOUT}
    when_overdue = "the deadline of its backup applies; without a backup, the volume returns to its previous status"

    def lock(self, key: uuid.UUID) -> Volume | None:
        return state.lock([key]).get(key)

    def waits_until(self, volume: Volume) -> datetime | None:
        """Return the deadline of the newest backup that is being created."""
        rows = Backup.objects.filter(volume_id=volume.id, status=BackupStatus.CREATING).order_by("-created_at")
        until = rows.values_list("deadline", flat=True).first()
        return max(until, timezone.now()) + commands.MARGIN if until is not None else None

    def overdue(self, volume: Volume) -> None:
        """Set a volume without such a backup to the status that its attachments imply."""
        state.end_task(volume)


class DeleteBackup(UserTask[Backup, Deletion, None], JobTask[Backup]):
    """Remove the data of a backup, then its record and its quota usage."""

    rule = "backup:delete"
    model = Backup
    topic, job, payload = TOPIC, "volumes.remove_backup", "backup_id"
    legal_from = (BackupStatus.AVAILABLE, BackupStatus.ERROR)
    refused = InvalidBackupError
    notification = "delete"

    def locked(self, context: RequestContext, key: str | uuid.UUID) -> Backup:
        return locked(backup_for(context, key).id)

    def allowed(self, request: Deletion) -> Collection[str]:
        return BackupStatus.values if request.force else self.legal_from

    def check(
        self, record: Model, among: Collection[str] | None = None, refused: type[NovellaError] | None = None
    ) -> None:
        """Accept a backup that is already being deleted."""
        if getattr(record, "status") != BackupStatus.DELETING:  # noqa: B009
            super().check(record, among, refused)

    def start(self, context: RequestContext, backup: Backup, request: Deletion) -> None:
        """Queue the job. Ignored for a backup that is already being deleted.

        Raises InvalidBackupError for a backup with incremental backups, or while it is being restored.
        """
        if backup.status == BackupStatus.DELETING:
            return
        if backup.children.exists():
            raise InvalidBackupError("Incremental backups exist for this backup.")
        if backup.restored_volume_id is not None and backup.status == BackupStatus.RESTORING:
            raise InvalidBackupError(f"It is being restored to volume {backup.restored_volume_id}.")
        if backup.status == BackupStatus.CREATING:
            stop(backup)
        move(backup, BackupStatus.DELETING, self.start_of(), deadline=None)
        self.queue(backup.id)

    def run(self, key: uuid.UUID) -> None:
        backup = Backup.objects.filter(id=key, status=BackupStatus.DELETING).first()
        if backup is None:
            return
        backup_data.discard(store_named(backup.service), backup.id)
        with transaction.atomic():
            row = self.lock(key)
            if row is not None and row.status == BackupStatus.DELETING:
                ledger.release(row.id)
                announce_backup(row, self.end_of(), gone=True)
                row.delete()

    def given_up(self, key: uuid.UUID) -> None:
        """Set the backup to ``error_deleting``, and write a message to its owner."""
        with transaction.atomic():
            backup = self.lock(key)
            if backup is not None and backup.status == BackupStatus.DELETING:
                reason = "The backup store did not answer."
                move(backup, BackupStatus.ERROR_DELETING, fail_reason=reason)
                messages.write(backup.project_id, "VOLUME_BACKUP", backup.id, messages.BACKUP_DELETE, reason)
