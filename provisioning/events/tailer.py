"""The only reader of the event log in a process: a thread that passes committed events to the subscribers of their
topics.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db import close_old_connections, connection
from django.db.models import BigIntegerField, Q, QuerySet

from provisioning.common.database.prepared import Prepared
from provisioning.events import selectors, wake
from provisioning.events.models import Event
from provisioning.events.selectors import LoggedEvent

Callback = Callable[[LoggedEvent], None]

POLL = 1.0
"""Seconds between two reads without a wake-up."""
BATCH = 500
LOOK_EVERY = 10.0
"""Seconds between two checks that the log is not older than the events that were already read."""
GAP_PATIENCE = 60.0
"""Seconds in which a missing id may still be committed; events of longer transactions are only seen after a reload."""
MOST_GAPS = 2000

logger = logging.getLogger(__name__)


class Subscription:
    """A subscription to topics; ends with ``close``."""

    def __init__(self, owner: Tailer, topics: frozenset[str], callback: Callback) -> None:
        """Created by ``Tailer.subscribe``."""
        self.topics = topics
        self.callback = callback
        self._owner = owner

    def close(self) -> None:
        """End the subscription. A call of the callback that is running at this time is not interrupted."""
        self._owner.forget(self)


class Tailer:
    """Reads committed events once and passes them to the subscribers.

    Ids increase in the order of commits on SQLite only. On PostgreSQL a lower id can be committed after a higher one,
    so missing ids are read again until they appear or ``GAP_PATIENCE`` has passed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: dict[str, set[Subscription]] = {}
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._last = 0
        self._look_at = 0.0
        self._gaps: dict[int, float] = {}  # missing id -> monotonic time at which it is given up

    def subscribe(self, topics: Iterable[str], callback: Callback) -> Subscription:
        """Call ``callback`` in the tailer's thread for every event of the topics that commits after this returns.

        The callback must not block; its exceptions are logged. The first subscription in a process waits until the
        thread reads the log, at most 30 seconds.
        """
        subscription = Subscription(self, frozenset(topics), callback)
        with self._lock:
            for topic in subscription.topics:
                self._followers.setdefault(topic, set()).add(subscription)
            if self._thread is None or not self._thread.is_alive():
                self._ready.clear()
                self._stop = threading.Event()  # of this thread only: the previous one may not have ended
                self._thread = threading.Thread(target=self._run, args=(self._stop,), name="tailer", daemon=True)
                self._thread.start()
        self._ready.wait(30)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        with self._lock:
            for topic in subscription.topics:
                followers = self._followers.get(topic, set())
                followers.discard(subscription)
                if not followers:
                    self._followers.pop(topic, None)

    @property
    def cursor(self) -> int:
        """The id from which a reader can resume without missing an event: all events up to it were passed on."""
        return min(self._gaps, default=self._last + 1) - 1

    def stop(self) -> None:
        """End the thread and close its connections; the next ``subscribe`` starts it again."""
        if self._thread is None:
            return
        self._stop.set()
        wake.poke(wake.EVENTS)
        self._thread.join(10)
        self._thread = None

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self, stop: threading.Event) -> None:
        listener: wake.Listener | None = None
        while not stop.is_set():
            try:
                if listener is None:
                    listener = wake.listener(wake.EVENTS)
                    if not self._ready.is_set():
                        self._begin()
                        self._ready.set()
                self._read()
                close_old_connections()
                listener.wait(POLL)
            except Exception:
                logger.exception("The live log cannot be read, trying again.")
                self._look_at = 0.0
                if listener is not None:
                    listener.close()
                    listener = None
                connection.close()
                stop.wait(1)
        if listener is not None:
            listener.close()
        connection.close()

    def _begin(self) -> None:
        """Start after the newest event. Missing ids just below it are read again, because their transactions may commit
        later.
        """
        self._last = selectors.latest_id()
        self._gaps = {}
        if connection.vendor == "postgresql":
            first = max(self._last - BATCH, 0)
            known = set(Event.objects.filter(id__gt=first).values_list("id", flat=True))
            oldest = min(known, default=self._last)  # lower ids were committed long ago, and pruned
            self._note_gaps(number for number in range(oldest, self._last) if number not in known)

    def _read(self) -> None:
        """Pass on all new events, in the order of ids."""
        while True:
            if self._gaps:
                self._drop_old_gaps()
            rows = _and_late(self._last, self._gaps) if self._gaps else _NEWER(last=self._last)
            events = [LoggedEvent(*row) for row in rows]
            for event in events:
                self._advance(event.id)
                self._deliver(event)
            if not events:
                self._follow_back()
            if len(events) < BATCH:
                return

    def _follow_back(self) -> None:
        """Continue from the newest id if it is below the last id that was read, because the database was replaced by an
        older copy.

        Otherwise no events would be passed on until the new ids reach the last id that was read. Events of the last
        minute are passed on again.
        """
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        latest = selectors.latest_id()
        if latest < self._last:
            logger.warning("The live log ends at %s, and was read up to %s: the database is older.", latest, self._last)
            recent = selectors.oldest_recent_id()
            self._last, self._gaps = (latest if recent is None else recent - 1), {}

    def _advance(self, number: int) -> None:
        if number <= self._last:
            self._gaps.pop(number, None)
            return
        if connection.vendor == "postgresql":
            self._note_gaps(range(max(self._last + 1, number - BATCH), number))
        self._last = number

    def _note_gaps(self, numbers: Iterable[int]) -> None:
        end = time.monotonic() + GAP_PATIENCE
        self._gaps.update((number, end) for number in numbers)
        while len(self._gaps) > MOST_GAPS:
            del self._gaps[min(self._gaps)]

    def _drop_old_gaps(self) -> None:
        now = time.monotonic()
        self._gaps = {number: end for number, end in self._gaps.items() if end > now}

    def _deliver(self, event: LoggedEvent) -> None:
        with self._lock:
            followers = list(self._followers.get(event.topic, ()))
        for follower in followers:
            try:
                follower.callback(event)
            except Exception:
                logger.exception("A follower of %s failed.", event.topic)


def _batch(requested: Q) -> QuerySet[Event, tuple[int, str, str, Any]]:
    return Event.objects.filter(requested).order_by("id").values_list("id", "topic", "kind", "payload")[:BATCH]


def _and_late(last: int, gaps: Iterable[int]) -> Iterable[tuple[int, str, str, Any]]:
    """Return the events after the id ``last``, and the events with the missing ids ``gaps`` that were committed in the
    meantime.
    """
    return _batch(Q(id__gt=last) | Q(id__in=list(gaps)))


_NEWER = Prepared(lambda last: _batch(Q(id__gt=last)), last=BigIntegerField())


@functools.cache
def tailer() -> Tailer:
    """Return the tailer of this process; its thread starts with the first subscription."""
    return Tailer()
