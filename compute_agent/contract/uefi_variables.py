"""The variables of a guest's UEFI firmware as they travel with an image of its disk: packed, as a property."""

import base64
import binascii
import zlib

PROPERTY = "novella_uefi_variables"
"""The property of images of servers; a server that is launched from one begins with these variables."""
MOST_TEXT = 48 * 1024
"""Characters of a property with variables: a few thousand are usual."""
MOST_BYTES = 4 << 20


def pack(variables: bytes) -> str:
    """Return the variables as text; empty when they are too large to travel."""
    text = base64.b64encode(zlib.compress(variables, 9)).decode()
    return text if len(text) <= MOST_TEXT else ""


def unpack(text: str) -> bytes | None:
    """Return variables; None for what is none, or is larger than firmware can be: anybody may have written it."""
    if not text or len(text) > MOST_TEXT:
        return None
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError):
        return None
    return found if stream.eof else None
