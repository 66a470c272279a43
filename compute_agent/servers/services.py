"""The parts of a host: hypervisor, network, image cache, outgoing connections, threads."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compute_agent.contract.build import ImageRef
from compute_agent.engine.threads import AfterStep, Threads
from compute_agent.metadata.service import MetadataService
from compute_agent.network.host_network import HostNetwork, Target
from compute_agent.virt.certificates import HostCertificates
from compute_agent.virt.driver import ComputeDriver, Stopped, never
from compute_agent.volumes.services import Volumes


class CachedImage(Protocol):
    """An image's bits on this host."""

    @property
    def path(self) -> Path | None:
        """The file to make overlays on; None in a fake cache."""

    @property
    def cached(self) -> bool:
        """Whether the bits were here already."""

    @property
    def size(self) -> int:
        """Bytes fetched, or that would have been."""


class ImageStore(Protocol):
    """The image cache, as the handlers need it."""

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped = never) -> CachedImage:
        """Return the image's bits, fetched once and checked.

        Raises ImageUnacceptableError, ImageFetchError, and StoppedError when ``stopped`` returns True before they are
        here.
        """

    def cached(self) -> list[str]:
        """Return the ids of the images held."""

    def prune(self, max_age: float) -> list[str]:
        """Remove images that no disk needs and that have not been requested for ``max_age`` seconds; return their
        ids.
        """

    def sweep(self) -> None:
        """Remove what an agent that was killed has left."""


class ImageOutlet(Protocol):
    """The connection for uploading images that are created here."""

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Give a place for a copy of a disk; whatever is there afterwards is removed."""

    def sweep(self) -> None:
        """Remove what an agent that died has left."""

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Send a file as an image's data, however often that takes.  Raises ImageSendError, StoppedError."""


class ConsoleOutlet(Protocol):
    """The way out for consoles."""

    async def open(self, tunnel: str, path: Path, *, alone: bool, share: str) -> None:
        """Connect a guest's socket with a tunnel of the portal.  Raises ConsoleBusyError, UnsupportedError."""

    def follow(self, tunnel: str, frames: AsyncIterator[bytes], share: str) -> None:
        """Send frames through a tunnel of the portal until they or the tunnel end.  Raises ConsoleBusyError."""

    async def forward(self, tunnel: str, target: Target, share: str) -> None:
        """Connect to a guest's port and carry the connection through a tunnel of the portal.

        Raises ConsoleBusyError, GuestRefusedError, GuestUnreachableError.
        """

    async def close(self) -> None:
        """End every tunnel."""


@dataclass(frozen=True)
class HostServices:
    """The objects that the handlers of one host work with."""

    driver: ComputeDriver
    network: HostNetwork
    images: ImageStore
    threads: Threads
    boot_timeout: float = 60.0
    after_step: AfterStep | None = None
    outgoing: ImageOutlet | None = None
    """None: this host sends no images."""
    consoles: ConsoleOutlet | None = None
    """None: this host opens no consoles."""
    metadata: MetadataService | None = None
    """None: guests of this host have no metadata service."""
    volumes: Volumes | None = None
    """None: this host cannot hold volumes."""
    certificates: HostCertificates | None = None
    """None: this host shares no volumes with others."""
    vendor_data: bytes = b"{}"
    """``vendor_data.json`` of every guest."""
