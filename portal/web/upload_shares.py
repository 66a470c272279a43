"""Limits of simultaneous uploads, as each occupies a thread: no user or project may occupy all of them."""

import contextlib
from collections.abc import Iterator

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import TooManyRequestsError
from provisioning.common.machine_shares import shares

RETRY_AFTER = 10
"""Seconds."""


@contextlib.contextmanager
def share_of(context: RequestContext) -> Iterator[None]:
    """Count an upload of a user in a project while it runs.

    Raises TooManyRequestsError if either has ``UPLOADS_AT_ONCE`` on this machine.
    """
    most = settings.UPLOADS_AT_ONCE
    taken = shares.take({f"upload {owner}": most for owner in (context.project_id, context.user_id)})
    if taken is None:
        text = f"You have {most} uploads in progress. Wait until one of them has finished."
        raise TooManyRequestsError(text, retry_after=RETRY_AFTER)
    try:
        yield
    finally:
        shares.give_back(taken)
