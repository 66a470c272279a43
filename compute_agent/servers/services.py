"""The parts of a host: hypervisor, network, image cache, outgoing connections, threads."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compute_agent.contract.build import ImageRef
from compute_agent.contract.moves import GuestOrigin
from compute_agent.engine.threads import AfterStep, Threads
from compute_agent.metadata.service import MetadataService
from compute_agent.network.host_network import HostNetwork, Target
from compute_agent.virt.driver import ComputeDriver, Fetch, SentGuest, Stopped, never
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.volumes.services import Volumes


class CachedImage(Protocol):
    """An image's data on this host."""

    @property
    def path(self) -> Path | None:
        """The file on which overlays are based; None in a fake cache."""

    @property
    def cached(self) -> bool:
        """Whether the data was in the cache already."""

    @property
    def size(self) -> int:
        """The size of the download in bytes, even if the image was cached."""


class ImageStore(Protocol):
    """The part of the image cache that the handlers need."""

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped = never) -> CachedImage:
        """Return the image, which is downloaded once and verified.

        Raises ImageUnacceptableError, ImageFetchError, and StoppedError if ``stopped`` returns True before the end.
        """

    def cached(self) -> list[str]:
        """Return the ids of the cached images."""

    def prune(self, max_age: float) -> list[str]:
        """Remove images that no disk needs and that have not been requested for ``max_age`` seconds; return their
        ids.
        """

    def sweep(self) -> None:
        """Remove the remnants of a killed agent."""


class ImageOutlet(Protocol):
    """The connection for uploading images that are created here."""

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Yield the path for a copy of a disk. The file is removed after the block."""

    def sweep(self) -> None:
        """Remove the copies that a killed agent has left."""

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Upload a file as an image's data, with as many retries as needed. Raises ImageSendError, StoppedError."""


class FirmwareOutlet(Protocol):
    """The portal's store of packed firmware states. Both methods retry while the portal is unavailable.

    They raise FirmwareTransferError, StoppedError.
    """

    def send(self, packed: bytes, instance_uuid: str, stopped: Stopped) -> None:
        """Store the state of a server that is being shelved."""

    def fetch(self, instance_uuid: str, digest: str, stopped: Stopped) -> bytes:
        """Return the state with this SHA-256 of a server that is being unshelved."""


class GuestTransfer(Protocol):
    """The exports of guests' disks to other hosts, and copies from such exports."""

    def check(self) -> None:
        """Raise NotExportedError if this host cannot export disks now, because it has no certificates."""

    def export(self, uuid: str, sent: SentGuest, host_id: str) -> GuestOrigin:
        """Export the disks of a stopped guest to a host, until ``end``. Raises NotExportedError."""

    def end(self, uuid: str) -> None:
        """End the exports of a guest. Does nothing if there are none."""

    def fetch(self, uuid: str, attempt: int, origin: GuestOrigin, stopped: Stopped) -> Fetch:
        """Return a function that copies a disk of the origin, and repeats an interrupted copy a few times. It continues
        the copy of an earlier process with the same ``attempt``.

        It raises CopyFailedError, StoppedError.
        """


class ConsoleOutlet(Protocol):
    """The tunnels of consoles to the portal."""

    async def open(self, tunnel: str, path: Path, *, alone: bool, share: str) -> None:
        """Connect a guest's socket with a tunnel of the portal.  Raises ConsoleBusyError, UnsupportedError."""

    def follow(self, tunnel: str, frames: AsyncIterator[bytes], share: str) -> None:
        """Send frames through a tunnel of the portal until the frames or the tunnel end. Raises ConsoleBusyError."""

    async def forward(self, tunnel: str, target: Target, share: str) -> None:
        """Connect to a guest's port and forward the connection through a tunnel of the portal.

        Raises ConsoleBusyError, GuestRefusedError, GuestUnreachableError.
        """

    async def close(self) -> None:
        """End every tunnel."""


@dataclass(frozen=True)
class HostServices:
    """The parts of one host that its handlers use."""

    driver: ComputeDriver
    network: HostNetwork
    images: ImageStore
    threads: Threads
    boot_timeout: float = 60.0
    after_step: AfterStep | None = None
    outgoing: ImageOutlet | None = None
    """None: this host sends no images."""
    firmware: FirmwareOutlet | None = None
    """None: this host transfers no firmware states."""
    consoles: ConsoleOutlet | None = None
    """None: this host opens no consoles."""
    metadata: MetadataService | None = None
    """None: guests of this host have no metadata service."""
    volumes: Volumes | None = None
    """None: this host stores no volumes."""
    certificates: HostCertificates | None = None
    """None: this host shares no volumes with other hosts."""
    transfer: GuestTransfer | None = None
    """None: this host neither sends nor receives disks of guests."""
    migrations: MigrationAddress | None = None
    """The address at which running guests are received, and the certificates; None: this host migrates none."""
    vendor_data: bytes = b"{}"
    """``vendor_data.json`` of every guest."""
