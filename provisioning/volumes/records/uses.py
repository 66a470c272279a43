"""Users of volumes: services of other packages register here and are called in the transaction of the change."""

from collections.abc import Callable, Sequence
from typing import Protocol

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ConnectVolumeRequest
from provisioning.common.wired import Wired
from provisioning.hosts.models import HostCommand
from provisioning.volumes.models import Attachment, Volume


class VolumeUser(Protocol):
    """Callbacks of the user of volumes (Compute)."""

    def connected(self, attachment: Attachment, *, again: bool = False) -> None:
        """Called when the volume's storage daemon serves the client. ``attachment.connection`` has the daemon's
        address.

        ``again``: a repeated call, because the attachment is still not complete.
        """

    def second_connected(self, attachment: Attachment, message: str) -> None:
        """Called when the volume's storage daemon serves the guest's second host too (``second_hosts``), or cannot.

        ``message``: the reason why it cannot; the second host is dropped then. Empty: it serves both.
        """

    def refused(self, attachment: Attachment, message: str) -> None:
        """The volume could not be connected. The attachment remains until ``attachments.release`` deletes it."""

    def ready(self, volume: Volume) -> None:
        """A new volume has its data; a launch may be waiting for it."""

    def failed(self, volume: Volume, message: str) -> None:
        """The creation of a volume failed."""

    def reimaged(self, volume: Volume, message: str = "") -> None:
        """The data of an attached volume was replaced by an image. ``message``: why this failed; "": it succeeded."""

    def progressed(self, volume: Volume) -> None:
        """The progress of a volume that is being created or reimaged has changed. The callback must not lock rows."""

    def changed(self, volume: Volume) -> None:
        """The size, limits or connection of an attached volume have changed.

        Sends each guest's host a RefreshVolumeRequest; ``attachments.refreshed`` is called when it is done.
        """

    def released(self, attachment: Attachment) -> None:
        """An operator has deleted the attachment; the server no longer has the volume, whatever its guest does."""

    def has(self, attachment: Attachment) -> bool:
        """Return whether the attachment belongs to a server of Compute.

        Otherwise its ``instance_id`` is only an unverified value from an external client.
        """

    def is_building(self, attachment: Attachment) -> bool:
        """Return whether a server with this attachment is being built or unshelved.

        The end of that operation releases the attachment.
        """

    def swap(self, old: Attachment, new: Attachment) -> None:
        """Switch a running guest from one volume to another (SwapVolumeRequest).

        ``new`` is connected. ``migrate.swapped`` is called with the result.
        """

    def working(self, attachment: Attachment) -> Sequence[HostCommand]:
        """Return the unfinished commands to the guest's host about an attachment, which a task of the volume awaits."""

    def is_swapping(self, new: Attachment) -> bool:
        """Return whether a host has an unfinished command to switch a guest to ``new``.

        Until the host has reported, only the host knows which volume the guest writes to.
        """


class Moves(Protocol):
    """The migration of a volume's data to a hidden volume, whose ``migration_of`` is the volume.

    ``reason``: why the step failed; "": it succeeded.
    """

    def created(self, hidden: Volume, reason: str) -> None:
        """The hidden volume was created and is empty."""

    def exported(self, volume: Volume, event: AgentEvent, body: ConnectVolumeRequest) -> bool:
        """The volume's storage daemon has received a list of clients, or has failed to apply it.

        Returns False if the list is not for a migration.
        """

    def connected(self, new: Attachment, reason: str) -> None:
        """The guest's host can open the hidden volume."""


USERS = Wired[VolumeUser]("The users of volumes")
MOVES = Wired[Moves]("The moves of volumes")
FILL = Wired[Callable[[Volume], None]]("The restores of backups")
"""Starts the restore of a backup to a new, empty volume that is still ``creating``."""


def user() -> VolumeUser:
    return USERS.only()
