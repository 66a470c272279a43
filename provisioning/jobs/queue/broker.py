"""A django-q2 broker for this queue: several topics in one worker group, woken by commits, tolerant of database
outages.
"""

import logging
import time
from collections.abc import Collection

from django import db
from django.db import connection
from django_q.brokers.orm import ORM
from django_q.models import OrmQ

from provisioning.events import wake
from provisioning.jobs.queue import rows

IDLE = 1.0
"""Seconds between two reads of the queue without a wake-up, for postponed messages and lost wake-ups."""
OUTAGE_PAUSE = 1.0

logger = logging.getLogger(__name__)


class Broker(ORM):
    """Takes messages for one worker group, in the group's pusher process."""

    def __init__(self, list_key: str | None = None, *, topics: Collection[str] = (), group: str = "") -> None:
        """Serve the topics for the group. Without a group, as created by django-q2's own commands, it can only count
        messages.
        """
        super().__init__(list_key)
        self.topics = list(topics)
        self.group = group
        self._listener: wake.Listener | None = None

    def enqueue(self, task: str) -> int:
        """Refuse, because ``async_task`` would queue a pickle."""
        raise TypeError("Queue work through provisioning.jobs.queue.cast.")

    def dequeue(self) -> list[tuple[int, rows.ClaimedMessage]] | None:
        """Return [(number, message)] with the next message of the topics. If there is no message, wait for a wake-up
        and return None.
        """
        try:
            if self._listener is None:
                self._listener = wake.listener(wake.QUEUE)  # before reading, so that no commit is missed
            taken = rows.claim(self.topics, self.group)
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
        """Number of messages that wait or run."""
        return int(OrmQ.objects.filter(key__in=self.topics).count())

    def acknowledge(self, task_id: int) -> None:
        """Do nothing, because ``dispatch`` removes finished messages in the worker."""

    def fail(self, task_id: int) -> None:
        """Remove a message that is unreadable or names an unknown job."""
        rows.finish(task_id)

    def _forget(self) -> None:
        """Close the connections; the next read opens new ones."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        connection.close()


def _is_outage(error: Exception) -> bool:
    """Whether an error means that the database or the wake-up socket is unavailable, not that the code is wrong."""
    return isinstance(error, (db.Error, OSError)) or type(error).__module__.partition(".")[0] == "psycopg"
