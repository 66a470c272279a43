"""Errors of launch templates and snippets."""

from provisioning.common.errors import ConflictError, InvalidInputError


class LockedFieldError(InvalidInputError):
    """The launch differs from its template in a locked field."""

    code = "locked_field"


class TooManyError(ConflictError):
    """The project has the maximum number of these records."""

    code = "too_many"
