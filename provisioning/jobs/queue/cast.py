"""Cast: queue a job for any worker of a topic, in the caller's transaction."""

import logging
import time

from django.db import Error, connection, transaction

from provisioning.common.processes import tracing
from provisioning.jobs import registry
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.message import JobMessage, sign, verify

logger = logging.getLogger(__name__)


def cast(topic: str, job: str, **payload: object) -> None:
    """Queue the registered job; its keyword arguments are sent as JSON, so the job receives ids as text.

    Nothing is queued when the transaction rolls back. Raises LookupError for a job that is not registered for the
    topic.
    """
    rows.put(topic, _signed(topic, job, payload))


def cast_here(topic: str, job: str, **payload: object) -> None:
    """Queue a job like ``cast``, and run it in this process and thread as soon as the transaction commits.

    Use it for short jobs whose result a user waits for: it avoids the delay of the queue. If this process dies or the
    job fails, a worker runs the job as usual.
    """
    text = _signed(topic, job, payload)
    number = rows.put_aside(topic, text)
    transaction.on_commit(lambda: _run(number, verify(text)))


def _signed(topic: str, job: str, payload: dict[str, object]) -> str:
    known = registry.jobs.get(job)
    if known is None or known.topic != topic:
        raise LookupError(f"No job {job!r} is registered for the topic {topic!r}.")
    return sign(JobMessage(topic, job, payload, tracing.request_id.get(), time.time()))


def _run(number: int, message: JobMessage) -> None:
    """Run a reserved message. If the job fails, a worker runs it again, at the latest when the reservation expires."""
    try:
        try:
            registry.jobs[message.job].run(**message.payload)
        except Exception as error:
            logger.exception("Job %s failed where it was cast; a worker tries it again.", message.job)
            if isinstance(error, Error):
                connection.close()  # the connection's state is unknown
            rows.free(number)
        else:
            rows.finish(number)
    except Error as error:
        logger.warning("The outcome of a job cannot be written; a worker runs it again: %s", error)
