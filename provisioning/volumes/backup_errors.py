"""Errors about backups, with messages for users."""

from provisioning.common.errors import InvalidInputError, NotFoundError


class BackupNotFoundError(NotFoundError):
    """The backup does not exist or is not visible to the caller."""

    def __init__(self, backup_id: object) -> None:
        super().__init__(f"Backup {str(backup_id)[:64]} could not be found.", field="backup_id")


class InvalidBackupError(InvalidInputError):
    """The state of the backup does not allow the operation (Cinder's InvalidBackup, 400)."""

    code = "invalid_backup"
