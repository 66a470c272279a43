"""The only function that django-q2 runs: it runs the registered job of a message, and never raises.

In order: record the start; run the job; remove the message, or postpone it for a retry; after the last attempt call
the job's ``on_give_up``. Starts are counted before the job runs, so that a job that kills its worker is given up as
well.
"""

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from django.db import Error, connection
from django_q.exceptions import TimeoutException

from provisioning.common.processes import tracing
from provisioning.jobs import registry
from provisioning.jobs.queue import long_jobs, rows, worker_groups
from provisioning.jobs.queue.cast import JobMessage

MOST_STARTS = 3
PAUSES = (0.5, 3.0)
"""Seconds before the second and the third start."""
OUTAGE_TRIES = 60
"""Number of attempts, one each second, to record the outcome of a job."""

logger = logging.getLogger(__name__)


def run(message_id: int, group: str, message: JobMessage) -> None:
    """Run a message in a worker process; a long job runs in a thread."""
    job = registry.jobs[message.job]
    if job.long:
        work = functools.partial(_run, message_id, group, message)
        long_jobs.begin(message_id, group, work, leaves_room=job.leaves_room)
    else:
        _run(message_id, group, message)


def _run(message_id: int, group: str, message: JobMessage) -> None:
    mark = tracing.request_id.set(message.request_id)
    try:
        starts = _start(message_id, group)
        if starts is not None:
            _run_started(message_id, group, message, starts)
    except (Exception, TimeoutException):
        logger.exception("Message %s (%s) could not be handled.", message_id, message.job)
        connection.close()
    finally:
        tracing.request_id.reset(mark)


def _start(message_id: int, group: str) -> int | None:
    """Record the start of a message, with retries during an outage of the database; return the number of its starts.

    Returns None if the message must not run (``rows.start``). No other group runs the message during the outage.
    """
    worker = worker_groups.process_mark(os.getpid())
    for tried in range(OUTAGE_TRIES):
        try:
            return rows.start(message_id, group, worker, again=tried > 0)
        except Error as error:
            logger.warning("The start of a job cannot be written, trying again: %s", error)
            connection.close()
            time.sleep(1)
    logger.error("The start of a job could not be written; it will be run later.")
    return None


def _run_started(message_id: int, group: str, message: JobMessage, starts: int) -> None:
    job = registry.jobs[message.job]
    if starts > MOST_STARTS:
        _give_up(job, message, f"{job.name} was started {MOST_STARTS} times and its worker died each time.")
        _write(rows.finish, message_id)
        return
    try:
        job.run(**message.payload)
    except (Exception, TimeoutException) as error:
        logger.exception("Job %s failed at start %s of %s: %s", job.name, starts, MOST_STARTS, message.payload)
        if isinstance(error, (Error, TimeoutException)):
            connection.close()  # the connection's state is unknown
        _after_failure(message_id, group, message, starts)
    else:
        _write(rows.finish, message_id)


def _after_failure(message_id: int, group: str, message: JobMessage, starts: int) -> None:
    _write(worker_groups.count_failure, group)
    if starts < MOST_STARTS:
        _write(rows.postpone, message_id, PAUSES[starts - 1])
        return
    _give_up(registry.jobs[message.job], message, f"{message.job} failed {MOST_STARTS} times.")
    _write(rows.finish, message_id)


def _give_up(job: registry.Job[Any], message: JobMessage, reason: str) -> None:
    logger.error("%s It will not be tried again: %s", reason, message.payload)
    if job.on_give_up is not None:
        try:
            job.on_give_up(reason, **message.payload)
        except Exception:
            logger.exception("Giving up %s failed.", job.name)


def _write(change: Callable[..., None], *arguments: object) -> None:
    """Record the outcome, with retries during an outage of the database."""
    for _ in range(OUTAGE_TRIES):
        try:
            change(*arguments)
        except Error as error:
            logger.warning("The outcome of a job cannot be written, trying again: %s", error)
            connection.close()
            time.sleep(1)
        else:
            return
    logger.error("The outcome of a job could not be written; it will be run again.")
