"""Commands to a host about one subject: durable, ordered for each subject, and repeatable.

If the agent dies, a command is repeated from the start. Therefore every command must succeed after an unfinished run of
the same command.
"""

from typing import ClassVar, Literal

from compute_agent.contract.base import Message
from compute_agent.contract.build import FlavorRef, GuestDisk, InstanceSpec, PortRef, image_refs
from compute_agent.contract.guest_disks import ExtendFileSystemRequest, MountDiskRequest
from compute_agent.contract.migration import KeepLiveRequest, ReceiveLiveRequest, SendLiveRequest
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.network import DocumentRequest
from compute_agent.contract.volume import CreateVolumeRequest, ReimageVolumeRequest, VolumeCommand

FIRMWARE_STATES = 5
"""The first version of the contract whose agents send and restore firmware states."""


class BuildRequest(Message, frozen=True):
    """Build the guest, and start it unless ``start`` is False.

    Idempotent: a running guest with this UUID and attempt is reported as built.
    """

    instance: InstanceSpec
    firmware_state: str = ""  # SHA-256 of the packed state at the portal, with which the guest starts; empty: none
    start: bool = True
    take_root: bool = False  # use the root disk that the guest has in the host's pool, instead of creating one

    def needed_version(self) -> int:
        return FIRMWARE_STATES if self.firmware_state or not self.start else self.since


class DestroyRequest(Message, frozen=True):
    """Stop the guest and remove its domain, disks, seed, taps, leases and filters. Succeeds if nothing is left.

    ``keep_root``: the server is on another host, so a root disk in a pool is closed and kept.
    """

    keep_root: bool = False


class PowerRequest(Message, frozen=True):
    """Change the power state of an existing guest.

    ``pause`` keeps the guest in memory, ``suspend`` saves it to disk.
    """

    action: Literal["start", "stop", "reboot_soft", "reboot_hard", "pause", "unpause", "suspend", "resume"]
    timeout: int = 60  # s, for a graceful stop before it is forced


class CrashDumpRequest(Message, frozen=True):
    """Send an NMI, so that the guest's kernel panics and dumps itself."""


class PasswordRequest(Message, frozen=True):
    """Set a password in the guest through its guest agent. The guest must run."""

    user: str
    password: str


class TrimRequest(Message, frozen=True):
    """Let the guest agent discard the blocks that the guest's file systems do not use. The guest must run."""

    timeout: int = 120  # s, for the guest agent's answer


class RescueRequest(Message, frozen=True):
    """Start the guest from ``instance.rescue``, with its own root disk as the second disk. ``UnrescueRequest`` removes
    the rescue disk.

    ``ran``: start the guest again if the rescue fails.
    """

    instance: InstanceSpec
    ran: bool = True
    timeout: int = 60  # s, for a graceful stop before it is forced


class UnrescueRequest(Message, frozen=True):
    """Start the guest from its own disk again."""

    instance: InstanceSpec
    timeout: int = 60  # s, for a graceful stop before it is forced


class RebuildRequest(Message, frozen=True):
    """Create the guest's disks and seed again from ``instance.image``, keeping its interfaces. ``start``: start the
    guest afterwards.
    """

    instance: InstanceSpec
    start: bool = True
    preserve_ephemeral: bool = False


class ResizeRequest(Message, frozen=True):
    """Resize the guest to ``instance.flavor`` on this host, and keep the previous root disk until the resize is
    confirmed or reverted. ``start``: start the guest afterwards.

    After a failure the guest has the flavor ``old_flavor`` again, and runs if ``start`` is set.
    """

    instance: InstanceSpec
    old_flavor: FlavorRef
    start: bool = True
    timeout: int = 60  # s, for a graceful stop before it is forced


class ConfirmResizeRequest(Message, frozen=True):
    """Remove the data that was kept to revert a resize."""


class RevertResizeRequest(Message, frozen=True):
    """Restore the flavor ``instance.flavor`` and the previous disk. ``start``: start the guest afterwards."""

    instance: InstanceSpec
    start: bool = True


MOVES = 5
"""The first version of the contract whose agents move guests to other hosts."""


class SendGuestRequest(Message, frozen=True):
    """Stop the guest, and export its disks to the host with the id ``target`` until the guest is started, moved or
    removed here.

    ``finished`` has ``detail[moves.ORIGIN]``, the JSON of a ``GuestOrigin`` without address. ``firmware_state``: send
    the stopped guest's firmware state to the portal. After a failure the guest may be stopped (``ReturnGuestRequest``).
    """

    since: ClassVar[int] = MOVES

    target: str
    timeout: int = 60  # s, for a graceful stop before it is forced
    firmware_state: bool = False


