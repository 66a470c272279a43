"""Session tokens of the metadata service, version 2 as EC2 has it.

A program that an attacker leads to an address of his choice reads nothing: it sends no ``PUT`` and no header of his.
Tokens are not kept: they bear their end and are signed, and end with the service, after which guests get new ones.
"""

import base64
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable

MOST_SECONDS = 21_600
_END = struct.Struct("!d")


class Tokens:
    """Makes tokens, and knows its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def make(self, uuid: str, seconds: int) -> str:
        """Return a token with which this guest reads its metadata for so long."""
        end = _END.pack(self._clock() + seconds)
        return base64.urlsafe_b64encode(end + self._signature(uuid, end)).decode()

    def is_good(self, uuid: str, token: str) -> bool:
        """Return whether a token is one of this guest, and not over."""
        try:
            said = base64.b64decode(token, altchars=b"-_", validate=True)
        except ValueError:
            return False
        end, signature = said[: _END.size], said[_END.size :]
        if not hmac.compare_digest(signature, self._signature(uuid, end)):
            return False
        return self._clock() < float(_END.unpack(end)[0])

    def _signature(self, uuid: str, end: bytes) -> bytes:
        return hmac.new(self._key, uuid.encode() + end, hashlib.sha256).digest()


def read_ttl(said: str | None) -> int | None:
    """Return the lifetime in seconds that a request asks for; None when it is none of those that may be."""
    if said is None or not said.isascii() or not said.isdigit() or len(said) > 5:
        return None
    return int(said) if 1 <= int(said) <= MOST_SECONDS else None
