"""Errors of authentication."""

import uuid

from provisioning.common.errors import NotAuthenticatedError

REFUSED = "The request you have made requires authentication."
"""Keystone's message, the same for all reasons, so that it reveals nothing."""


class TooManyAttemptsError(NotAuthenticatedError):
    """Too many wrong passwords for this name from this address, whether or not the name exists."""

    code = "too_many_attempts"

    def __init__(self, retry_after: int) -> None:
        """``retry_after`` is in seconds."""
        self.retry_after = retry_after
        unit = "second" if retry_after == 1 else "seconds"
        super().__init__(f"Too many failed sign-ins. Try again in {retry_after} {unit}.")


class PasswordExpiredError(NotAuthenticatedError):
    """The password was correct but has expired; the user must change it first."""

    code = "password_expired"

    def __init__(self, user_id: uuid.UUID) -> None:
        self.user_id = user_id
        super().__init__(f"The password is expired and needs to be changed for user: {user_id.hex}.")
