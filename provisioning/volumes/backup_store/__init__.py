"""Where the data of backups lies: objects in a folder or in an S3-compatible store."""

from provisioning.volumes.backup_store.choice import current, store_named

__all__ = ["current", "store_named"]
