"""Backups without their data, and data in the backup store without a record."""

from collections.abc import Iterator

from provisioning.common.errors import NovellaError
from provisioning.common.values.ids import read_id
from provisioning.doctor.finding import Finding, check
from provisioning.volumes.backups.backup_data import MANIFEST
from provisioning.volumes.backups.backup_store import current, store_named
from provisioning.volumes.backups.backup_store.base import ObjectStore
from provisioning.volumes.models import Backup
from provisioning.volumes.states import BackupStatus

WITH_DATA = (BackupStatus.AVAILABLE, BackupStatus.RESTORING)


@check("backups")
def backups() -> Iterator[Finding]:
    """Find available backups whose manifest is missing in the store, and complete data in the store without a record.

    Data without a record may belong to another cloud or wait for the import of its record, so nothing is deleted.
    """
    if not Backup.objects.exists() and not _used():
        return
    for service in {*Backup.objects.values_list("service", flat=True), current().service}:
        try:
            yield from _compared(store_named(service), service)
        except NovellaError as error:
            yield Finding("warning", f"backup store {service}", f"It could not be examined: {error.message}")


def _used() -> bool:
    try:
        return bool(current().folders())
    except NovellaError:
        return True


def _compared(store: ObjectStore, service: str) -> Iterator[Finding]:
    there = set(store.folders())
    known = {str(row.id): row for row in Backup.objects.filter(service=service)}
    for key, backup in known.items():
        if backup.status in WITH_DATA and (key not in there or not _whole(store, key)):
            sentence = f"Its data is missing in the store {service}: it cannot be restored."
            yield Finding("error", f"backup {key}", sentence, evidence=backup.digest)
    for key in sorted(there - known.keys()):
        if read_id(key) is not None and _whole(store, key):
            sentence = f"The store {service} has its data, but it has no record: import it, or delete it manually."
            yield Finding("note", f"backup {key}", sentence)


def _whole(store: ObjectStore, key: str) -> bool:
    return any(each.name == MANIFEST for each in store.objects(key))
