"""Base classes of all anticipated errors: a code for programs and a message fit for users, independent of HTTP.

Each API has one table from these classes to its own wording and status.
"""

from collections.abc import Sequence


class NovellaError(Exception):
    """Base class. ``message`` may be shown to the user; ``field`` is the name of the invalid input (``imageRef``,
    ``name``).
    """

    code = "error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInputError(NovellaError):
    """The request is invalid (HTTP 400). ``others``: inputs that are invalid only together with ``field``: another
    value of any of them can be a correction.
    """

    code = "invalid_input"

    def __init__(self, message: str, *, field: str | None = None, others: Sequence[str] = ()) -> None:
        super().__init__(message, field=field)
        self.others = others


class NotAuthenticatedError(NovellaError):
    """The caller is not authenticated (401)."""

    code = "not_authenticated"


class ForbiddenError(NovellaError):
    """The caller is authenticated, but not allowed (403)."""

    code = "forbidden"


class NotFoundError(NovellaError):
    """The object does not exist, or does not belong to the caller (404)."""

    code = "not_found"


class GoneError(NotFoundError):
    """The object was deleted during the request, or is no longer available (410)."""

    code = "gone"


class ConflictError(NovellaError):
    """The request is valid, but not in the current state (409)."""

    code = "conflict"


class OverQuotaError(NovellaError):
    """A limit of the project or user would be exceeded (403 in Compute, 409 in Neutron)."""

    code = "over_quota"

    def __init__(self, resource: str, *, limit: int, used: int, requested: int, of_user: bool = False) -> None:
        """Compose the message from the limit, the usage and the requested amount; ``of_user``: the limit is the user's
        own.
        """
        self.resource, self.limit, self.used, self.requested, self.of_user = resource, limit, used, requested, of_user
        left = max(limit - used, 0)
        super().__init__(
            f"Quota exceeded for {resource}: Requested {requested}, but already used {used} of {limit} {resource}"
            f" ({left} left)"
        )


class TooLargeError(NovellaError):
    """The request exceeds a maximum size (413)."""

    code = "too_large"


class UnavailableError(NovellaError):
    """Temporarily unavailable: a host or a worker does not answer (503)."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        """``retry_after``: seconds, at least 1; None: unknown."""
        super().__init__(message)
        self.retry_after = retry_after


class TooManyRequestsError(NovellaError):
    """Too many requests of a project or user, concurrently or in a period (429)."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: int) -> None:
        """``retry_after``: seconds, at least 1."""
        super().__init__(message)
        self.retry_after = retry_after


class NotOfferedError(NovellaError):
    """Part of the API, but not supported by this cloud (501)."""

    code = "not_offered"
