"""Uploads at the same time, by whose they are: each waits in a thread, and nobody may take all of these."""

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
    """Count an upload of a user in a project while it lasts.

    Raises TooManyRequestsError when either has ``UPLOADS_AT_ONCE`` on this machine.
    """
    most = settings.UPLOADS_AT_ONCE
    taken = shares.take({f"upload {owner}": most for owner in (context.project_id, context.user_id)})
    if taken is None:
        text = f"You have {most} uploads going on. Wait until one of them has ended."
        raise TooManyRequestsError(text, retry_after=RETRY_AFTER)
    try:
        yield
    finally:
        shares.give_back(taken)
