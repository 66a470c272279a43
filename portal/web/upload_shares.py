"""Uploads at the same time, by whose they are: each waits in a thread, and nobody may take all of these."""

import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import Iterator

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import TooManyRequestsError

RETRY_AFTER = 10
"""Seconds."""
_lock = threading.Lock()
_open: Counter[uuid.UUID | None] = Counter()


@contextlib.contextmanager
def share_of(context: RequestContext) -> Iterator[None]:
    """Count an upload of a user in a project while it lasts.

    Raises TooManyRequestsError when either has ``UPLOADS_AT_ONCE`` in this process.
    """
    owners = {context.project_id, context.user_id}
    with _lock:
        if any(_open[owner] >= settings.UPLOADS_AT_ONCE for owner in owners):
            text = f"You have {settings.UPLOADS_AT_ONCE} uploads going on. Wait until one of them has ended."
            raise TooManyRequestsError(text, retry_after=RETRY_AFTER)
        _open.update(owners)
    try:
        yield
    finally:
        with _lock:
            _open.subtract(owners)
            for owner in owners:
                if not _open[owner]:
                    del _open[owner]
