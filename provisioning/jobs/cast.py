"""Cast: hand a job to any worker of a topic, in the transaction that makes it necessary."""

import logging
import time

from django.db import Error, connection, transaction

from provisioning.common import tracing
from provisioning.jobs import queue, registry
from provisioning.jobs.message import JobMessage, sign, verify

logger = logging.getLogger(__name__)


def cast(topic: str, job: str, **payload: object) -> None:
    """Queue the registered job with JSON keywords; nothing is queued when the transaction rolls back.

    Ids arrive as text at the job.  Raises LookupError for a job nobody registered for the topic.
    """
    queue.put(topic, _signed(topic, job, payload))


def cast_here(topic: str, job: str, **payload: object) -> None:
    """Queue a job as ``cast`` does, and run it in this process, in this thread, as soon as the transaction commits.

    For a short step that somebody waits for: it is spared the way through the queue.  When this process dies over it,
    or it fails, a worker runs it as any other.
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
    """Run a message that was put aside; one that fails is a worker's from now on, at the latest when its time is up."""
    try:
        try:
            registry.jobs[message.job].run(**message.payload)
        except Exception as error:
            logger.exception("Job %s failed where it was cast; a worker tries it again.", message.job)
            if isinstance(error, Error):
                connection.close()  # in whatever state it is
            queue.free(number)
        else:
            queue.finish(number)
    except Error as error:
        logger.warning("The outcome of a job cannot be written; a worker runs it again: %s", error)