class ReceiveGuestRequest(Message, frozen=True):
    """Create the guest with disks copied from ``origin``, and start it unless ``start`` is False.

    The root disk and the empty disks are extended to the size of the flavor. After a failure nothing is left here.
    """

    since: ClassVar[int] = MOVES

    instance: InstanceSpec
    origin: GuestOrigin
    firmware_state: str = ""  # as BuildRequest
    start: bool = True


class ReturnGuestRequest(Message, frozen=True):
    """End the exports of ``SendGuestRequest``, and define the guest again from its disks on this host. ``start``: start
    the guest afterwards. A guest that runs is unchanged.
    """

    since: ClassVar[int] = MOVES

    instance: InstanceSpec
    start: bool = True


VARIABLES = "uefi_variables"


class SnapshotRequest(Message, frozen=True):
    """Send a consistent copy of the guest's root disk to the portal as the data of an image; without ``image_id``, only
    stop the guest.

    ``stop``: the guest is stopped first, gracefully within ``timeout`` seconds, and stays stopped. ``firmware_state``:
    send the stopped guest's firmware state to the portal as well. Otherwise the event ``finished`` of a guest with UEFI
    contains the guest's variables in ``detail[VARIABLES]``, as a property of the image.
    """

    image_id: str
    disk_format: str = "qcow2"
    stop: bool = False
    timeout: int = 60
    firmware_state: bool = False

    def needed_version(self) -> int:
        return FIRMWARE_STATES if self.firmware_state or not self.image_id else self.since


class AttachInterfaceRequest(Message, frozen=True):
    """Attach an interface to the guest, running or not. ``instance`` is the guest's spec with the interface."""

    instance: InstanceSpec
    port: PortRef


class DetachInterfaceRequest(Message, frozen=True):
    """Detach an interface from the guest, running or not. ``instance`` is the guest's spec without the interface."""

    instance: InstanceSpec
    port: PortRef


class RefreshPortsRequest(Message, frozen=True):
    """Update the filters, leases and addresses of the guest's interfaces to those of ``instance``."""

    instance: InstanceSpec


class AttachVolumeRequest(Message, frozen=True):
    """Attach the disk to the guest, running or not. ``instance`` is the guest's spec with the disk."""

    instance: InstanceSpec
    disk: GuestDisk


class DetachVolumeRequest(Message, frozen=True):
    """Detach the disk from the guest, running or not. ``instance`` is the guest's spec without the disk.

    A guest that does not release the disk keeps it, and the command fails (``retryable``). With ``force`` the disk is
    removed in any case, and the guest gets I/O errors.
    """

    instance: InstanceSpec
    disk: GuestDisk
    force: bool = False


class RefreshVolumeRequest(Message, frozen=True):
    """Update connection, size and limits of a guest's disk to those of ``disk``, while the guest runs."""

    instance: InstanceSpec
    disk: GuestDisk


class SwapVolumeRequest(Message, frozen=True):
    """Copy a disk of the running guest to another volume, and switch the guest to that volume.

    ``instance`` is the guest's spec with ``new`` instead of ``old``. After a failure the guest still has ``old``.
    """

    instance: InstanceSpec
    old: GuestDisk
    new: GuestDisk


CommandBody = (
    BuildRequest
    | DestroyRequest
    | PowerRequest
    | CrashDumpRequest
    | PasswordRequest
    | TrimRequest
    | MountDiskRequest
    | ExtendFileSystemRequest
    | RescueRequest
    | UnrescueRequest
    | RebuildRequest
    | ResizeRequest
    | ConfirmResizeRequest
    | RevertResizeRequest
    | SendGuestRequest
    | ReceiveGuestRequest
    | ReturnGuestRequest
    | SnapshotRequest
    | AttachInterfaceRequest
    | DetachInterfaceRequest
    | RefreshPortsRequest
    | AttachVolumeRequest
    | DetachVolumeRequest
    | RefreshVolumeRequest
    | SwapVolumeRequest
    | ReceiveLiveRequest
    | SendLiveRequest
    | KeepLiveRequest
    | DocumentRequest
    | VolumeCommand
)


def spec_of(body: CommandBody) -> InstanceSpec | None:
    """Return the guest's spec after the command; None if the command does not change it."""
    return getattr(body, "instance", None)


def images_of(body: CommandBody) -> set[str]:
    """Return the ids of the images whose data the command needs."""
    if isinstance(body, BuildRequest | ReceiveGuestRequest | ReceiveLiveRequest | RebuildRequest | RescueRequest):
        return {image.id for image in image_refs(body.instance)}
    if isinstance(body, CreateVolumeRequest) and body.source.image is not None:
        return {body.source.image.id}
    if isinstance(body, ReimageVolumeRequest):
        return {body.image.id}
    return set()
