"""Worker threads for everything that may block."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AfterStep = Callable[[str, threading.Event], None]
"""Called in the worker thread after each step, with its name and the command's cancellation; may raise."""

POWER_THREADS = 8
"""Number of threads for power commands. These commands mostly wait for a guest to shut down, and must not delay builds.
"""

CALL_THREADS = 4
PLACE_THREADS = 8
NETWORK_THREADS = 32
"""Number of threads for network changes. The changes are serialized, but threads also wait for a filter update that one
thread makes for all.
"""
MOST_WORKERS = 256


class Threads:
    """Worker threads for everything that may block.  Several simulated hosts share them."""

    def __init__(self, workers: int, hosts: int = 1) -> None:
        """Create threads for ``workers`` builds on each host, and an additional one, so that a destroy never waits for
        a build.
        """
        self.workers = workers
        self.work = ThreadPoolExecutor(min(workers * hosts, MOST_WORKERS) + 1, thread_name_prefix="work")
        self.power = ThreadPoolExecutor(POWER_THREADS, thread_name_prefix="power")
        self.calls = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call")
        self.network = ThreadPoolExecutor(NETWORK_THREADS, thread_name_prefix="network")
        self._of: dict[str, ThreadPoolExecutor] = {}

    def of(self, place: str) -> Executor:
        """Return the threads for commands that depend on the remote resource ``place``, which may not answer."""
        if place not in self._of:
            self._of[place] = ThreadPoolExecutor(PLACE_THREADS, thread_name_prefix=f"place-{place[:8]}")
        return self._of[place]

    def close(self) -> None:
        """Reject new work; does not wait for running work."""
        for pool in (self.work, self.power, self.calls, self.network, *self._of.values()):
            pool.shutdown(wait=False, cancel_futures=True)


async def in_thread(pool: Executor, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of ``pool``. A cancelled caller still waits for the end of the work.

    A hypervisor call cannot be interrupted: a stopping agent waits for running calls, or ends the whole process.
    """
    future = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait((future,))
        future.cancelled() or future.exception()  # seen; the work is repeated at the next start
        raise
