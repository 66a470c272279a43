"""Session tokens of the metadata service, as in EC2's version 2.

An attacker may cause a program in the guest to send a request to a chosen address (SSRF). Such a request cannot read
metadata, because it has neither the method ``PUT`` nor custom headers. Tokens are not stored: they contain their expiry
time and a signature. The signing key exists only as long as the service runs.
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
    """Creates and verifies tokens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def make(self, uuid: str, seconds: int) -> str:
        """Return a token with which this guest can read its metadata for ``seconds`` seconds."""
        end = _END.pack(self._clock() + seconds)
        return base64.urlsafe_b64encode(end + self._signature(uuid, end)).decode()

    def is_good(self, uuid: str, token: str) -> bool:
        """Return whether a token was issued to this guest, and has not expired."""
        try:
            decoded = base64.b64decode(token, altchars=b"-_", validate=True)
        except ValueError:
            return False
        end, signature = decoded[: _END.size], decoded[_END.size :]
        if not hmac.compare_digest(signature, self._signature(uuid, end)):
            return False
        return self._clock() < float(_END.unpack(end)[0])

    def _signature(self, uuid: str, end: bytes) -> bytes:
        return hmac.new(self._key, uuid.encode() + end, hashlib.sha256).digest()


def read_ttl(text: str | None) -> int | None:
    """Return the requested lifetime in seconds; None if it is invalid."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 5:
        return None
    return int(text) if 1 <= int(text) <= MOST_SECONDS else None
