"""Roots of every anticipated error: a code for programs, a message fit for users, no HTTP.

Each face has one table from these classes to its own wording and status.
"""


class NovellaError(Exception):
    """Base: ``message`` may be shown to the user, ``field`` names the input it is about (``imageRef``, ``name``)."""

    code = "error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInputError(NovellaError):
    """The request cannot be right (HTTP 400)."""

    code = "invalid_input"


class NotAuthenticatedError(NovellaError):
    """Nobody known asks (401)."""

    code = "not_authenticated"


class ForbiddenError(NovellaError):
    """Known, but not allowed (403)."""

    code = "forbidden"


class NotFoundError(NovellaError):
    """No such thing, or not the caller's (404)."""

    code = "not_found"


class GoneError(NotFoundError):
    """It was there when the request began, and is no more; or is offered no longer (410)."""

    code = "gone"


class ConflictError(NovellaError):
    """Right in itself, but not in the present state (409)."""

    code = "conflict"


class OverQuotaError(NovellaError):
    """A limit of the project would be exceeded (403 in Compute and Neutron's 409, by the face)."""

    code = "over_quota"

    def __init__(self, resource: str, *, limit: int, used: int, asked: int, of_user: bool = False) -> None:
        """Name the limit, what is used, and what was asked for; ``of_user``: it is a user's own in the project."""
        self.resource, self.limit, self.used, self.asked, self.of_user = resource, limit, used, asked, of_user
        left = max(limit - used, 0)
        super().__init__(
            f"Quota exceeded for {resource}: Requested {asked}, but already used {used} of {limit} {resource}"
            f" ({left} left)"
        )


class TooLargeError(NovellaError):
    """More than this service takes (413)."""

    code = "too_large"


class UnavailableError(NovellaError):
    """Not now: a host or a worker does not answer (503)."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        """``retry_after``: seconds, from 1; None: nobody knows."""
        super().__init__(message)
        self.retry_after = retry_after


class TooManyRequestsError(NovellaError):
    """More at once, or in so short a time, than one project or person may ask for (429)."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: int) -> None:
        """``retry_after``: seconds, from 1."""
        super().__init__(message)
        self.retry_after = retry_after


class NotOfferedError(NovellaError):
    """Known to the API, and not done by this cloud (501)."""

    code = "not_offered"
