"""The contract every hypervisor driver keeps.  Its docstrings are the specification;
``tests/agent/test_driver_contract.py`` holds both drivers to it.

All methods are synchronous and are called from worker threads, several at once for different instances,
never two at once for the same instance.  Every method is idempotent: after a crash it is called again from the
start.
"""

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.contract.build import GuestDisk, InstanceSpec, PortRef, boot_volume
from compute_agent.contract.calls import Diagnostics
from compute_agent.contract.messages import Leftover
from compute_agent.contract.power import PowerState

Stopped = Callable[[], bool]
"""Asked now and then by long work: whether to stop before its end."""


def never() -> bool:
    """Never stop before the end."""
    return False


PowerListener = Callable[[str, PowerState], None]
"""Called with (instance uuid, new power state), from the driver's own event thread; must not block."""


@dataclass(frozen=True)
class HostCapacity:
    """What the hypervisor has and uses: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    memory_mb_used: int
    disk_gb_used: int
    vcpus_used: int
    running_vms: int
    hypervisor_type: str
    hypervisor_version: int
    cpu_info: dict[str, str] = field(default_factory=dict)
    """``arch model vendor sockets cores threads`` (of one NUMA node) and ``features`` with commas between."""
    architecture: str = "x86_64"
    uptime: str = ""  # as ``uptime`` prints it
    traits: tuple[str, ...] = ()
    """Names of os-traits of what guests can have here, sorted."""


@dataclass(frozen=True)
class Guest:
    """One guest that Novella made on this host.  ``attempt`` is the fencing number stored with it."""

    uuid: str
    attempt: int
    power_state: PowerState


@dataclass(frozen=True)
class BootFiles:
    """A kernel and a ramdisk in the image cache; None where there is none."""

    kernel: Path | None = None
    ramdisk: Path | None = None


@dataclass(frozen=True)
class ConsoleChunk:
    """Bytes of a console log, from offset ``start`` up to and without ``end``."""

    data: bytes
    start: int
    end: int


class ComputeDriver(abc.ABC):
    """What a host can do with guests."""

    @abc.abstractmethod
    def init_host(self) -> None:
        """Connect to the hypervisor and start listening to its events.

        Raises HypervisorUnavailableError.  Safe to call again after a lost connection.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Disconnect from the hypervisor; guests keep running."""

    @abc.abstractmethod
    def capacity(self) -> HostCapacity:
        """Measure the host.  Raises HypervisorUnavailableError."""

    @abc.abstractmethod
    def guests(self) -> list[Guest]:
        """List the guests that Novella made here, running or not.  Domains without Novella's mark are not listed and
        never touched.
        """

    @abc.abstractmethod
    def leftovers(self) -> list[Leftover]:
        """List what is here and is part of no guest of ``guests``: folders, disks and seeds without a domain, and by
        name the domains that Novella did not make.  Changes nothing; what comes or goes meanwhile may be among it.

        Raises HypervisorUnavailableError.
        """

    @abc.abstractmethod
    def has_disk(self, uuid: str) -> bool:
        """Return whether the instance's root disk is here, with or without a domain."""

    def needs_image(self, spec: InstanceSpec) -> bool:
        """Return whether ``create_disk`` is to be given the image's file; other machines may be asked."""
        return boot_volume(spec) is None

    @abc.abstractmethod
    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        """Make the root disk of the instance on top of the cached image ``base``, and its empty disks: those of
        ``spec.local_disks``, else the flavor's ephemeral and swap disks.

        A guest that boots from a volume gets no root disk.  Of a CD (``is_cd``) the root disk is empty, and ``base``
        goes into the CD-ROM drive, also of a guest that boots from a volume.  The root disk has
        ``spec.flavor.root_gb`` GiB, or the image's own size when that is 0.  An existing disk of the same instance is
        replaced, and a guest that runs on it powered off first; ``keep_ephemeral`` leaves empty disks that are there.
        Raises ImageUnacceptableError when the image is larger than the flavor's disk, RetryableHostError when the host
        has no room.  ``base`` is None for a driver whose image cache is a fake, and for a guest that boots from a
        volume.
        """

    @abc.abstractmethod
    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        """Put the kernel and the ramdisk that the guest boots beside its disks; those of an earlier image are removed.

        What ``spec`` names must be in ``files``, but for a driver whose image cache is a fake.
        """

    @abc.abstractmethod
    def create_seed(self, spec: InstanceSpec) -> None:
        """Make the config drive: NoCloud (``cidata``) and OpenStack ``config-2`` content with host name, key, network
        and user data.
        """

    @abc.abstractmethod
    def define(self, spec: InstanceSpec, attempt: int) -> None:
        """Define the guest's domain with its disks and volumes, stopped, marked as Novella's with ``attempt``.  An
        older definition of the same uuid is replaced.
        """

    @abc.abstractmethod
    def start(self, uuid: str) -> None:
        """Start a defined guest.  A running one is left alone.  Raises InstanceNotFoundError, RetryableHostError."""

    @abc.abstractmethod
    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        """Wait until the hypervisor has said that the guest runs, at most ``timeout`` seconds; woken by its events, not
        by polling.

        Raises RetryableHostError when the guest died or did not run in time.
        """

    @abc.abstractmethod
    def stop(self, uuid: str, timeout: float) -> None:
        """Ask the guest to shut down, and power it off after ``timeout`` seconds.  A stopped guest is left alone."""

    @abc.abstractmethod
    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        """Reboot: soft asks the guest and falls back to hard after ``timeout`` seconds; hard destroys and starts the
        domain.
        """

    @abc.abstractmethod
    def destroy(self, uuid: str) -> None:
        """Power the guest off and remove its domain, disks, seed, sockets and logs; volumes are let go of and stay.
        Succeeds when there is nothing left.
        """

    @abc.abstractmethod
    def power_state(self, uuid: str) -> PowerState:
        """Return the guest's power state as the hypervisor has it now.  Raises InstanceNotFoundError."""

    @abc.abstractmethod
    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        """Read the console log: the last ``max_bytes`` when ``offset`` is None, else at most ``max_bytes`` from
        ``offset``.

        Raises InstanceNotFoundError when there is no such guest; an empty chunk when it has written nothing.
        """

    @abc.abstractmethod
    def pause(self, uuid: str) -> None:
        """Stop the guest's processors; it stays in memory.  A paused guest is left alone.  Raises
        InstanceNotFoundError, UnsupportedError when it does not run.
        """

    @abc.abstractmethod
    def unpause(self, uuid: str) -> None:
        """Let a paused guest go on.  A running one is left alone."""

    @abc.abstractmethod
    def suspend(self, uuid: str) -> None:
        """Save the guest's memory to disk and power it off.  A stopped guest is left alone."""

    @abc.abstractmethod
    def resume(self, uuid: str) -> None:
        """Start the guest from its saved memory, or from its disk when there is none."""

    @abc.abstractmethod
    def crash_dump(self, uuid: str) -> None:
        """Send the guest a non-maskable interrupt.  Raises UnsupportedError when it does not run."""

    @abc.abstractmethod
    def set_password(self, uuid: str, user: str, password: str) -> None:
        """Set a user's password by the agent inside the guest.  Raises UnsupportedError when no agent answers."""

    @abc.abstractmethod
    def trim(self, uuid: str, timeout: float) -> None:
        """Have the agent inside the guest discard the blocks that its mounted file systems do not use; the host's files
        shrink.  Raises UnsupportedError when no agent answers within ``timeout`` seconds.
        """

    @abc.abstractmethod
    def diagnostics(self, uuid: str) -> Diagnostics:
        """Return the guest's counters.  Raises InstanceNotFoundError."""

    @abc.abstractmethod
    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        """Define the stopped guest anew so that it boots from a fresh disk over ``base``, and ``files`` where
        ``spec.rescue`` names them, with its own root disk as the second one.

        It has a seed of its own meanwhile.  A guest that is rescued already gets another fresh disk.  Raises
        InstanceNotFoundError for a guest without a disk, RetryableHostError without room.
        """

    @abc.abstractmethod
    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        """Define the guest as it was before ``rescue``, stopped, and remove what that made; repeated, it changes
        nothing more.
        """

    @abc.abstractmethod
    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        """Define the stopped guest with the size of ``spec.flavor``: its root disk grows on a copy, the one before is
        kept for ``revert_resize``.  Raises ImageUnacceptableError for a smaller disk, RetryableHostError without room.
        """

    @abc.abstractmethod
    def confirm_resize(self, uuid: str) -> None:
        """Remove what ``resize`` kept; succeeds when there is nothing."""

    @abc.abstractmethod
    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        """Give the stopped guest the size of ``spec.flavor`` and the disk that ``resize`` kept."""

    @abc.abstractmethod
    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        """Write a consistent copy of the root disk as a whole image of ``disk_format`` (qcow2 or raw) to ``target``,
        whether the guest runs, is paused or is off; a running guest keeps running.  What is there is replaced.

        Raises StoppedError when ``stopped`` returns True before the end, RetryableHostError without room; then there is
        no file.
        """

    @abc.abstractmethod
    def uefi_variables(self, uuid: str) -> bytes | None:
        """Return the variables of the guest's UEFI firmware, whether it runs or not; None for a guest without.

        A guest whose image has the property ``uefi_variables.PROPERTY`` begins with these where they fit the firmware.
        Raises InstanceNotFoundError.
        """

    @abc.abstractmethod
    def frozen(self, uuid: str) -> AbstractContextManager[None]:
        """Hold the file systems of a running guest still for the time of the block, where an agent inside the guest
        can; nothing is done to any other guest.
        """

    @abc.abstractmethod
    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Plug the interface of ``port`` into the guest, running or not; one that is there is left alone.

        Raises InstanceNotFoundError.
        """

    @abc.abstractmethod
    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Take the interface of ``port`` from the guest; one that is gone already is fine, and so is a guest that is
        gone.

        A guest that runs has to let go of it: RetryableHostError when it does not, and UnsupportedError when it is
        paused; it has the interface then.
        """

    @abc.abstractmethod
    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        """Give the guest the volume as a disk, running or not; one that it has is left alone.

        Raises InstanceNotFoundError; UnsupportedError for a bus on which a running guest takes no disks, and for a
        guest that is suspended.
        """

    @abc.abstractmethod
    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        """Take the volume from the guest; one that is gone already is fine, and so is a guest that is gone.

        A guest that runs has to let go of it: RetryableHostError when it does not, UnsupportedError when it is paused
        or suspended; it has the volume then.  With ``force`` the volume is closed in any case, and the guest sees
        errors of its disk; the saved memory of a suspended guest is lost.
        """

    @abc.abstractmethod
    def refresh_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        """Bring the guest's disk to the connection, size and limits of ``disk``; a running guest goes on meanwhile.

        Raises InstanceNotFoundError, RetryableHostError when the guest does not have the volume.
        """

    @abc.abstractmethod
    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        """Copy what ``old`` has to ``new``, of the same size, while the guest runs, and let it go on with that one.

        They may be two attachments of one volume, whose data moves.  Nothing when it is on ``new`` already.  Raises
        StoppedError when ``stopped`` returns True before the end, UnsupportedError for a guest that is off,
        RetryableHostError; the guest goes on with ``old`` then.
        """

    @abc.abstractmethod
    def volumes(self) -> dict[str, list[str]]:
        """Return the ids of the volumes that each guest of ``guests`` has, by the guest's uuid: a guest that is on has
        what it runs with, another one what it is defined with.
        """

    @abc.abstractmethod
    def attachments(self) -> dict[str, dict[str, str]]:
        """Return the attachment by which each guest of ``guests`` has each of its volumes, by the guest's uuid and the
        volume's id; those that are not known are left out.
        """

    @abc.abstractmethod
    def interfaces(self) -> dict[str, list[str]]:
        """Return the MAC addresses of the interfaces that each guest of ``guests`` has, by the guest's uuid: a guest
        that is on has what it runs with, another one what it is defined with.
        """

    @abc.abstractmethod
    def open_exports(self) -> set[str]:
        """Return the names of the exports that guests which are on have as disks, and those that a disk is being copied
        to.
        """

    @abc.abstractmethod
    def go_on_after_error(self, uuid: str) -> bool:
        """Let a guest go on that was paused because a volume could not be reached, when all its volumes that failed can
        be reached again; return whether it goes on.  Other guests, and those that are not here, are left alone.
        """

    @abc.abstractmethod
    def console_socket(self, uuid: str, protocol: str) -> Path:
        """Return the UNIX socket of the guest's screen (``vnc``) or first serial line (``serial``).  Raises
        InstanceNotFoundError, UnsupportedError when there is none.
        """

    @abc.abstractmethod
    def on_power_change(self, listener: PowerListener) -> None:
        """Register the one listener that is called for every power change of Novella's guests."""
