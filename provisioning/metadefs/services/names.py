"""Names of definitions."""

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.text import has_control_characters


def check_text(field: str, name: str) -> str:
    """Return the name. Raises InvalidInputError if it is blank or has control characters."""
    if not name.strip() or has_control_characters(name):
        raise InvalidInputError(f"The name {name!r:.80} is empty or has control characters.", field=field)
    return name
