"""Jobs that take longer than a worker has time for one, like an image's download: each in a thread of a worker process.

The worker takes the next message meanwhile.  The queue's promises hold for them as for others: the message is the
group's while the thread runs, is removed at its end, and is given back when the process dies.
"""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from django.db import Error, close_old_connections, connection

from provisioning.jobs import queue

BUSY_PAUSE = 5.0
"""Seconds before a message is looked at again for which there was no thread."""
HOLD_EVERY = 60.0
"""Seconds between two looks that a message is still ours: well below the time for which it is taken."""

logger = logging.getLogger(__name__)
_lock = threading.Lock()
_running: set[threading.Thread] = set()


def begin(message_id: int, group: str, work: Callable[[], None], *, leaves_room: bool = False) -> None:
    """Run the work of a taken message in a thread, or give the message back for a while when enough of them run.

    ``leaves_room``: it does not take the last of the threads, unless there is only one.
    """
    thread = threading.Thread(target=_run, args=[message_id, group, work], name=f"long-job-{message_id}", daemon=True)
    with _lock:
        _running.intersection_update([each for each in _running if each.is_alive()])
        room = len(_running) < max(settings.LONG_JOBS - leaves_room, 1)
        if room:
            _running.add(thread)
            thread.start()
    if not room:
        queue.postpone(message_id, BUSY_PAUSE)


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
    """Keep the message while its work goes on."""
    while not ended.wait(HOLD_EVERY):
        try:
            close_old_connections()
            queue.hold(message_id, group)
        except Error:
            logger.warning("A long job's message cannot be held now, trying again.", exc_info=True)
            connection.close()
    connection.close()
