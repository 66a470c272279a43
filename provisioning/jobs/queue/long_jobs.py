"""Jobs that exceed the time limit of workers, such as downloads of images; each runs in a thread of a worker process.

The worker runs other messages in the meantime. The queue's guarantees also apply to long jobs: the group keeps the
message of a long job locked while the thread runs, removes it at the end, and requeues it when the process dies.
"""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from django.db import Error, close_old_connections, connection

from provisioning.jobs.queue import rows

BUSY_PAUSE = 5.0
"""Seconds for which a message is postponed when all threads are busy."""
HOLD_EVERY = 60.0
"""Seconds between two extensions of a message's lock, far below the duration of the lock."""

logger = logging.getLogger(__name__)
_lock = threading.Lock()
_running: set[threading.Thread] = set()


def begin(message_id: int, group: str, work: Callable[[], None], *, leaves_room: bool = False) -> None:
    """Run the work of a message in a thread, or postpone the message if the maximum number of threads is running.

    ``leaves_room``: the work may not use the last free thread, unless LONG_JOBS is 1.
    """
    thread = threading.Thread(target=_run, args=[message_id, group, work], name=f"long-job-{message_id}", daemon=True)
    with _lock:
        _running.intersection_update([each for each in _running if each.is_alive()])
        room = len(_running) < max(settings.LONG_JOBS - leaves_room, 1)
        if room:
            _running.add(thread)
            thread.start()
    if not room:
        rows.postpone(message_id, BUSY_PAUSE)


def _run(message_id: int, group: str, work: Callable[[], None]) -> None:
    ended = threading.Event()
    holder = threading.Thread(target=_hold, args=[message_id, group, ended], name=f"hold-{message_id}", daemon=True)
    holder.start()
    try:
        work()
    finally:
        ended.set()
        holder.join()
        connection.close()


def _hold(message_id: int, group: str, ended: threading.Event) -> None:
    """Extend the lock of the message until its work has ended."""
    while not ended.wait(HOLD_EVERY):
        try:
            close_old_connections()
            rows.hold(message_id, group)
        except Error:
            logger.warning("A long job's message cannot be held now, trying again.", exc_info=True)
            connection.close()
    connection.close()
