"""Reading a form's fields: text to values, and errors to their fields."""

from __future__ import annotations

from provisioning.common.errors import InvalidInputError

MOST = 2_147_483_647


def whole_number(text: str, what: str, *, field: str, empty: int | None = None) -> int:
    """Read a number; ``empty`` stands for nothing typed.  Raises InvalidInputError naming ``what`` at ``field``."""
    text = text.strip()
    if not text and empty is not None:
        return empty
    if not (text.isascii() and text.isdigit()) or int(text[:11]) > MOST or len(text) > 10:
        raise InvalidInputError(f"{what} must be a whole number from 0 to {MOST}.", field=field)
    return int(text)
