"""Who uses volumes: the service above registers here and is called back, inside the transaction of the change."""

from collections.abc import Callable, Sequence
from typing import Protocol

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


class Nobody:
    """Stands in while no service is registered: nobody waits."""

    def connected(self, attachment: Attachment, *, again: bool = False) -> None: ...
    def refused(self, attachment: Attachment, message: str) -> None: ...
    def ready(self, volume: Volume) -> None: ...
    def failed(self, volume: Volume, message: str) -> None: ...
    def reimaged(self, volume: Volume, message: str = "") -> None: ...
    def progressed(self, volume: Volume) -> None: ...
    def changed(self, volume: Volume) -> None: ...
    def released(self, attachment: Attachment) -> None: ...
    def swap(self, old: Attachment, new: Attachment) -> None: ...
    def working(self, attachment: Attachment) -> Sequence[HostCommand]:
        return ()

    def is_swapping(self, new: Attachment) -> bool:
        return False

    def has(self, attachment: Attachment) -> bool:
        return False

    def is_building(self, attachment: Attachment) -> bool:
        return False


_user: list[VolumeUser] = [Nobody()]
Restore = Callable[[Volume], None]
_restore: list[Restore] = []


def register(user: VolumeUser) -> None:
    """Call this one back from now on."""
    _user[0] = user


def user() -> VolumeUser:
    return _user[0]


def register_restore(work: Restore) -> None:
    """Fill new volumes that are made of a backup by this: called when the empty volume is there, still ``creating``."""
    _restore[:] = [work]


def restore(volume: Volume) -> bool:
    """Begin to fill a new volume from its backup; False when nobody can."""
    for work in _restore:
        work(volume)
    return bool(_restore)
