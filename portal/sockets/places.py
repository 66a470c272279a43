"""How many sockets each user and each session has open in this web process."""

import uuid
from collections import Counter
from collections.abc import Sequence

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError

Place = tuple[str, object]


class TooManySocketsError(NovellaError):
    """The user or the session has as many sockets open as it may."""

    code = "too_many_sockets"


class Places:
    """Counts; used in the event loop's thread alone."""

    def __init__(self) -> None:
        self._taken: Counter[Place] = Counter()

    def take(self, context: RequestContext) -> list[Place]:
        """Count one more socket of the caller; returns what ``leave`` takes.  Raises TooManySocketsError."""
        session: uuid.UUID | str | None = context.sign_in_id or context.application_credential_id or context.audit_id
        places: list[tuple[Place, int]] = [
            (("user", context.user_id), settings.SOCKETS_PER_USER),
            (("session", session), settings.SOCKETS_PER_SESSION),
        ]
        if any(self._taken[place] >= most for place, most in places):
            raise TooManySocketsError("You have too many live pages and consoles open. Close some of them first.")
        taken = [place for place, _ in places]
        self._taken.update(taken)
        return taken

    def leave(self, taken: Sequence[Place]) -> None:
        self._taken.subtract(taken)
        for place in taken:
            if not self._taken[place]:
                del self._taken[place]


places = Places()
