"""Cast: hand a job to any worker of a topic, in the transaction that makes it necessary."""

import time

from provisioning.common import tracing
from provisioning.jobs import queue, registry
from provisioning.jobs.message import JobMessage, sign


def cast(topic: str, job: str, **payload: object) -> None:
    """Queue the registered job with JSON keywords; nothing is queued when the transaction rolls back.

    Ids arrive as text at the job.  Raises LookupError for a job nobody registered for the topic.
    """
    known = registry.jobs.get(job)
    if known is None or known.topic != topic:
        raise LookupError(f"No job {job!r} is registered for the topic {topic!r}.")
    queue.put(topic, sign(JobMessage(topic, job, payload, tracing.request_id.get(), time.time())))
