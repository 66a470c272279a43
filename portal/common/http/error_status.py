"""The HTTP status of every anticipated error, for the APIs and for hosts."""

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, UnreadablePostError

from provisioning.common.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    NotOfferedError,
    OverQuotaError,
    TooLargeError,
    TooManyRequestsError,
    UnavailableError,
)
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.network.errors import RevisionNumberConstraintFailedError

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (TooManyAttemptsError, 429),
    (TooManyRequestsError, 429),
    (InvalidInputError, 400),
    (NotAuthenticatedError, 401),
    (ForbiddenError, 403),
    (GoneError, 410),
    (NotFoundError, 404),
    (ConflictError, 409),
    (RevisionNumberConstraintFailedError, 412),
    (OverQuotaError, 403),
    (TooLargeError, 413),
    (UnavailableError, 503),
    (NotOfferedError, 501),
    (RequestDataTooBig, 413),
    (SuspiciousOperation, 400),
    (UnreadablePostError, 400),
    (Http404, 404),
    (PermissionDenied, 403),
)
"""Error class → status, subclasses before their bases."""

OVER_QUOTA_STATUS = {"network": 409, "image": 413, "volume": 413}
"""Services with a status other than 403 for an exceeded quota."""


def status_of(error: Exception, service: str) -> int | None:
    """Return the status of an error in a service (``compute`` …); None for an unexpected error."""
    if isinstance(error, OverQuotaError) and service in OVER_QUOTA_STATUS:
        return OVER_QUOTA_STATUS[service]
    return next((status for kind, status in STATUS if isinstance(error, kind)), None)
