"""Limits simultaneous uploads. Each upload occupies a thread, and no user or project may occupy all threads."""

import contextlib
from collections.abc import Iterator

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import TooManyRequestsError
from provisioning.common.machine.machine_shares import shares

RETRY_AFTER = 10
"""Seconds after which a refused client should retry."""


@contextlib.contextmanager
def share_of(context: RequestContext) -> Iterator[None]:
    """Count an upload of a user in a project while it runs.

    Raises TooManyRequestsError if the user or the project has ``UPLOADS_AT_ONCE`` uploads on this machine.
    """
    most = settings.UPLOADS_AT_ONCE
    taken = shares.acquire({f"upload {owner}": most for owner in (context.project_id, context.user_id)})
    if taken is None:
        text = f"You have {most} uploads in progress. Wait until one of them has finished."
        raise TooManyRequestsError(text, retry_after=RETRY_AFTER)
    try:
        yield
    finally:
        shares.release(taken)
