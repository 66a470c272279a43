"""Hashes of application credentials' secrets: a fast one for a secret drawn here, Argon2 for one a person chose.

A drawn secret has 288 random bits, so that one SHA-256 keeps it as well as Argon2 would, in a thousandth of the time.
It ends with a check of itself: which hash has to be computed shows in the secret that is presented, never in the record
it is compared with, and the work is the same whether that record exists or not.
"""

import base64
import hashlib
import secrets

from django.contrib.auth.hashers import check_password, make_password
from django.utils.crypto import constant_time_compare, get_random_string

LONGEST = 1024
"""Characters of a secret."""
_FAST = "sha256"
_DRAWN = 64
_CHECK = 8


def draw() -> str:
    """Return a new secret of 72 characters that need no quoting in a shell, a URL or YAML."""
    while True:
        drawn = secrets.token_urlsafe(48)
        if drawn[0].isalnum():  # a hyphen at the front would be taken for an option at a command line
            return drawn + _check_of(drawn)


def hash_of(secret: str) -> str:
    if not _was_drawn(secret):
        return make_password(secret)
    salt = get_random_string(22)
    return f"{_FAST}${salt}${_digest(salt, secret)}"


def matches(secret: str, encoded: str | None) -> bool:
    """Whether ``encoded`` was made of this secret; None, for a record that does not exist, takes the same work."""
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
