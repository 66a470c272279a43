"""Work for backups by the queue and by the clock."""

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
from provisioning.volumes import backup_data
from provisioning.volumes.backup_announcements import announce_backup
from provisioning.volumes.backup_store import current, store_named
from provisioning.volumes.models import Backup
from provisioning.volumes.overdue import SILENT
from provisioning.volumes.services import backup_restores, backups, messages
from provisioning.volumes.states import BackupStatus

log = logging.getLogger(__name__)

ABANDONED = timedelta(days=1)
"""After this time an unfinished backup of which there is no record is nobody's any more."""


def give_up_removal(reason: str, backup_id: str) -> None:
    """The store did not let the data go: its owner, and the operator, are told."""
    with transaction.atomic():
        backup = Backup.objects.select_for_update().filter(id=backup_id, status=BackupStatus.DELETING).first()
        if backup is not None:
            said = "The store of backups did not answer."
            backups.move(backup, BackupStatus.ERROR_DELETING, fail_reason=said)
            messages.write(backup.project_id, "VOLUME_BACKUP", backup.id, messages.BACKUP_DELETE, said)


@job(backups.REMOVE, topic=backups.TOPIC, on_give_up=give_up_removal, long=True)
def remove_backup(backup_id: str) -> None:
    """Remove the data, then the record and what it holds of the quota."""
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
    """Remove what there is of a backup that failed."""
    backup = Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR, digest="").first()
    if backup is not None:
        backup_data.discard(store_named(backup.service), backup.id)
        Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR).update(stored_bytes=0)


@periodic("volumes.overdue_backups", every=15.0)
def end_overdue() -> int:
    """End backups of which no host has said anything in time, and restores whose volume is gone; return how many."""
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
    """Return until when to look again after the host's command, None when no host works on it."""
    return commands.awaited_until(commands.unfinished(VOLUME_COPY, backup_id))


@periodic("volumes.sweep_backup_store", every=3600.0)
def sweep() -> int:
    """Remove unfinished data in the store that belongs to no backup being made; return of how many backups.

    What has a manifest is whole, and perhaps another cloud's: the doctor tells of it, and it stays.
    """
    store, swept = current(), 0
    try:
        for folder in store.folders():
            backup_id = read_id(folder)
            if backup_id is not None and _abandoned(backup_id):
                swept += 1 if backup_data.discard(store, backup_id) else 0
    except NovellaError as error:
        log.warning("The store of backups could not be swept: %s", error)
    return swept


def _abandoned(backup_id: uuid.UUID) -> bool:
    backup = Backup.objects.filter(id=backup_id).first()
    if backup is not None:  # one with a digest is whole, and has its status by an operator's word
        failed = backup.status == BackupStatus.ERROR and not backup.digest
        return failed and backup.updated_at < timezone.now() - timedelta(minutes=10)
    objects = current().objects(str(backup_id))
    newest = max((each.modified_at for each in objects), default=None)
    whole = any(each.name == backup_data.MANIFEST for each in objects)
    return newest is not None and not whole and newest < timezone.now() - ABANDONED
