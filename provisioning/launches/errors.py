"""Errors of launch templates and snippets."""

from collections.abc import Mapping

from provisioning.common.errors import ConflictError, InvalidInputError


class LockedFieldError(InvalidInputError):
    """The launch differs from its template in a locked field."""

    code = "locked_field"


class LockedValuesError(InvalidInputError):
    """A launch template locks values that no launch could have. ``messages``: locked field → its error."""

    code = "locked_values"

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__(" ".join(messages.values()), field=next(iter(messages)))
        self.messages = messages


class TooManyError(ConflictError):
    """The project has the maximum number of these records."""

    code = "too_many"
