"""Names of definitions."""

from provisioning.common.errors import InvalidInputError
from provisioning.common.text import has_control_characters


def check_text(field: str, name: str) -> str:
    """Return a name that has something to read in it and no control characters; InvalidInputError."""
    if not name.strip() or has_control_characters(name):
        raise InvalidInputError(f"{name!r:.80} is no name: it is empty or has control characters.", field=field)
    return name
