"""Reading ids that come from outside: a UUID with dashes or as 32 hexadecimal characters, and nothing else."""

from __future__ import annotations

import re
import uuid

from provisioning.common.errors import NotFoundError

_FORM = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def read_id(text: object) -> uuid.UUID | None:
    """Return the UUID that ``text`` spells, or None; never raises."""
    if isinstance(text, uuid.UUID):
        return text
    if not isinstance(text, str) or not _FORM.fullmatch(text):
        return None
    return uuid.UUID(text)


def existing_id(text: object, what: str) -> uuid.UUID:
    """Return the UUID, or raise NotFoundError: what is no id names nothing.  ``what`` is a word like ``Instance``."""
    found = read_id(text)
    if found is None:
        shown = str(text)[:64]
        raise NotFoundError(f"{what} {shown} could not be found.")
    return found
