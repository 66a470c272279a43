"""Restores backups, to an existing volume without attachments or to a new one."""

import uuid
from dataclasses import dataclass
from typing import NamedTuple

from django.db import transaction

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import RestoreVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.tasks import UserTask
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.hosts import commands
from provisioning.volumes.errors import InvalidBackupError, InvalidVolumeError
from provisioning.volumes.host_link import host_commands
from provisioning.volumes.models import Backup, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors import visible_types
from provisioning.volumes.selectors.copies import backup_for, chain_of
from provisioning.volumes.services import messages
from provisioning.volumes.services.backups.backups import locked, move
from provisioning.volumes.services.checks import check_free, locked_volume
from provisioning.volumes.services.lifecycle.create import Create, ready
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import BackupStatus, VolumeStatus
from provisioning.volumes.tasks import VolumeTask

UNLIKE = "Either the volume or the backup is encrypted, but not the other one: choose a matching type."


class Restored(NamedTuple):
    """The backup and volume of a restore that was started."""

    backup: Backup
    volume: Volume


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Where to restore a backup: to a volume, or without ``volume_id`` to a new one called ``name``."""

    volume_id: str = ""
    name: str = ""


def _type_of(context: RequestContext, backup: Backup) -> str:
    """Return the type of the backed-up volume if the caller may still use it, otherwise "" for the default type."""
    known = read_id(str(backup.volume_details.get("volume_type") or ""))
    return str(known) if known and visible_types(context).filter(id=known).exists() else ""


def send(backup: Backup, volume: Volume) -> None:
    """Send the restore command. The caller has locked the backup and the volume."""
    chain = chain_of(backup)
    state.move(volume, VolumeStatus.RESTORING_BACKUP)
    move(backup, BackupStatus.RESTORING, Restore().start_of(), restored_volume_id=volume.id)
    body = RestoreVolumeRequest(volume=host_commands.spec_of(volume), backup_ids=[str(each.id) for each in chain])
    host_commands.send(volume, body, status=VolumeStatus.RESTORING_BACKUP)


def fill(volume: Volume) -> None:
    """Start to restore a backup to the new, empty volume that was requested from it."""
    backup = Backup.objects.select_for_update().filter(id=volume.source_backup_id or NOBODY).first()
    reason = ""
    if backup is None or backup.status not in {BackupStatus.AVAILABLE, BackupStatus.RESTORING}:
        reason = "Its source backup is no longer available."
    elif bool(volume.encryption_key) != bool(backup.encryption_key):
        reason = UNLIKE
    if backup is None or reason:
        state.move(volume, VolumeStatus.ERROR)
        messages.of_volume(volume, messages.BACKUP_RESTORE, reason)
        uses.user().failed(volume, reason)
        return
    send(backup, volume)


class Restore(UserTask[Backup, RestoreRequest, Restored], VolumeTask[RestoreVolumeRequest]):
    """Write a backup over the data of a volume without attachments, or of a new volume."""

    rule = "backup:restore"
    body = RestoreVolumeRequest
    legal_from = (BackupStatus.AVAILABLE,)
    target_from = (VolumeStatus.AVAILABLE,)
    refused = InvalidBackupError
    notification = "restore"
    timeouts = by_status({VolumeStatus.RESTORING_BACKUP: 60 * MINUTE})
    when_overdue = "the volume is in `error_restoring`; the backup is `available` again"
    awaited_in = (VolumeStatus.RESTORING_BACKUP,)

    def locked(self, context: RequestContext, key: str | uuid.UUID) -> Backup:
        return locked(backup_for(context, key).id)

    def start(self, context: RequestContext, backup: Backup, request: RestoreRequest) -> Restored:
        """Start to restore a backup, for a new volume after its creation.

        Raises VolumeNotFoundError, InvalidVolumeError, and for a new volume the errors of ``Create``.
        """
        if request.volume_id:
            volume = self.target(context, backup, request.volume_id)
            send(backup, volume)
            return Restored(backup, volume)
        new = VolumeRequest(
            size_gb=backup.size_gb,
            name=request.name or f"restore_backup_{backup.id}",
            description=str(backup.volume_details.get("description") or ""),
            volume_type=_type_of(context, backup),
            backup_id=str(backup.id),
        )
        volume = Create.begin(context, new)
        if volume.status == VolumeStatus.CREATING:
            move(backup, BackupStatus.RESTORING, self.start_of(), restored_volume_id=volume.id)
        return Restored(backup, volume)

    def target(self, context: RequestContext, backup: Backup, volume_id: str) -> Volume:
        """Return the existing volume that the backup can overwrite, locked."""
        volume = locked_volume(context, volume_id)
        self.check(volume, self.target_from, InvalidVolumeError)
        check_free(volume)
        if volume.size_gb < backup.size_gb:
            message = f"The volume has {volume.size_gb} GiB, and the backup needs {backup.size_gb} GiB."
            raise InvalidVolumeError(message, field="volume_id")
        if bool(volume.encryption_key) != bool(backup.encryption_key):
            raise InvalidVolumeError(UNLIKE)
        return volume

    def finished(self, volume: Volume, event: AgentEvent, body: RestoreVolumeRequest, host_id: uuid.UUID) -> None:
        backup = Backup.objects.select_for_update().filter(id=body.backup_ids[-1]).first()
        if backup is not None:
            _finished(volume, backup)
        else:
            self.failed(volume, "The backup was deleted in the meantime.")

    def failed(self, volume: Volume, reason: str) -> None:
        failed(volume, Backup.objects.select_for_update().filter(restored_volume_id=volume.id).first(), reason)

    def overdue(self, volume: Volume) -> None:
        commands.withdraw(host_commands.open_commands(volume.id).filter(kind="restore_volume_request"))
        super().overdue(volume)


def _finished(volume: Volume, backup: Backup) -> None:
    made_of_it = _is_new(volume)
    changes = dict[str, object]()
    details = backup.volume_details
    if made_of_it or not volume.bootable:
        changes["bootable"] = bool(details.get("bootable"))
    if made_of_it or not volume.image_metadata:
        changes["image_metadata"] = details.get("image_metadata") or {}
    if isinstance(items := details.get("metadata"), dict):
        changes["metadata"] = {**volume.metadata, **{str(name): str(value) for name, value in items.items()}}
    _end_restore(backup, volume)
    if made_of_it:
        state.update(volume, changes)
        ready(volume)
    else:
        state.end_task(volume, changes=changes)


def _is_new(volume: Volume) -> bool:
    """Return whether the volume is being created from its backup, rather than overwritten."""
    return volume.source_backup_id is not None and volume.previous_status == VolumeStatus.CREATING


def failed(volume: Volume, backup: Backup | None, reason: str) -> None:
    """Set the volume to ``error_restoring`` after a failed restore, and its backup to ``available``."""
    new = _is_new(volume)
    state.move(volume, VolumeStatus.ERROR_RESTORING, changes={"progress_bytes": 0, "progress_total": 0})
    messages.of_volume(volume, messages.BACKUP_RESTORE, reason)
    if backup is not None:
        _end_restore(backup, volume)
    if new:
        uses.user().failed(volume, reason)


def _end_restore(backup: Backup, volume: Volume) -> None:
    if backup.status == BackupStatus.RESTORING and backup.restored_volume_id == volume.id:
        move(backup, BackupStatus.AVAILABLE, Restore().end_of(), restored_volume_id=None)


@transaction.atomic
def reset_lost_restores() -> int:
    """Set backups whose volume is no longer being restored to ``available``; return the number of backups."""
    result = 0
    for backup in Backup.objects.select_for_update().filter(status=BackupStatus.RESTORING):
        volume = Volume.objects.filter(id=backup.restored_volume_id or NOBODY).first()
        waits = volume is not None and volume.status in {VolumeStatus.RESTORING_BACKUP, VolumeStatus.CREATING}
        if not waits:
            move(backup, BackupStatus.AVAILABLE, restored_volume_id=None)
            result += 1
    return result
