"""Ids that are integers."""

import re

from provisioning.common.errors import InvalidInputError

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def read_number(text: str) -> int:
    """Read an id in a path. As in Nova, raises InvalidInputError if it is not a whole number."""
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"Invalid input received: id must be a whole number, not {text[:64]!r}.")
    return int(text)
