"""Backups without their data, and data in the store of backups of which no record knows."""

from collections.abc import Iterator

from provisioning.common.errors import NovellaError
from provisioning.common.ids import read_id
from provisioning.doctor.finding import Finding, check
from provisioning.volumes.backup_data import MANIFEST
from provisioning.volumes.backup_store import current, store_named
from provisioning.volumes.backup_store.base import ObjectStore
from provisioning.volumes.models import Backup
from provisioning.volumes.states import BackupStatus

KEPT = (BackupStatus.AVAILABLE, BackupStatus.RESTORING)


@check("backups")
def backups() -> Iterator[Finding]:
    """Find whole backups whose list of parts is not in their store, and whole data without a record.

    The data may be another cloud's, or wait for its record to be imported: nothing is removed.
    """
    if not Backup.objects.exists() and not _used():
        return
    for service in {*Backup.objects.values_list("service", flat=True), current().service}:
        try:
            yield from _compared(store_named(service), service)
        except NovellaError as error:
            yield Finding("warning", f"store of backups {service}", f"It could not be examined: {error.message}")


def _used() -> bool:
    try:
        return bool(current().folders())
    except NovellaError:
        return True


def _compared(store: ObjectStore, service: str) -> Iterator[Finding]:
    there = set(store.folders())
    known = {str(row.id): row for row in Backup.objects.filter(service=service)}
    for key, backup in known.items():
        if backup.status in KEPT and (key not in there or not _whole(store, key)):
            sentence = f"Its data is not in the store {service} any more: it cannot be written back."
            yield Finding("error", f"backup {key}", sentence, evidence=backup.digest)
    for key in sorted(there - known.keys()):
        if read_id(key) is not None and _whole(store, key):
            sentence = (
                f"The store {service} has its data, and there is no record: it may be imported, or removed by hand."
            )
            yield Finding("note", f"backup {key}", sentence)


def _whole(store: ObjectStore, key: str) -> bool:
    return any(each.name == MANIFEST for each in store.objects(key))
