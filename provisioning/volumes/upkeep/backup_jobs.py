"""Queued and periodic jobs for backups."""

import logging
import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from compute_agent.contract.volume import VOLUME_COPY
from provisioning.common.errors import NovellaError
from provisioning.common.ids import read_id
from provisioning.hosts import commands
from provisioning.jobs.absence import absence
from provisioning.jobs.registry import job, periodic
from provisioning.quotas.services import ledger
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_announcements import announce_backup
from provisioning.volumes.backups.backup_store import current, store_named
from provisioning.volumes.models import Backup
from provisioning.volumes.services import backup_restores, backups, messages
from provisioning.volumes.states import BackupStatus
from provisioning.volumes.tasks import SILENT

log = logging.getLogger(__name__)

ABANDONED = timedelta(days=1)
"""Age of the newest object after which incomplete data is removed if the database has no record of the backup."""


def give_up_removal(reason: str, backup_id: str) -> None:
    """Set a backup to ``error_deleting`` after ``remove_backup`` was given up, and write a message to its owner."""
    with transaction.atomic():
        backup = Backup.objects.select_for_update().filter(id=backup_id, status=BackupStatus.DELETING).first()
        if backup is not None:
            said = "The backup store did not answer."
            backups.move(backup, BackupStatus.ERROR_DELETING, fail_reason=said)
            messages.write(backup.project_id, "VOLUME_BACKUP", backup.id, messages.BACKUP_DELETE, said)


@job(backups.REMOVE, topic=backups.TOPIC, on_give_up=give_up_removal, long=True)
def remove_backup(backup_id: str) -> None:
    """Remove a backup's data, then its record and its quota usage."""
    backup = Backup.objects.filter(id=backup_id, status=BackupStatus.DELETING).first()
    if backup is None:
        return
    backup_data.discard(store_named(backup.service), backup.id)
    with transaction.atomic():
        row = Backup.objects.select_for_update().filter(id=backup_id, status=BackupStatus.DELETING).first()
        if row is not None:
            ledger.release(row.id)
            announce_backup(row, "delete.end", gone=True)
            row.delete()


@job(backups.DISCARD, topic=backups.TOPIC, long=True)
def discard_backup_data(backup_id: str) -> None:
    """Remove the data of a failed backup."""
    backup = Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR, digest="").first()
    if backup is not None:
        backup_data.discard(store_named(backup.service), backup.id)
        Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR).update(stored_bytes=0)


@periodic("volumes.overdue_backups", every=15.0)
def end_overdue() -> int:
    """Complete or fail overdue backups, and end restores that are no longer running.

    An overdue backup is completed if its manifest is in the store; otherwise it fails. A backup in ``restoring``
    becomes ``available`` if its volume is no longer being restored. Returns the number of changed backups.
    """
    gap = absence("volumes.overdue_backups")
    if gap is not None:
        Backup.objects.filter(status=BackupStatus.CREATING).update(deadline=F("deadline") + gap)
    overdue = Backup.objects.filter(status=BackupStatus.CREATING, deadline__lt=timezone.now())
    ended = 0
    for backup_id in list(overdue.values_list("id", flat=True)):
        with transaction.atomic():
            backup = overdue.select_for_update().filter(id=backup_id).first()
            if backup is None:
                continue
            until = _waits(backup_id)
            if until is not None:
                Backup.objects.filter(id=backup_id).update(deadline=until)
                continue
            if not backups.recover(backup):
                backups.fail(backup, SILENT)
            ended += 1
    return ended + backup_restores.give_back_lost()


def _waits(backup_id: uuid.UUID) -> datetime | None:
    """Return the deadline of the command that creates the backup; None if no host has an unfinished one."""
    return commands.awaited_until(commands.unfinished(VOLUME_COPY, backup_id))


@periodic("volumes.sweep_backup_store", every=3600.0)
def sweep() -> int:
    """Remove the incomplete data of failed backups and of backups without a record from the store.

    Returns the number of backups whose data was removed. Complete data, with a manifest, is kept even without a record,
    because it may belong to another cloud; the doctor reports it.
    """
    store, swept = current(), 0
    try:
        for folder in store.folders():
            backup_id = read_id(folder)
            if backup_id is not None and _abandoned(backup_id):
                swept += 1 if backup_data.discard(store, backup_id) else 0
    except NovellaError as error:
        log.warning("The backup store could not be cleaned up: %s", error)
    return swept


def _abandoned(backup_id: uuid.UUID) -> bool:
    backup = Backup.objects.filter(id=backup_id).first()
    if backup is not None:  # with a digest the data is complete: an operator set the status
        failed = backup.status == BackupStatus.ERROR and not backup.digest
        return failed and backup.updated_at < timezone.now() - timedelta(minutes=10)
    objects = current().objects(str(backup_id))
    newest = max((each.modified_at for each in objects), default=None)
    whole = any(each.name == backup_data.MANIFEST for each in objects)
    return newest is not None and not whole and newest < timezone.now() - ABANDONED
