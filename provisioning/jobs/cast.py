"""Cast: queue a job for any worker of a topic, in the caller's transaction."""

import logging
import time

from django.db import Error, connection, transaction

from provisioning.common import tracing
from provisioning.jobs import queue, registry
from provisioning.jobs.message import JobMessage, sign, verify

logger = logging.getLogger(__name__)


def cast(topic: str, job: str, **payload: object) -> None:
    """Queue the registered job with JSON keywords; nothing is queued when the transaction rolls back.

    The job gets ids as text. Raises LookupError for a job that is not registered for the topic.
    """
    queue.put(topic, _signed(topic, job, payload))


def cast_here(topic: str, job: str, **payload: object) -> None:
    """Queue a job like ``cast``, and run it in this process and thread as soon as the transaction commits.

    For short jobs whose result a user waits for, because it avoids the delay of the queue. When this process dies, or
    the job fails, a worker runs it like any other.
    """
    text = _signed(topic, job, payload)
    number = queue.put_aside(topic, text)
    transaction.on_commit(lambda: _run(number, verify(text)))


def _signed(topic: str, job: str, payload: dict[str, object]) -> str:
    known = registry.jobs.get(job)
    if known is None or known.topic != topic:
        raise LookupError(f"No job {job!r} is registered for the topic {topic!r}.")
    return sign(JobMessage(topic, job, payload, tracing.request_id.get(), time.time()))


def _run(number: int, message: JobMessage) -> None:
    """Run a reserved message. After a failure a worker runs it, at the latest when the reservation expires."""
    try:
        try:
            registry.jobs[message.job].run(**message.payload)
        except Exception as error:
            logger.exception("Job %s failed where it was cast; a worker tries it again.", message.job)
            if isinstance(error, Error):
                connection.close()  # the connection's state is unknown
            queue.free(number)
        else:
            queue.finish(number)
    except Error as error:
        logger.warning("The outcome of a job cannot be written; a worker runs it again: %s", error)
