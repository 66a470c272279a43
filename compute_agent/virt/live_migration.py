"""The contract of live migration between two drivers: one side departs, the other receives the arrival.

Both follow libvirt's five phases. The arguments and results are opaque to the code between the drivers, which
transports them. The order is: ``offer``, ``shape``, ``begin``, ``prepare``, ``perform``, ``finish``, ``leave``.
"""

import abc
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compute_agent.virt.processes.progress import Amount

MEMORY, DISKS = "memory", "disks"
"""The streams of a migration. Each may have several connections."""


class Whereabouts(enum.Enum):
    """Where a guest is after its migration was interrupted, from the point of view of the sending host."""

    HERE = "here"
    UNDECIDED = "undecided"  # paused here, and possibly running on the other host
    LEFT = "left"


@dataclass(frozen=True)
class MigrationOptions:
    """Options of the sending side: MiB/s (0: unlimited), and whether post-copy is allowed."""

    bandwidth_mb: int = 0
    post_copy: bool = False


class Departure(abc.ABC):
    """The sending side. The methods are called from one thread at a time; errors are HostErrors."""

    @property
    @abc.abstractmethod
    def sockets(self) -> Mapping[str, Path]:
        """The path for the local socket of each stream, to which ``perform`` connects."""

    @abc.abstractmethod
    def sockets_ready(self, end_memory: Callable[[], bool]) -> None:
        """Give the hypervisor access to the sockets, which exist now.

        ``end_memory`` ends the connections of the memory's stream, and returns whether there was one; it may be called
        in any thread.
        """

    @abc.abstractmethod
    def when_paused(self, notify: Callable[[], None]) -> None:
        """Call ``notify``, in any thread, when ``perform`` has paused the guest for the switch to the other host."""

    @abc.abstractmethod
    def offer(self) -> bytes:
        """Describe the running guest. Raises UnsupportedError for a guest that cannot be migrated live."""

    @abc.abstractmethod
    def begin(self, shape: bytes) -> bytes:
        """Verify that the guest would be the same with the other host's ``shape``. Raises UnsupportedError."""

    @abc.abstractmethod
    def perform(self, prepared: bytes) -> bytes:
        """Copy local disks and memory until the guest is paused here and complete there. Reports progress.

        Raises an error if it fails or is aborted; ``stay`` must follow.
        """

    @abc.abstractmethod
    def amount(self) -> Amount:
        """Return the copied bytes and the total, while ``perform`` runs; called from another thread."""

    @abc.abstractmethod
    def leave(self, finished: bytes) -> None:
        """Remove the running guest, because it runs on the other host; definition and disks are kept."""

    @abc.abstractmethod
    def stay(self) -> None:
        """Resume the guest on this host. Idempotent, and possible after each method except ``leave``."""


class Arrival(abc.ABC):
    """The receiving side. ``create_disks`` is called before the phases; the network is prepared already."""

    @property
    @abc.abstractmethod
    def sockets(self) -> Mapping[str, Path]:
        """The local socket of each stream, on which the hypervisor listens after ``prepare``."""

    @abc.abstractmethod
    def needs_image(self) -> bool:
        """Return whether ``create_disks`` needs the image's file. May query the storage on other hosts."""

    @abc.abstractmethod
    def create_disks(self, base: Path | None) -> None:
        """Create the disks of the guest as ``ComputeDriver.create_disk`` does, except those that both hosts can open.
        The data of the others is copied into them.
        """

    @abc.abstractmethod
    def shape(self, offer: bytes) -> bytes:
        """Describe the guest as it would be on this host: this host's own paths and connections, and the device
        addresses of the offer. Raises UnsupportedError for an offer that is not plausible.
        """

    @abc.abstractmethod
    def prepare(self, begun: bytes) -> bytes:
        """Let the hypervisor wait for the guest."""

    @abc.abstractmethod
    def finish(self, performed: bytes) -> bytes:
        """Start the guest here. On an error the guest does not run here, and ``cancel`` must follow."""

    @abc.abstractmethod
    def arrived(self) -> bool:
        """Return whether the guest runs here, also when an earlier process finished the migration. Idempotent."""

    def settle(self) -> None:  # noqa: B027 - nothing to do for disks that were copied
        """Give the disks of a guest that runs here, and that both hosts can open, to this host alone. Idempotent.

        Raises DiskLostError if that will never be possible; after other errors it can be repeated.
        """

    @abc.abstractmethod
    def cancel(self) -> None:
        """Remove the waiting guest. Idempotent."""
