"""Operators' actions on backup records: export, import and reset of the status."""

import base64
import binascii
import uuid
from datetime import datetime

import msgspec
from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import GoneError, InvalidInputError
from provisioning.quotas.services import ledger
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_announcements import announce_backup
from provisioning.volumes.backups.backup_store import store_named
from provisioning.volumes.errors import InvalidBackupError
from provisioning.volumes.models import Backup
from provisioning.volumes.selectors.copies import backup_for
from provisioning.volumes.services.backups.backups import fail, locked, move, stop
from provisioning.volumes.states import BackupStatus

LONGEST = 65_536
"""Maximum length of an exported record."""


class ExportedBackup(msgspec.Struct, frozen=True):
    """The exported form of a backup's record."""

    id: uuid.UUID
    volume_id: uuid.UUID
    parent_id: uuid.UUID | None
    name: str
    description: str
    size_gb: int
    object_count: int
    stored_bytes: int
    container: str
    digest: str
    availability_zone: str
    data_at: datetime | None
    metadata: dict[str, str]
    volume_details: dict[str, object]
    encryption_key: str = ""  # encrypted with the credential keys of the exporting cloud
    cipher: str = ""
    key_size: int = 0


class BackupRecord(msgspec.Struct, frozen=True):
    """Cinder's ``backup-record``."""

    backup_service: str
    backup_url: str


def export_record(context: RequestContext, backup_id: str) -> BackupRecord:
    """Return the record for ``import_record``.  Raises BackupNotFoundError, InvalidBackupError."""
    backup = backup_for(context, backup_id)
    if backup.status != BackupStatus.AVAILABLE:
        raise InvalidBackupError(f"Backup status must be available; it is {backup.status}.")
    fields = {name: getattr(backup, name) for name in ExportedBackup.__struct_fields__}
    url = base64.b64encode(msgspec.json.encode(ExportedBackup(**fields))).decode()
    return BackupRecord(backup.service, url)


@transaction.atomic
def import_record(context: RequestContext, record: BackupRecord) -> Backup:
    """Create the record of a backup whose data is in this cloud's store, for the caller's project.

    Raises InvalidInputError for an invalid record, InvalidBackupError if the backup exists, its parent does not exist,
    or its data is not in the store, and OverQuotaError.
    """
    read = _read(record.backup_url)
    if Backup.objects.filter(id=read.id).exists():
        raise InvalidBackupError("Backup already exists in database.")
    if read.parent_id is not None and not Backup.objects.filter(id=read.parent_id).exists():
        raise InvalidBackupError(f"It builds on backup {read.parent_id}: import that one first.")
    try:
        backup_data.manifest_of(store_named(record.backup_service), read.id, read.digest)
    except GoneError as error:
        raise InvalidBackupError(error.message) from error
    if context.project_id is None:
        raise InvalidInputError("A backup is imported into a project.")
    fields = {name: getattr(read, name) for name in ExportedBackup.__struct_fields__}
    backup = Backup(
        project_id=context.project_id,
        user_id=context.user_id,
        status=BackupStatus.AVAILABLE,
        service=record.backup_service,
        **fields,
    )
    ledger.hold(context.project_id, backup.id, {"backups": 1, "backup_gigabytes": backup.size_gb})
    backup.save(force_insert=True)
    announce_backup(backup)
    return backup


def _read(url: str) -> ExportedBackup:
    try:
        if len(url) > LONGEST:
            raise InvalidInputError("This record is too long.", field="backup_url")
        return msgspec.json.decode(base64.b64decode(url, validate=True), type=ExportedBackup)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidInputError("This is not a record of a backup.", field="backup_url") from error


@transaction.atomic
def reset_status(context: RequestContext, backup_id: str, status: str) -> None:
    """Set a backup to ``available`` or ``error``, and stop its running operation."""
    if status not in {BackupStatus.AVAILABLE, BackupStatus.ERROR}:
        raise InvalidInputError("The status must be available or error.", field="status")
    backup = locked(backup_for(context, backup_id).id)
    if backup.status == BackupStatus.DELETING:
        raise InvalidBackupError("It is being deleted.")
    if backup.status == BackupStatus.CREATING and status == BackupStatus.ERROR:
        fail(backup, "An operator has stopped it.")
        return
    if status == BackupStatus.AVAILABLE and not backup.digest:
        raise InvalidBackupError("Its data is not complete.")
    if backup.status == BackupStatus.CREATING:
        stop(backup)
    move(backup, BackupStatus(status), deadline=None)
