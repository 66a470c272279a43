"""The contract of every hypervisor driver. Its docstrings are the specification;
``tests/agent/test_driver_contract.py`` tests both drivers against it.

All methods are synchronous and are called from worker threads, simultaneously for different instances, but never for
the same instance. Every method is idempotent: after a crash it is called again from the start.
"""

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.contract.build import GuestDisk, InstanceSpec, PortRef, boot_volume
from compute_agent.contract.calls import Diagnostics, FileSystem
from compute_agent.contract.cpu import Cpu
from compute_agent.contract.firmware_state import FirmwareKind, FirmwareState
from compute_agent.contract.messages import Leftover
from compute_agent.contract.moves import GuestOrigin, SentDisk
from compute_agent.contract.power import PowerState
from compute_agent.virt.guest_disks import GuestDisks
from compute_agent.virt.live_migration import Arrival, Departure, MigrationOptions, Whereabouts

Stopped = Callable[[], bool]
"""Called periodically by long operations. Returns whether to stop early."""


def never() -> bool:
    """Never stop early."""
    return False


PowerListener = Callable[[str, PowerState], None]
"""Called with (instance uuid, new power state), from the driver's own event thread; must not block."""


@dataclass(frozen=True)
class HostCapacity:
    """Capacity and usage of the hypervisor: memory in MiB, disk in GiB."""

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
    """``arch model vendor sockets cores threads`` (of one NUMA node) and comma-separated ``features``."""
    architecture: str = "x86_64"
    uptime: str = ""  # in the format of ``uptime``
    traits: tuple[str, ...] = ()
    """The features that this host offers to guests, as names of os-traits, sorted."""
    guest_cpu: Cpu | None = None
    """The processor that the host can offer to guests, with all its features; None: not reported by the hypervisor."""


Values = tuple[float | None, ...]
"""One value for each series of ``contract.samples``; None: unknown."""


@dataclass(frozen=True)
class HostUsage:
    """Usage of the host and its running guests: current values, and counters since an arbitrary start. ``cpu`` counts
    seconds of processor time; other counters count bytes, requests or packets. ``guests``: values by uuid.
    """

    host: Values
    guests: dict[str, Values]


@dataclass(frozen=True)
class Guest:
    """One guest of Novella on this host. ``attempt`` is the fencing number stored with it."""

    uuid: str
    attempt: int
    power_state: PowerState


@dataclass(frozen=True)
class BootFiles:
    """The paths of a kernel and a ramdisk in the image cache; None if the guest boots without the file."""

    kernel: Path | None = None
    ramdisk: Path | None = None


@dataclass(frozen=True)
class ConsoleChunk:
    """Bytes of a console log, from offset ``start`` to before ``end``."""

    data: bytes
    start: int
    end: int


Fetch = Callable[[SentDisk, Path, str], None]
"""Copies a disk of another host into a file with this path and format (``raw``, ``qcow2``). A file that an earlier
process has copied is completed if it belongs to the same move, and replaced otherwise.
"""


@dataclass(frozen=True)
class SentFile:
    """A disk of a stopped guest: its name (``contract.moves``) and its file, which QEMU opens."""

    name: str
    path: Path


@dataclass(frozen=True)
class SentGuest:
    """The disks of a stopped guest. ``base`` is the cached image that the root disk's file is based on."""

    files: tuple[SentFile, ...] = ()
    base: Path | None = None
    root_pool: str = ""
    """Id of the pool with the root disk, which is closed; empty: the root disk is a file, or a volume."""


