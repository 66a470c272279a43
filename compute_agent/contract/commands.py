"""Commands: what the portal may want of a host for one subject.  Durable, ordered per subject, repeatable.

Each is carried out again from its start when the agent dies in it, so every command must succeed on what an unfinished
run of itself has left.
"""

from typing import Literal

from compute_agent.contract.base import Message
from compute_agent.contract.build import FlavorRef, GuestDisk, InstanceSpec, PortRef, image_refs
from compute_agent.contract.network import DocumentRequest
from compute_agent.contract.volume import CreateVolumeRequest, ReimageVolumeRequest, VolumeCommand


class BuildRequest(Message, frozen=True):
    """Make the guest and start it.  Idempotent: a guest of this uuid and attempt that already runs is reported as
    built.
    """

    instance: InstanceSpec


class DestroyRequest(Message, frozen=True):
    """Stop the guest and remove its domain, disks, seed, taps, leases and filters.  Succeeds when there is nothing left
    to remove.
    """


class PowerRequest(Message, frozen=True):
    """Change the power state of an existing guest.

    ``pause`` keeps the guest in memory, ``suspend`` saves it to disk.
    """

    action: Literal["start", "stop", "reboot_soft", "reboot_hard", "pause", "unpause", "suspend", "resume"]
    timeout: int = 60  # s, for a graceful stop before it is forced


class CrashDumpRequest(Message, frozen=True):
    """Make the guest's kernel panic (NMI), so that it dumps itself."""


class PasswordRequest(Message, frozen=True):
    """Set a password inside the guest, through its agent; the guest must run."""

    user: str
    password: str


class TrimRequest(Message, frozen=True):
    """Let the guest's agent give the blocks that its file systems do not use back to the host; the guest must run."""

    timeout: int = 120  # s, for the agent's answer


class RescueRequest(Message, frozen=True):
    """Start the guest from ``instance.rescue``, with its own root disk as the second disk.  The disk made for it is
    thrown away by ``UnrescueRequest``.

    ``ran``: the guest is started again when it cannot be rescued.
    """

    instance: InstanceSpec
    ran: bool = True
    timeout: int = 60  # s, for a graceful stop before it is forced


class UnrescueRequest(Message, frozen=True):
    """Start the guest from its own disk again."""

    instance: InstanceSpec
    timeout: int = 60  # s, for a graceful stop before it is forced


class RebuildRequest(Message, frozen=True):
    """Make the guest's disks and seed anew from ``instance.image``; the interfaces stay.  ``start``: and start it."""

    instance: InstanceSpec
    start: bool = True
    preserve_ephemeral: bool = False


class ResizeRequest(Message, frozen=True):
    """Give the guest the size of ``instance.flavor``, on this host; the root disk before stays aside until the confirm
    or the revert.  ``start``: and start it.

    When it fails the guest has the size ``old_flavor`` again and runs if ``start``.
    """

    instance: InstanceSpec
    old_flavor: FlavorRef
    start: bool = True
    timeout: int = 60  # s, for a graceful stop before it is forced


class ConfirmResizeRequest(Message, frozen=True):
    """Throw away what was kept to revert a resize."""


class RevertResizeRequest(Message, frozen=True):
    """Give the guest back the size of ``instance.flavor`` and the disk it had.  ``start``: and start it."""

    instance: InstanceSpec
    start: bool = True


VARIABLES = "uefi_variables"


class SnapshotRequest(Message, frozen=True):
    """Send a consistent copy of the guest's root disk to the portal as the data of an image.

    ``stop``: the guest is stopped first, gracefully within ``timeout`` seconds, and stays so.  ``finished`` has
    ``detail[VARIABLES]`` for a guest with UEFI: its variables, packed for a property of the image.
    """

    image_id: str
    disk_format: str = "qcow2"
    stop: bool = False
    timeout: int = 60


class AttachInterfaceRequest(Message, frozen=True):
    """Plug one more interface into the guest, running or not; ``instance`` is the guest with it."""

    instance: InstanceSpec
    port: PortRef


class DetachInterfaceRequest(Message, frozen=True):
    """Take an interface from the guest, running or not; ``instance`` is the guest without it."""

    instance: InstanceSpec
    port: PortRef


class RefreshPortsRequest(Message, frozen=True):
    """Bring the filters, leases and addresses of the guest's interfaces to what ``instance`` says."""

    instance: InstanceSpec


class AttachVolumeRequest(Message, frozen=True):
    """Give the guest, running or not, the disk; ``instance`` is the guest with it."""

    instance: InstanceSpec
    disk: GuestDisk


class DetachVolumeRequest(Message, frozen=True):
    """Take the disk from the guest, running or not; ``instance`` is the guest without it.

    A guest that does not let go keeps it (``retryable``); with ``force`` it is taken away all the same, and the guest
    sees errors.
    """

    instance: InstanceSpec
    disk: GuestDisk
    force: bool = False


class RefreshVolumeRequest(Message, frozen=True):
    """Bring a disk of the guest to its connection, size and limits as ``disk`` says; the guest goes on meanwhile."""

    instance: InstanceSpec
    disk: GuestDisk


class SwapVolumeRequest(Message, frozen=True):
    """Copy a disk of the guest to another volume while it runs, and let the guest go on with that one.

    ``instance`` is the guest with ``new`` in the place of ``old``; a failure leaves it with ``old``.
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
    | RescueRequest
    | UnrescueRequest
    | RebuildRequest
    | ResizeRequest
    | ConfirmResizeRequest
    | RevertResizeRequest
    | SnapshotRequest
    | AttachInterfaceRequest
    | DetachInterfaceRequest
    | RefreshPortsRequest
    | AttachVolumeRequest
    | DetachVolumeRequest
    | RefreshVolumeRequest
    | SwapVolumeRequest
    | DocumentRequest
    | VolumeCommand
)


def spec_of(body: CommandBody) -> InstanceSpec | None:
    """Return what the guest is made of once the command is carried out; None when the command does not change it."""
    return getattr(body, "instance", None)


def images_of(body: CommandBody) -> set[str]:
    """Return the ids of the images whose bits the command needs."""
    if isinstance(body, BuildRequest | RebuildRequest | RescueRequest):
        return {image.id for image in image_refs(body.instance)}
    if isinstance(body, CreateVolumeRequest) and body.source.image is not None:
        return {body.source.image.id}
    if isinstance(body, ReimageVolumeRequest):
        return {body.image.id}
    return set()
