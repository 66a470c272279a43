"""What lies in the queue: plain JSON signed with the bus key, so that a row somebody else wrote is never run."""

from __future__ import annotations

import hashlib
import hmac

import msgspec
from django.conf import settings


class EnvelopeError(ValueError):
    """Not a message of ours."""


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job to run: its registered name, its keywords, and the request it belongs to."""

    topic: str
    job: str
    payload: dict[str, object]
    request_id: str
    sent_at: float  # Unix time, s


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)


def seal(envelope: Envelope) -> str:
    """Return ``<hex signature>.<json>``; raises TypeError for a payload that is not plain JSON."""
    body = _encoder.encode(envelope)
    return f"{_signature(body)}.{body.decode()}"


def unseal(text: str) -> Envelope:
    """Check the signature, then read; raises EnvelopeError."""
    signature, _, body = text.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body.encode()).encode()):
        message = "The signature does not match."
        raise EnvelopeError(message)
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise EnvelopeError(str(error)) from error


def _signature(body: bytes) -> str:
    return hmac.new(settings.BUS_KEY.encode(), b"novella.rpc\0" + body, hashlib.sha256).hexdigest()
