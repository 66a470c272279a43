"""Digests of property values, which filters of images use because the values are too long for an index."""

import hashlib


def digest(value: str) -> str:
    """Return the SHA-256 of a value in hexadecimal, as in ``ImageProperty.digest``."""
    return hashlib.sha256(value.encode()).hexdigest()
