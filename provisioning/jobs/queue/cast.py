"""Cast: queue a job for any worker of a topic, in the caller's transaction, as a message signed with the bus key."""

import hashlib
import hmac
import logging
import time

import msgspec
from django.conf import settings
from django.db import Error, connection, transaction

from provisioning.common.processes import tracing
from provisioning.jobs import registry
from provisioning.jobs.queue import rows

logger = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()


class MessageError(ValueError):
    """The message is malformed or has no valid signature."""


class JobMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to run: its registered name, its keywords, and the id of the request that caused it."""

    topic: str
    job: str
    payload: dict[str, object]
    request_id: str
    sent_at: float  # Unix time, s


_decoder = msgspec.json.Decoder(JobMessage)


def sign(message: JobMessage) -> str:
    """Return ``<hex signature>.<json>``. Raises TypeError for a payload that is not plain JSON."""
    body = _encoder.encode(message)
    return f"{_signature(body, settings.BUS_KEY)}.{body.decode()}"


def verify(text: str) -> JobMessage:
    """Verify the signature, with the bus key or an older one, and decode the message. Raises MessageError."""
    signature, _, body = text.partition(".")
    keys = [settings.BUS_KEY, *settings.BUS_KEY_FALLBACKS]
    if not any(hmac.compare_digest(signature.encode(), _signature(body.encode(), key).encode()) for key in keys):
        raise MessageError("The signature does not match.")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MessageError(str(error)) from error


def _signature(body: bytes, key: str) -> str:
    return hmac.new(key.encode(), b"novella.jobs\0" + body, hashlib.sha256).hexdigest()


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
