"""Chooses the store of new backups, and finds the store of an existing backup."""

from functools import cache

from django.conf import settings

from provisioning.volumes.backups.backup_store.base import ObjectStore, StoreUnavailableError
from provisioning.volumes.backups.backup_store.folder import FolderStore


def current() -> ObjectStore:
    """Return the store of new backups."""
    return store_named(settings.BACKUP_STORE)


def store_named(service: str) -> ObjectStore:
    """Return the store for a value of ``Backup.service``.  Raises StoreUnavailableError if it is not configured."""
    if service == FolderStore.service:
        return FolderStore(settings.BACKUP_DIR)
    if service == "s3" and settings.BACKUP_S3_BUCKET:
        return _s3(
            settings.BACKUP_S3_BUCKET,
            settings.BACKUP_S3_ENDPOINT,
            settings.BACKUP_S3_REGION,
            settings.BACKUP_S3_ACCESS_KEY,
            settings.BACKUP_S3_SECRET_KEY,
            settings.BACKUP_S3_PREFIX,
        )
    raise StoreUnavailableError("The store of this backup is no longer configured.")


@cache
def _s3(*values: str) -> ObjectStore:
    """Return the store for these settings, shared by all threads. The S3 library is only imported if it is needed."""
    from provisioning.volumes.backups.backup_store import s3  # noqa: PLC0415 - see above

    return s3.S3Store(s3.S3Settings(*values))
