"""Parsing of ids from outside: a UUID with dashes or as 32 hexadecimal characters."""

import re
import uuid

NOBODY = uuid.UUID(int=0)
"""An id that no row has, used for invalid ids."""
_FORM = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def read_id(text: object) -> uuid.UUID | None:
    """Return the UUID in ``text``, or None; never raises."""
    if isinstance(text, uuid.UUID):
        return text
    if not isinstance(text, str) or not _FORM.fullmatch(text):
        return None
    return uuid.UUID(text)
