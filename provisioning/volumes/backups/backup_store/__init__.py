"""Stores for the data of backups: a directory or an S3-compatible store."""

from provisioning.volumes.backups.backup_store.choice import current, store_named

__all__ = ["current", "store_named"]
