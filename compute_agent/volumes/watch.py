"""Pools that may not answer: they are measured, swept and repaired in separate threads, so that nothing else waits.

A pool on this machine answers or fails immediately, and is queried directly. A pool on other machines may not answer
for minutes. An operation that only reads such a pool waits a few seconds at most. An operation that would change it is
refused until it answers.
"""

import logging
import threading
import time
from collections.abc import Callable

from compute_agent.contract.volume import MOST_KEPT, ROOT, PoolState
from compute_agent.virt.errors import HostError
from compute_agent.volumes.driver import GIB, VolumeDriver
from compute_agent.volumes.errors import PoolUnavailableError

log = logging.getLogger(__name__)

ANSWERS_WITHIN = 5.0
"""Seconds after which a pool counts as unavailable if it has not answered."""
ASKED_EVERY = 30.0
"""Seconds between two queries of a pool on other machines."""
SILENT = "The pool does not answer."


class Aside:
    """Runs one task at a time in a separate thread, without waiting for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        self.began = 0.0

    @property
    def busy(self) -> bool:
        return not self._ended.is_set()

    def start(self, work: Callable[[], object]) -> None:
        """Start ``work``, unless the previous task is still running."""
        with self._lock:
            if self.busy:
                return
            self._ended.clear()
            self.began = time.monotonic()

        def run() -> None:
            try:
                work()
            except HostError as error:
                log.warning("%s: %s %s", self._name, error.message, error.detail)
            except Exception:
                log.exception("%s broke off.", self._name)
            finally:
                self._ended.set()

        threading.Thread(target=run, name=self._name, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the task, for at most ``seconds``. Return whether it has ended."""
        return self._ended.wait(max(seconds, 0))


class PoolWatch:
    """Watches one pool: its last known state, and its threads."""

    def __init__(self, driver: VolumeDriver) -> None:
        self.driver = driver
        self.id = ""
        """Empty until the pool has answered once."""
        name = driver.settings.name
        self.cleaning, self.repairing = Aside(f"cleaning pool {name}"), Aside(f"repairing daemons of pool {name}")
        self.flattening = Aside(f"flattening volumes of pool {name}")
        self.crowded = True
        """Whether the next check looks for volumes that are the only readers of deleted volumes."""
        self._measuring = Aside(f"measuring pool {name}")
        self._preparing = threading.Lock()
        self.known: PoolState | None = None
        """The last reported state."""
        self._silent = False
        self._secret = ""
        self.trouble = ""
        """The reason why the pool was never reached, for operators."""

    @property
    def away(self) -> bool:
        """Whether the pool has not answered the running query for some seconds, or did not answer the last query."""
        return self._silent or (self._measuring.busy and time.monotonic() - self._measuring.began > ANSWERS_WITHIN)

    def check(self) -> None:
        """Raise PoolUnavailableError when the pool does not answer, or is known to be unavailable."""
        if self.away:
            raise PoolUnavailableError(SILENT)
        self.driver.check()

    def ask_again(self) -> None:
        """Query a pool on other machines if it is time: often while the pool is unavailable, otherwise at longer
        intervals.
        """
        due = self._silent or time.monotonic() - self._measuring.began > ASKED_EVERY
        if self.driver.remote and due:
            self.ask()

    def ask(self) -> None:
        """Measure the pool, in a thread if it is on other machines. ``state`` returns the result."""
        if self.driver.remote:
            self._measuring.start(self._measure)
        else:
            self._measure()

    def state(self, until: float) -> PoolState | None:
        """Return the state of the pool. Wait for an answer until ``until`` (``time.monotonic``). None if the pool was
        never reached, because its id is not known.
        """
        answered = self._measuring.wait(until - time.monotonic())
        known = self.known
        if answered or known is None:
            return known
        return PoolState(
            id=known.id, name=known.name, driver=known.driver, shared=known.shared, total_gb=known.total_gb,
            free_gb=known.free_gb, capabilities=known.capabilities, warning=SILENT, secret=known.secret,
        )  # fmt: skip

    def clean(self, work: Callable[[], object]) -> None:
        """Run a task that may wait for the pool: directly, or in a thread unless the previous task is still running."""
        self._do(self.cleaning, work)

    def repair(self, work: Callable[[], object]) -> None:
        """Like ``clean``, but in the thread for repairs, which is independent of the thread of ``clean``."""
        self._do(self.repairing, work)

    def _do(self, aside: Aside, work: Callable[[], object]) -> None:
        if self.driver.remote:
            aside.start(work)
        else:
            work()

    def _measure(self) -> None:
        driver, began = self.driver, time.monotonic()
        try:
            with self._preparing:
                self.id = self.id or driver.prepare()
        except HostError as error:
            log.warning("Pool %s cannot be used: %s %s", driver.settings.name, error.message, error.detail)
            self.known, self.trouble = None, f"Pool {driver.settings.name}: {error.message}"
            return
        self.trouble = ""
        self._learn_secret()
        total = free = 0.0
        kept: dict[str, int] | None = None
        try:
            capacity = driver.capacity()
            total, free, warning = capacity.total / GIB, capacity.free / GIB, capacity.warning
            kept = _largest(driver.kept())
            self._silent = False
        except HostError as error:
            warning = error.message
            self._silent = driver.remote and time.monotonic() - began > ANSWERS_WITHIN
        self.known = PoolState(
            id=self.id, name=driver.settings.name, driver=driver.name, shared=driver.shared, total_gb=total,
            free_gb=free, capabilities=dict(driver.capabilities), warning=warning, secret=self._secret,
            kept=kept,
        )  # fmt: skip

    def _learn_secret(self) -> None:
        """Read the pool's secret once. Without it the pool works, but new hosts are not admitted automatically."""
        if not self._secret:
            try:
                self._secret = self.driver.secret()
            except HostError as error:
                log.warning("Pool %s: its secret cannot be read: %s", self.driver.settings.name, error.detail)


def _largest(kept: dict[str, int]) -> dict[str, int]:
    """Return the largest volumes, as many as a report may have, without the disks of guests."""
    order = sorted(kept.items(), key=lambda item: item[1], reverse=True)
    return dict([(name, size) for name, size in order if not name.startswith(ROOT)][:MOST_KEPT])
