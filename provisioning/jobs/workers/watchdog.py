"""The watchdog process of a worker group.

It records that the group is alive, requeues the jobs of dead workers and groups, ends the group when it is stuck, and
runs periodic jobs. It is forked from the group's master before the workers. When it ends, the master ends the group.
"""

import logging
import os
import signal
import threading
import time
from datetime import timedelta

from django.db import close_old_connections, connection
from django.utils import timezone

from provisioning.jobs import registry
from provisioning.jobs.jobs import PING, PING_TOPIC
from provisioning.jobs.models import JobRun, WorkerBeat
from provisioning.jobs.periodic.run import PeriodicLoop
from provisioning.jobs.queue import rows, worker_groups
from provisioning.jobs.queue.cast import JobMessage, sign

BEAT = 5.0
PING_EVERY = 30.0
STUCK_AFTER = 200.0
"""Maximum seconds in which no ping is answered and no other job is started; longer than the longest job
(settings.Q_CLUSTER["timeout"]).
"""
PERIODIC_STUCK_AFTER = 240.0
"""Maximum seconds of a periodic job; less than its lease."""

MOST_ZOMBIE_LOOKS = 3
"""Number of consecutive rounds with the same unreaped process after which the group is stuck. The sentinel reaps twice
a second, unless it waits for a lock that the dead process held.
"""

logger = logging.getLogger(__name__)


class StuckError(Exception):
    """The group is stuck and must be ended."""


class Watchdog:
    """Watches one worker group."""

    def __init__(self, group: str, topics: list[str], *, periodic: bool) -> None:
        """``periodic``: also run periodic jobs, in a thread."""
        self._group = group
        self._topics = topics
        self._loop = PeriodicLoop(group, registry.periodic_jobs.values()) if periodic else None
        self._stop = threading.Event()
        now = time.monotonic()
        self._pinged = now - PING_EVERY
        self.progress = timezone.now()
        self._cut_off_until = now + worker_groups.SILENT_AFTER
        self._zombies: dict[str, int] = {}  # number of consecutive rounds in which each was seen

    def run(self) -> None:
        """Run until SIGTERM. Raises StuckError when the group must be ended."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        thread = None
        if self._loop is not None:
            thread = threading.Thread(target=self._loop.run, args=[self._stop], name="periodic", daemon=True)
            thread.start()
        while not self._stop.is_set():
            self.look()
            self._stop.wait(BEAT)
        if self._loop is not None and thread is not None:
            self._loop.close()
            thread.join(2)
        worker_groups.forget(self._group)
        connection.close()

    def look(self) -> None:
        """Run one round: record a beat, requeue the jobs of dead workers and groups, send a ping, and check for
        progress. Raises StuckError.
        """
        try:
            close_old_connections()
            worker_groups.beat(self._group, self._topics)
            judge = time.monotonic() > self._cut_off_until
            freed = worker_groups.forget_dead(judge_others=judge) + worker_groups.requeue_of_dead_workers(self._group)
            if freed:
                logger.warning("%s jobs of dead workers were requeued.", freed)
            self._ping()
            self._check_progress()
        except StuckError:
            raise
        except Exception:
            logger.exception("The watchdog cannot use the database, trying again.")
            connection.close()
            self._cut_off_until = time.monotonic() + worker_groups.SILENT_AFTER
            self.progress = timezone.now()
        self._check_zombies()
        self._check_periodic()

    def _ping(self) -> None:
        if time.monotonic() - self._pinged < PING_EVERY:
            return
        self._pinged = time.monotonic()
        message = JobMessage(PING_TOPIC, PING, {"group": self._group}, "-", time.time())
        rows.put(worker_groups.ping_key(self._group), sign(message))

    def _check_progress(self) -> None:
        """Raise StuckError unless a ping was answered or a job was started recently."""
        pinged = WorkerBeat.objects.filter(name=self._group).values_list("ping_at", flat=True).first()
        begun = JobRun.objects.filter(group=self._group).exclude(worker="").values_list("started_at", flat=True)
        self.progress = max([self.progress, *(at for at in [pinged, *begun] if at is not None)])
        if timezone.now() - self.progress > timedelta(seconds=STUCK_AFTER):
            raise StuckError(f"No job was begun for {STUCK_AFTER:.0f} s.")

    def _check_zombies(self) -> None:
        self._zombies = {mark: self._zombies.get(mark, 0) + 1 for mark in worker_groups.zombies_below(os.getppid())}
        if max(self._zombies.values(), default=0) >= MOST_ZOMBIE_LOOKS:
            raise StuckError("A worker died and was not reaped.")

    def _check_periodic(self) -> None:
        running = self._loop.running if self._loop else None
        if running is not None and time.monotonic() - running[1] > PERIODIC_STUCK_AFTER:
            raise StuckError(f"The periodic job {running[0]} does not end.")
