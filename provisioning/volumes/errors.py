"""Errors about volumes and backups, with messages for users. The APIs convert these classes to the faults of Cinder."""

from provisioning.common.errors import InvalidInputError, NotFoundError


class VolumeNotFoundError(NotFoundError):
    """The volume does not exist or is not visible to the caller."""

    def __init__(self, volume_id: object) -> None:
        super().__init__(f"Volume {str(volume_id)[:64]} could not be found.", field="volume_id")


class SnapshotNotFoundError(NotFoundError):
    """The snapshot does not exist or is not visible to the caller."""

    def __init__(self, snapshot_id: object) -> None:
        super().__init__(f"Snapshot {str(snapshot_id)[:64]} could not be found.", field="snapshot_id")


class AttachmentNotFoundError(NotFoundError):
    """The attachment does not exist or is not visible to the caller."""

    def __init__(self, attachment_id: object) -> None:
        super().__init__(f"Volume attachment {str(attachment_id)[:64]} could not be found.", field="attachment_id")


class InvalidVolumeError(InvalidInputError):
    """The state of the volume does not allow the operation (Cinder's InvalidVolume, 400)."""

    code = "invalid_volume"


class InvalidSnapshotError(InvalidInputError):
    """The state of the snapshot does not allow the operation (Cinder's InvalidSnapshot, 400)."""

    code = "invalid_snapshot"


class BeingModifiedError(InvalidVolumeError):
    """The size or type of the volume is already being changed."""

    code = "being_modified"


class BackupNotFoundError(NotFoundError):
    """The backup does not exist or is not visible to the caller."""

    def __init__(self, backup_id: object) -> None:
        super().__init__(f"Backup {str(backup_id)[:64]} could not be found.", field="backup_id")


class InvalidBackupError(InvalidInputError):
    """The state of the backup does not allow the operation (Cinder's InvalidBackup, 400)."""

    code = "invalid_backup"
