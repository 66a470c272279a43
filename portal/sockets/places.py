"""Limits of the sockets of each user and each session on this machine."""

import uuid

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.common.machine.machine_shares import shares


class TooManySocketsError(NovellaError):
    """The user or the session has reached its limit of sockets."""

    code = "too_many_sockets"


def reserve(context: RequestContext) -> list[int]:
    """Count a socket for the caller. Returns the slots to release with ``shares.release``. Raises
    TooManySocketsError.
    """
    session: uuid.UUID | str | None = context.sign_in_id or context.application_credential_id or context.audit_id
    limits = {
        f"sockets of user {context.user_id}": settings.SOCKETS_PER_USER,
        f"sockets of session {session}": settings.SOCKETS_PER_SESSION,
    }
    taken = shares.acquire(limits)
    if taken is None:
        raise TooManySocketsError("You have too many live pages and consoles open. Close some of them first.")
    return taken
