"""Who uses volumes: the service above registers here and is called back, inside the transaction of the change."""

from collections.abc import Callable, Sequence
from typing import Protocol

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ConnectVolumeRequest
from provisioning.common.wired import Wired
from provisioning.hosts.models import HostCommand
from provisioning.volumes.models import Attachment, Volume


class VolumeUser(Protocol):
    """What follows at the user (compute) from what happens to a volume."""

    def connected(self, attachment: Attachment, *, again: bool = False) -> None:
        """The volume's storage daemon lets the client in: ``attachment.connection`` says where.

        ``again``: it was said long ago, and the attachment is still not complete.
        """

    def refused(self, attachment: Attachment, message: str) -> None:
        """The daemon could not be made ready; ``attachments.release`` gives the attachment back."""

    def ready(self, volume: Volume) -> None:
        """A new volume has its data; a launch may wait for it."""

    def failed(self, volume: Volume, message: str) -> None:
        """A new volume could not be made."""

    def reimaged(self, volume: Volume, message: str = "") -> None:
        """A volume that a server has was given the data of an image, or (``message``) it could not be."""

    def progressed(self, volume: Volume) -> None:
        """More bytes of an image are in a volume that is being made or written anew; nothing may be locked here."""

    def changed(self, volume: Volume) -> None:
        """Size, limits or connection of an attached volume are others now.

        Each guest's host is told (RefreshVolumeRequest); ``attachments.refreshed`` says when that is done.
        """

    def released(self, attachment: Attachment) -> None:
        """An operator has given the attachment back; its server has the volume no more, whatever its guest says."""

    def has(self, attachment: Attachment) -> bool:
        """Whether a server has the volume by this attachment; else ``instance_id`` is only what somebody said."""

    def is_building(self, attachment: Attachment) -> bool:
        """Whether a server is being built with the volume, or comes off its shelf: the end of that gives it back."""

    def swap(self, old: Attachment, new: Attachment) -> None:
        """Move a guest from one volume to another while it runs (SwapVolumeRequest).

        ``new`` is connected.  ``migrate.swapped`` says how it ended.
        """

    def working(self, attachment: Attachment) -> Sequence[HostCommand]:
        """Return what the guest's host was told of an attachment that a task of its volume waits for, and has not
        ended.
        """

    def is_swapping(self, new: Attachment) -> bool:
        """Whether a host was told to move a guest to ``new``, and has not reported how it ended: only the host knows
        which volume the guest writes to meanwhile.
        """


class Moves(Protocol):
    """The task that moves a volume's data into a hidden volume, whose ``migration_of`` is the first one.

    ``reason``: why the step failed; empty: it has succeeded.
    """

    def created(self, hidden: Volume, reason: str) -> None:
        """The hidden volume is there and empty."""

    def exported(self, volume: Volume, event: AgentEvent, body: ConnectVolumeRequest) -> bool:
        """The storage daemon of a volume has a new list of clients; False unless the hidden volume is one of them."""

    def connected(self, new: Attachment, reason: str) -> None:
        """The guest's host may open the hidden volume."""


USERS = Wired[VolumeUser]("The users of volumes")
MOVES = Wired[Moves]("The moves of volumes")
FILL = Wired[Callable[[Volume], None]]("The restores of backups")
"""Begins to fill a new volume from its backup: the empty volume is there, still ``creating``."""


def user() -> VolumeUser:
    return USERS.only()
