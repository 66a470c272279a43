"""What can go wrong with backups, as users are told."""

from provisioning.common.errors import InvalidInputError, NotFoundError


class BackupNotFoundError(NotFoundError):
    """There is no such backup for the caller."""

    def __init__(self, backup_id: object) -> None:
        """Name the id that was asked for."""
        super().__init__(f"Backup {str(backup_id)[:64]} could not be found.", field="backup_id")


class InvalidBackupError(InvalidInputError):
    """The backup's state does not allow it (Cinder's InvalidBackup, 400)."""

    code = "invalid_backup"
