"""Messages of the queue: JSON signed with the bus key, so that rows from other writers are never run."""

import hashlib
import hmac

import msgspec
from django.conf import settings


class MessageError(ValueError):
    """The message is malformed or has no valid signature."""


class JobMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to run: its registered name, its keywords, and the id of the request that caused it."""

    topic: str
    job: str
    payload: dict[str, object]
    request_id: str
    sent_at: float  # Unix time, s


_encoder = msgspec.json.Encoder()
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
