"""What a host is put together from: hypervisor, network, image cache and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from compute_agent.contract.build import ImageRef
from compute_agent.network.plumbing import HostNetwork
from compute_agent.virt.driver import ComputeDriver, Stopped

T = TypeVar("T")

AfterStep = Callable[[str, threading.Event], None]
"""Called in the worker's thread after the work of each build step with its name and the build's cancellation; may
raise.
"""

POWER_THREADS = 8
"""Power orders mostly wait for a guest to shut down: they have threads of their own and hold up no build."""

CALL_THREADS = 4
MOST_WORKERS = 256


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
    """The image cache, as the manager needs it."""

    def get(self, image: ImageRef, instance_uuid: str) -> CachedImage:
        """Return the image's bits, fetched once and checked.  Raises ImageUnacceptableError, ImageFetchError."""

    def cached(self) -> list[str]:
        """Return the ids of the images held."""

    def prune(self, keep: set[str], max_age: float) -> list[str]:
        """Remove what nobody has asked for in ``max_age`` seconds, but not the images ``keep``; return their ids."""


class ImageOutlet(Protocol):
    """The way out for images that are made here."""

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Give a place for a copy of a disk; whatever is there afterwards is removed."""

    def sweep(self) -> None:
        """Remove what an agent that died has left."""

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Send a file as an image's data, however often that takes.  Raises ImageSendError, StoppedError."""


class ConsoleOutlet(Protocol):
    """The way out for consoles."""

    async def open(self, tunnel: str, path: Path, *, alone: bool) -> None:
        """Connect a guest's socket with a tunnel of the portal.  Raises ConsoleBusyError, UnsupportedError."""

    async def close(self) -> None:
        """End every tunnel."""


class Threads:
    """Worker threads for everything that may block.  Several simulated hosts share one set."""

    def __init__(self, workers: int, hosts: int = 1) -> None:
        """Make room for ``workers`` builds a host and one more, so that a destroy never waits for a build to end."""
        self.workers = workers
        self.work = ThreadPoolExecutor(min(workers * hosts, MOST_WORKERS) + 1, thread_name_prefix="work")
        self.power = ThreadPoolExecutor(POWER_THREADS, thread_name_prefix="power")
        self.calls = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call")

    def close(self) -> None:
        """Take no more work; what runs is not waited for."""
        for pool in (self.work, self.power, self.calls):
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class HostParts:
    """One host's means."""

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


async def in_thread(pool: Executor, work: Callable[[], T]) -> T:
    """Do ``work`` in a thread of ``pool``; when the caller is cancelled, it still waits for the thread to end.

    A hypervisor call cannot be broken off: whoever stops the agent waits for what runs, or gives up on the process as a
    whole.
    """
    future = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait((future,))
        future.cancelled() or future.exception()  # seen; the work is repeated at the next start
        raise
