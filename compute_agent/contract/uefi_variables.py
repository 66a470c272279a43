"""The UEFI variables of a guest, packed as a property of an image of its disk."""

import base64
import binascii
import zlib

PROPERTY = "novella_uefi_variables"
"""The image property with the variables. A server that is launched from an image with this property starts with them.
"""
MOST_TEXT = 48 * 1024
"""Limit of the property, in characters; a few thousand are usual."""
MOST_BYTES = 4 << 20


def pack(variables: bytes) -> str:
    """Return the variables as text; empty if they are too large."""
    text = base64.b64encode(zlib.compress(variables, 9)).decode()
    return text if len(text) <= MOST_TEXT else ""


def unpack(text: str) -> bytes | None:
    """Return the variables; None if the text is invalid or too large, because any user may have written it."""
    if not text or len(text) > MOST_TEXT:
        return None
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError):
        return None
    return found if stream.eof else None
