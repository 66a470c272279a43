"""What can go wrong with volumes, as users are told; a face turns the classes into Cinder's faults."""

from provisioning.common.errors import InvalidInputError, NotFoundError


class VolumeNotFoundError(NotFoundError):
    """There is no such volume for the caller."""

    def __init__(self, volume_id: object) -> None:
        """Name the id that was asked for."""
        super().__init__(f"Volume {str(volume_id)[:64]} could not be found.", field="volume_id")


class SnapshotNotFoundError(NotFoundError):
    """There is no such snapshot for the caller."""

    def __init__(self, snapshot_id: object) -> None:
        """Name the id that was asked for."""
        super().__init__(f"Snapshot {str(snapshot_id)[:64]} could not be found.", field="snapshot_id")


class AttachmentNotFoundError(NotFoundError):
    """There is no such attachment for the caller."""

    def __init__(self, attachment_id: object) -> None:
        """Name the id that was asked for."""
        super().__init__(f"Volume attachment {str(attachment_id)[:64]} could not be found.", field="attachment_id")


class InvalidVolumeError(InvalidInputError):
    """The volume's state does not allow it (Cinder's InvalidVolume, 400)."""

    code = "invalid_volume"


class InvalidSnapshotError(InvalidInputError):
    """The snapshot's state does not allow it (Cinder's InvalidSnapshot, 400)."""

    code = "invalid_snapshot"


class BeingModifiedError(InvalidVolumeError):
    """Size or type of the volume are being changed already."""

    code = "being_modified"
