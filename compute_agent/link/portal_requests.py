"""Requests with small bodies to the portal, repeated while it is unavailable."""

import contextlib
import http.client
import logging
import time
from collections.abc import Mapping
from typing import ClassVar

from compute_agent.link.dial import SocketOpener
from compute_agent.link.portal_http import PortalHttp
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, StoppedError
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

PAUSE, PAUSE_MAX = 0.25, 10.0
"""Seconds before the first retry; doubles, up to ``PAUSE_MAX``."""
PATIENCE = 300.0
"""Seconds for which one request is retried while the portal or its store is unavailable."""
POLL = 0.1
"""Seconds between two checks for cancellation."""
LONGEST_REASON = 300
"""Limit of the portal's message, in characters."""
FINAL = 507
"""The status if a store of the portal is full. Retries are useless then, and for every status from 400 to 499 except
401 and 409.
"""
NO_HEADERS: Mapping[str, str] = {}


class PortalRequests:
    """One host's requests. Used from worker threads; each request has its own connection."""

    failure: ClassVar[type[HostError]]
    """Raised when the portal refuses a request, or is unavailable for too long."""
    what: ClassVar[str]
    """The subject of messages about the transfer."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host."""
        self._portal = PortalHttp(settings, opener)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        stopped: Stopped,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        longest: int = -1,
    ) -> bytes:
        """Send a request, with retries while the portal or its store is unavailable. Return at most ``longest`` bytes
        of the response; -1: all.

        Raises ``failure`` with the portal's message if a retry is useless, StoppedError if the command is cancelled.
        """
        pause, until = PAUSE, time.monotonic() + PATIENCE
        while True:
            if stopped():
                raise StoppedError(f"{self.what} was stopped.")
            try:
                status, answer = self._try(method, path, body, headers, longest)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, repr(error).encode()
            progress.moved()
            if 200 <= status < 300:
                return answer
            reason = answer[: 4 * LONGEST_REASON].decode(errors="replace").strip()[:LONGEST_REASON]
            useless = (400 <= status < 500 and status not in {401, 409}) or status == FINAL
            if useless or time.monotonic() > until:
                sentence = reason if status else "The portal could not be reached."
                raise self.failure(sentence, detail=f"{method} {path}: HTTP {status} {reason}")
            log.warning("%s failed, retrying: %s %s", self.what, status or "", reason)
            _wait(pause, stopped)
            pause = min(2 * pause, PAUSE_MAX)

    def _try(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], longest: int
    ) -> tuple[int, bytes]:
        """Send the request once. Return the status and the response. Raises OSError, HTTPException."""
        sent = {**self._portal.headers(), **headers}
        if body is not None:
            sent["Content-Type"] = "application/octet-stream"
        with contextlib.closing(self._portal.connect()) as connection:
            connection.request(method, path, body=body, headers=sent)
            with connection.getresponse() as response:
                answer = response.read(longest)
                if response.length:
                    raise http.client.IncompleteRead(answer)
                return response.status, answer


def _wait(seconds: float, stopped: Stopped) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopped():
        time.sleep(POLL)