class ComputeDriver(GuestDisks, abc.ABC):
    """Operations of a host on guests."""

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
    def usage(self) -> HostUsage:
        """Read counters of the host and of its running guests, with one request to the hypervisor that waits for no
        guest. A guest that is busy may be left out.

        Raises HypervisorUnavailableError.
        """

    @abc.abstractmethod
    def guests(self) -> list[Guest]:
        """List the guests of Novella on this host, running or not.

        Domains without Novella's mark are neither listed nor changed.
        """

    @abc.abstractmethod
    def leftovers(self) -> list[Leftover]:
        """List resources that do not belong to a guest of ``guests``: directories, disks and seeds without a domain,
        and the names of domains that are not Novella's.

        Nothing is changed. Resources that are being created or deleted may be listed. Raises
        HypervisorUnavailableError.
        """

    @abc.abstractmethod
    def has_disk(self, uuid: str) -> bool:
        """Return whether the instance's root disk exists, with or without a domain."""

    def needs_image(self, spec: InstanceSpec) -> bool:
        """Return whether ``create_disk`` needs the image's file. May query the storage on other hosts."""
        return boot_volume(spec) is None

    @abc.abstractmethod
    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        """Create the root disk of the instance over the cached image ``base``, and its empty disks: those of
        ``spec.local_disks``, or else the flavor's ephemeral and swap disks.

        A guest that boots from a volume gets no root disk. For a CD (``is_cd``) the root disk is empty, and ``base`` is
        in the CD-ROM drive, even if the guest boots from a volume. The root disk has ``spec.flavor.root_gb`` GiB, or
        the image's own size if ``root_gb`` is 0. An existing disk of the instance is replaced, after its guest is
        powered off; ``keep_ephemeral`` keeps existing empty disks. ``base`` is None for a driver with a fake image
        cache, and for a guest that boots from a volume. Raises ImageUnacceptableError if the image is larger than the
        flavor's disk, RetryableHostError if the host lacks space.
        """

    @abc.abstractmethod
    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        """Store the kernel and the ramdisk of the guest next to its disks, and remove those of an earlier image.

        ``files`` must contain each file that ``spec`` names, except for a driver with a fake image cache.
        """

    @abc.abstractmethod
    def create_seed(self, spec: InstanceSpec) -> None:
        """Create the config drive: NoCloud (``cidata``) and OpenStack ``config-2`` content with host name, key, network
        and user data.
        """

    @abc.abstractmethod
    def define(self, spec: InstanceSpec, attempt: int) -> None:
        """Define the guest's domain with its disks and volumes, stopped, marked as Novella's with ``attempt``.  An
        older definition of the same uuid is replaced.
        """

    @abc.abstractmethod
    def start(self, uuid: str) -> None:
        """Start a defined guest; a running one is unchanged. Raises InstanceNotFoundError, RetryableHostError."""

    @abc.abstractmethod
    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        """Wait until the hypervisor reports that the guest runs, for at most ``timeout`` seconds. Uses events, not
        polling.

        Raises RetryableHostError if the guest died or did not run in time.
        """

    @abc.abstractmethod
    def stop(self, uuid: str, timeout: float) -> None:
        """Ask the guest to shut down, and power it off after ``timeout`` seconds. A stopped guest is unchanged."""

    @abc.abstractmethod
    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        """Reboot the guest. A soft reboot asks the guest, and becomes a hard one after ``timeout`` seconds. A hard
        reboot destroys and starts the domain.
        """

    @abc.abstractmethod
    def destroy(self, uuid: str) -> None:
        """Power the guest off and remove its domain, disks, seed, sockets and logs; volumes are detached and kept.

        Succeeds if nothing is left.
        """

    def leave(self, uuid: str) -> None:
        """Remove the guest as ``destroy`` does, but keep its root disk in a pool, for the host that the guest is on."""
        self.destroy(uuid)

    def adopt_disks(self, spec: InstanceSpec, base: Path | None) -> bool:
        """Create the guest's disks as ``create_disk`` does, around the root disk that it had in a pool on another host;
        that host can no longer open it. Return False, with nothing created, if there is no such disk.
        """
        return False

    def restore_left_disk(self, uuid: str) -> None:
        """Acquire a root disk in a pool again from the host to which the guest has moved, with the data that it had
        before the move.
        """
        return

    @abc.abstractmethod
    def power_state(self, uuid: str) -> PowerState:
        """Return the guest's current power state. Raises InstanceNotFoundError."""

    @abc.abstractmethod
    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        """Read the console log: the last ``max_bytes`` if ``offset`` is None, else at most ``max_bytes`` from
        ``offset``.

        Raises InstanceNotFoundError for an unknown guest; returns an empty chunk if it has written nothing.
        """

    @abc.abstractmethod
    def pause(self, uuid: str) -> None:
        """Pause the guest's vCPUs; its memory is kept.

        A paused guest is unchanged. Raises InstanceNotFoundError, UnsupportedError if the guest does not run.
        """

    @abc.abstractmethod
    def unpause(self, uuid: str) -> None:
        """Resume a paused guest. A running one is unchanged."""

    @abc.abstractmethod
    def suspend(self, uuid: str) -> None:
        """Save the guest's memory to disk and power it off. A stopped guest is unchanged."""

    @abc.abstractmethod
    def resume(self, uuid: str) -> None:
        """Start the guest from its saved memory, or from its disk if no memory is saved."""

    @abc.abstractmethod
    def crash_dump(self, uuid: str) -> None:
        """Send the guest a non-maskable interrupt. Raises UnsupportedError if the guest does not run."""

    @abc.abstractmethod
    def set_password(self, uuid: str, user: str, password: str) -> None:
        """Set a user's password through the guest agent. Raises UnsupportedError if no agent answers."""

    @abc.abstractmethod
    def trim(self, uuid: str, timeout: float) -> None:
        """Discard, through the guest agent, the blocks that mounted file systems do not use; the host's files shrink.

        Raises UnsupportedError if no agent answers within ``timeout`` seconds.
        """

    @abc.abstractmethod
    def file_systems(self, uuid: str, timeout: float) -> list[FileSystem]:
        """Return the mounted file systems, as the guest agent reports them; untrusted and bounded.

        Raises UnsupportedError if no agent answers within ``timeout`` seconds.
        """

    @abc.abstractmethod
    def diagnostics(self, uuid: str) -> Diagnostics:
        """Return the guest's counters.  Raises InstanceNotFoundError."""

    @abc.abstractmethod
    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        """Redefine the stopped guest to boot from a new disk over ``base``, with the ``files`` of ``spec.rescue``. Its
        own root disk becomes the second disk.

        The guest has a separate seed until ``unrescue``. A guest that is already rescued gets another new disk. Raises
        InstanceNotFoundError for a guest without a disk, RetryableHostError if the host lacks space.
        """

    @abc.abstractmethod
    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        """Restore the definition from before ``rescue``, without starting the guest, and remove the files of the
        rescue. Idempotent.
        """

    @abc.abstractmethod
    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        """Redefine the stopped guest with the size of ``spec.flavor``. The root disk is extended, and its previous
        content and size are kept for ``revert_resize``. Raises ImageUnacceptableError if the new disk is smaller,
        RetryableHostError if the host lacks space.
        """

    @abc.abstractmethod
    def confirm_resize(self, uuid: str) -> None:
        """Remove the files kept by ``resize``; succeeds if there are none."""

    @abc.abstractmethod
    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        """Redefine the stopped guest with the size of ``spec.flavor`` and the disk that ``resize`` kept."""

    def check_may_leave(self, uuid: str) -> None:
        """Raise UnsupportedError for a guest whose disks cannot move to another host, before it is stopped for that."""

    @abc.abstractmethod
    def disks_to_send(self, uuid: str) -> SentGuest:
        """Return the files of a stopped guest's disks that another host needs to run the guest.

        Raises InstanceNotFoundError, UnsupportedError if the guest runs, or if a disk cannot move.
        """

    @abc.abstractmethod
    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        """Create the guest's disks from those of ``origin``, instead of ``create_disk``; existing disks are replaced.

        ``base`` is the cached image; the root disk becomes an overlay on it if the origin's is based on the same image,
        otherwise it is complete in itself. Disks of the origin are extended to the size of the flavor, and never
        shrunk; missing ones are created empty. Raises ImageUnacceptableError for a root disk that is larger than the
        flavor's, or whose file refers to other files than ``base``; RetryableHostError if the host lacks space; and the
        errors of ``fetch``.
        """

    @abc.abstractmethod
    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        """Write a consistent copy of the root disk as a complete image of ``disk_format`` (qcow2 or raw) to ``target``,
        for a running, paused or stopped guest.

        A running guest keeps running. An existing file is replaced. Raises StoppedError if ``stopped`` returns True
        before the end, RetryableHostError if the host lacks space; ``target`` does not exist then.
        """

    @abc.abstractmethod
    def uefi_variables(self, uuid: str) -> dict[FirmwareKind, bytes]:
        """Return the variables of the guest's UEFI firmware, as in ``FirmwareState``, whether the guest runs or not;
        empty for a guest without UEFI.

        If the guest's image has the property ``firmware_state.PROPERTY``, the guest starts with the variables in it,
        provided that they fit the firmware. Raises InstanceNotFoundError.
        """

    @abc.abstractmethod
    def firmware_state(self, uuid: str) -> FirmwareState:
        """Return the variables and the TPM of a stopped guest.

        Raises InstanceNotFoundError, UnsupportedError if the guest runs.
        """

    @abc.abstractmethod
    def restore_firmware(self, uuid: str, state: FirmwareState) -> None:
        """Store the state with which the guest starts. Call it before ``define``; an existing state is replaced.

        Raises RetryableHostError if the host lacks space.
        """

    @abc.abstractmethod
    def frozen(self, uuid: str) -> AbstractContextManager[None]:
        """Freeze the file systems of a running guest while the block runs, if its guest agent can. Has no effect
        otherwise.
        """

    @abc.abstractmethod
    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Attach the interface of ``port`` to the guest, running or not. An attached interface is unchanged.

        Raises InstanceNotFoundError.
        """

    @abc.abstractmethod
    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Detach the interface of ``port`` from the guest. A missing interface or guest is ignored.

        A running guest has to release the interface. If it does not, RetryableHostError is raised, or UnsupportedError
        if the guest is paused; the guest then keeps the interface.
        """

    @abc.abstractmethod
    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        """Attach the volume to the guest as a disk, running or not. An attached volume is unchanged.

        Raises InstanceNotFoundError; UnsupportedError for a bus without hot-plug on a running guest, and for a
        suspended guest.
        """

    @abc.abstractmethod
    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        """Detach the volume from the guest. A missing volume or guest is ignored.

        A running guest has to release the volume. If it does not, RetryableHostError is raised, or UnsupportedError if
        the guest is paused or suspended; the guest then keeps the volume. With ``force`` the volume is closed in any
        case, and the guest gets I/O errors; the saved memory of a suspended guest is lost.
        """

    @abc.abstractmethod
    def refresh_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        """Update the guest's disk to the connection, size and limits of ``disk``; a running guest keeps running.

        Raises InstanceNotFoundError, RetryableHostError if the guest does not have the volume.
        """

    @abc.abstractmethod
    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        """Copy the data of ``old`` to ``new`` while the guest runs, and switch the guest to ``new``. Both have the same
        size.

        ``old`` and ``new`` may be two attachments of one volume whose data is migrated. Has no effect if the guest uses
        ``new`` already. Raises StoppedError if ``stopped`` returns True before the end, UnsupportedError for a stopped
        guest, and RetryableHostError; the guest then still uses ``old``.
        """

    @abc.abstractmethod
    def volumes(self) -> dict[str, list[str]]:
        """Return guest uuid → ids of its volumes, for each guest of ``guests``: of a running guest the volumes in use,
        otherwise those in its definition.
        """

    @abc.abstractmethod
    def attachments(self) -> dict[str, dict[str, str]]:
        """Return guest uuid → volume id → attachment, for each guest of ``guests``; unknown attachments are omitted."""

    @abc.abstractmethod
    def interfaces(self) -> dict[str, list[str]]:
        """Return guest uuid → MAC addresses of its interfaces, for each guest of ``guests``: of a running guest the
        interfaces in use, otherwise those in its definition.
        """

    @abc.abstractmethod
    def cpus(self) -> dict[str, Cpu]:
        """Return guest uuid → the processor that it was started with, for each running guest; unknown ones are omitted.

        It does not change while the guest runs.
        """

    @abc.abstractmethod
    def open_exports(self) -> set[str]:
        """Return the names of the exports that running guests use as disks, and of exports to which a disk is being
        copied.
        """

    @abc.abstractmethod
    def resume_after_error(self, uuid: str) -> bool:
        """Resume a guest that was paused because a volume could not be reached, if all its failed volumes can be
        reached again.

        Returns whether it was resumed. Other guests, and unknown guests, are unchanged.
        """

    @abc.abstractmethod
    def departure(self, uuid: str, options: MigrationOptions) -> Departure:
        """Return the sending side of a live migration. Raises InstanceNotFoundError, UnsupportedError for a guest that
        does not run.
        """

    @abc.abstractmethod
    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        """Return the receiving side of a live migration. Raises UnsupportedError if the hypervisor cannot receive."""

    @abc.abstractmethod
    def whereabouts(self, uuid: str) -> Whereabouts:
        """Return where a guest is whose migration from this host was interrupted."""

    @abc.abstractmethod
    def keep(self, uuid: str) -> None:
        """Resume the guest of an undecided migration. A guest that runs is unchanged. Raises InstanceNotFoundError."""

    @abc.abstractmethod
    def control_migration(self, uuid: str, action: str) -> None:
        """Abort (``abort``) or force the completion (``complete``) of the migration that sends this guest.

        Returns immediately. Raises UnsupportedError if there is no migration.
        """

    @abc.abstractmethod
    def console_socket(self, uuid: str, protocol: str) -> Path:
        """Return the UNIX socket of the guest's graphical (``vnc``) or first serial console (``serial``).

        Raises InstanceNotFoundError, UnsupportedError if the guest does not have that console.
        """

    @abc.abstractmethod
    def on_power_change(self, listener: PowerListener) -> None:
        """Register the only listener, which is called for every power change of Novella's guests."""
