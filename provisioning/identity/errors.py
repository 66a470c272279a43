"""Errors of signing in."""

import uuid

from provisioning.common.errors import NotAuthenticatedError

REFUSED = "The request you have made requires authentication."
"""Keystone's sentence; the same for every reason, so that it tells nothing."""


class TooManyAttemptsError(NotAuthenticatedError):
    """Too many wrong passwords for this name from this address, whether the name exists or not."""

    code = "too_many_attempts"

    def __init__(self, retry_after: int) -> None:
        """Say in how many seconds to try again."""
        self.retry_after = retry_after
        unit = "second" if retry_after == 1 else "seconds"
        super().__init__(f"Too many failed sign-ins. Try again in {retry_after} {unit}.")


class PasswordExpiredError(NotAuthenticatedError):
    """The password was right and is too old: its user has to choose another one first."""

    code = "password_expired"

    def __init__(self, user_id: uuid.UUID) -> None:
        """Say it in Keystone's words."""
        self.user_id = user_id
        super().__init__(f"The password is expired and needs to be changed for user: {user_id.hex}.")
