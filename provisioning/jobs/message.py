"""What lies in the queue: plain JSON signed with the bus key, so that a row somebody else wrote is never run."""

import hashlib
import hmac

import msgspec
from django.conf import settings


class MessageError(ValueError):
    """Not a message of ours."""


class JobMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job to run: its registered name, its keywords, and the request it belongs to."""

    topic: str
    job: str
    payload: dict[str, object]
    request_id: str
    sent_at: float  # Unix time, s


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JobMessage)


def sign(message: JobMessage) -> str:
    """Return ``<hex signature>.<json>``; raises TypeError for a payload that is not plain JSON."""
    body = _encoder.encode(message)
    return f"{_signature(body, settings.BUS_KEY)}.{body.decode()}"


def verify(text: str) -> JobMessage:
    """Check the signature, by the bus key or an older one, then read; raises MessageError."""
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
