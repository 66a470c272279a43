"""Jobs for backups, except their tasks."""

import logging
import uuid
from datetime import timedelta

from django.utils import timezone

from provisioning.common.errors import NovellaError
from provisioning.common.values.ids import read_id
from provisioning.jobs.registry import job, periodic
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_store import current, store_named
from provisioning.volumes.models import Backup
from provisioning.volumes.services.backups import backup_restores, backups
from provisioning.volumes.states import BackupStatus

log = logging.getLogger(__name__)

ABANDONED = timedelta(days=1)
"""Age of the newest object after which incomplete data is removed if the database has no record of the backup."""


@job(backups.DISCARD, topic=backups.TOPIC, long=True)
def discard_backup_data(backup_id: str) -> None:
    """Remove the data of a failed backup."""
    backup = Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR, digest="").first()
    if backup is not None:
        backup_data.discard(store_named(backup.service), backup.id)
        Backup.objects.filter(id=backup_id, status=BackupStatus.ERROR).update(stored_bytes=0)


@periodic("volumes.lost_restores", every=15.0)
def end_lost_restores() -> int:
    """Set backups whose volume is no longer being restored to ``available``; return the number of backups."""
    return backup_restores.reset_lost_restores()


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
