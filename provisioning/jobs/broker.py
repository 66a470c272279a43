"""django-q2's broker over our queue: several topics in one group, woken by commits, unhurt by a database outage."""

import logging
import time
from collections.abc import Collection

from django import db
from django.db import connection
from django_q.brokers.orm import ORM
from django_q.models import OrmQ

from provisioning.events import wake
from provisioning.jobs import queue

IDLE = 1.0
"""Seconds between looks when nobody wakes us: for messages that were given back later, and for lost wake-ups."""
OUTAGE_PAUSE = 1.0

logger = logging.getLogger(__name__)


class Broker(ORM):
    """Takes messages for one worker group; lives in the group's pusher process."""

    def __init__(self, list_key: str | None = None, *, topics: Collection[str] = (), group: str = "") -> None:
        """Serve the topics for the group.  Without a group, as django-q2's own commands make it, it only counts."""
        super().__init__(list_key)
        self.topics = list(topics)
        self.group = group
        self._listener: wake.Listener | None = None

    def enqueue(self, task: str) -> int:
        """Refuse: ``async_task`` would queue a pickle."""
        raise TypeError("Queue work through provisioning.jobs.cast.")

    def dequeue(self) -> list[tuple[int, queue.Taken]] | None:
        """Take one message, or wait for a wake-up and return nothing.  The payload comes with its number."""
        try:
            if self._listener is None:
                self._listener = wake.listener(wake.QUEUE)  # before looking, so that no commit is missed
            taken = queue.take(self.topics, self.group)
            if taken is None:
                self._listener.wait(IDLE)
                return None
        except Exception as error:
            if not _is_outage(error):
                raise
            logger.warning("The queue cannot be read, trying again: %s", error)
            self._forget()
            time.sleep(OUTAGE_PAUSE)
            return None
        return [(taken.id, taken)]

    def queue_size(self) -> int:
        """How many messages wait or run."""
        return int(OrmQ.objects.filter(key__in=self.topics).count())

    def acknowledge(self, task_id: int) -> None:
        """Nothing: the worker itself removes what it finished, in ``dispatch``."""

    def fail(self, task_id: int) -> None:
        """Remove a message that cannot be read or names no job of ours."""
        queue.finish(task_id)

    def _forget(self) -> None:
        """Drop the connections; the next look makes new ones."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        connection.close()


def _is_outage(error: Exception) -> bool:
    """Whether the database or the wake-up socket failed, as opposed to our code."""
    return isinstance(error, (db.Error, OSError)) or type(error).__module__.partition(".")[0] == "psycopg"
