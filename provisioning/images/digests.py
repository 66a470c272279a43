"""What stands for a property's value where images are filtered: values are too long for an index."""

import hashlib


def digest(value: str) -> str:
    """Return the value's SHA-256 in hexadecimal, as ``ImageProperty.digest`` holds it."""
    return hashlib.sha256(value.encode()).hexdigest()
