"""Hashes of application credentials' secrets: a fast one for generated secrets, Argon2 for secrets that a user chose.

A generated secret has 288 random bits, so one SHA-256 protects it as well as Argon2, in a thousandth of the time. A
generated secret ends with its own checksum. So the presented secret alone determines which hash is computed, and the
work is the same whether or not the credential exists.
"""

import base64
import contextlib
import ctypes
import hashlib
import os
import secrets
import threading

from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password
from django.utils.crypto import constant_time_compare, get_random_string

_AT_ONCE = threading.BoundedSemaphore(max(2, min(os.cpu_count() or 2, 4)))
"""Each hash takes 19 MiB, so unauthenticated clients must not determine how many run concurrently."""

_M_MMAP_THRESHOLD = -3  # malloc.h


def _return_memory() -> None:
    """Make glibc return large memory blocks to the system when they are freed.

    By default, glibc keeps such blocks in the arena of each thread after the first hash: after logins in 16 threads, a
    process used 300 MiB more. Other C libraries return such blocks anyway, and do not have this call.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)


_return_memory()


class Argon2Hasher(Argon2PasswordHasher):
    """Argon2id with time cost 2, 19,456 KiB and one lane; limits how many hashes run concurrently in a process."""

    time_cost = 2
    memory_cost = 19_456
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        with _AT_ONCE:
            return str(super().encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        with _AT_ONCE:
            return bool(super().verify(password, encoded))


LONGEST = 1024
"""Maximum length of a secret."""
_FAST = "sha256"
_DRAWN = 64
_CHECK = 8


def draw() -> str:
    """Return a new secret of 72 characters that need no quoting in a shell, a URL or YAML."""
    while True:
        drawn = secrets.token_urlsafe(48)
        if drawn[0].isalnum():  # a leading hyphen would be parsed as an option on a command line
            return drawn + _check_of(drawn)


def hash_of(secret: str) -> str:
    if not _was_drawn(secret):
        return make_password(secret)
    salt = get_random_string(22)
    return f"{_FAST}${salt}${_digest(salt, secret)}"


def matches(secret: str, encoded: str | None) -> bool:
    """Return whether ``encoded`` is the hash of this secret. None (a missing credential) takes the same work."""
    if len(secret) > LONGEST:
        return False
    if _was_drawn(secret):
        kind, _, rest = (encoded or "").partition("$")
        salt, _, digest = rest.partition("$")
        return constant_time_compare(_digest(salt, secret), digest) and kind == _FAST
    if encoded is None or encoded.startswith(f"{_FAST}$"):
        make_password(secret)
        return False
    return check_password(secret, encoded)


def _was_drawn(secret: str) -> bool:
    return (
        secret.isascii()
        and len(secret) == _DRAWN + _CHECK
        and constant_time_compare(_check_of(secret[:_DRAWN]), secret[_DRAWN:])
    )


def _check_of(drawn: str) -> str:
    digest = hashlib.sha256(b"novella application credential " + drawn.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_CHECK]


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}${secret}".encode()).hexdigest()
