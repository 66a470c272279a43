"""Uploads a copy of a guest's disk to the portal as the data of an image. The portal permits this only while a command
refers to the image.
"""

import contextlib
import http.client
import logging
import select
import time
from collections.abc import Iterator
from pathlib import Path

from compute_agent.link.dial import SocketOpener
from compute_agent.link.portal_http import PortalHttp, image_path
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import ImageSendError, StoppedError
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

FOLDER = "outgoing"
CHUNK = 1024 * 1024
JUDGE_TIMEOUT = 600.0
"""Seconds after the transfer within which the portal must have validated and stored the data."""
PAUSE, PAUSE_MAX = 0.25, 10.0
"""Seconds before the first retry; doubles, up to ``PAUSE_MAX``."""
POLL = 0.1
"""Seconds between two checks for cancellation."""
FINAL = frozenset({400, 403, 404, 410, 413, 415})
"""Statuses for which retries are useless: the command was withdrawn, the image deleted, the data rejected."""
LONGEST = 300
"""Limit of the portal's message, in characters."""


class _AnsweredError(Exception):
    """The portal has answered before it received all data."""


class ImageSender:
    """Uploads images for one host.  Used from worker threads."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host. Copies are stored in the host's state folder until they are
        sent.
        """
        self._folder = settings.state_dir / FOLDER
        self._portal = PortalHttp(settings, opener)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Yield a path for a copy; the file is removed afterwards."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / name
        path.unlink(missing_ok=True)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the copies that a killed agent has left."""
        for path in self._folder.glob("*"):
            path.unlink()
            log.info("Removed an unsent image: %s", path.name)

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Upload the file, with retries while the portal is unreachable or unavailable.

        Raises ImageSendError if the portal rejects the data, StoppedError if ``stopped`` returns True.
        """
        pause = PAUSE
        while True:
            try:
                status, reason = self._try(path, image_path(instance_uuid, image_id), stopped)
            except (OSError, http.client.HTTPException) as error:
                status, reason = 0, repr(error)
            if 200 <= status < 300:
                return
            if status in FINAL:
                raise ImageSendError(
                    reason or "The image could not be sent.", detail=f"the portal answers HTTP {status}"
                )
            log.warning("Image %s could not be sent, trying again: %s %s", image_id, status or "", reason)
            _wait(pause, stopped)
            pause = min(2 * pause, PAUSE_MAX)

    def _try(self, path: Path, address: str, stopped: Stopped) -> tuple[int, str]:
        """Return the portal's status and message."""
        if stopped():
            raise _stopped()
        with contextlib.closing(self._portal.connect()) as connection:
            length = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
            with contextlib.suppress(_AnsweredError):
                body = self._pieces(path, connection, stopped)
                connection.request("PUT", address, body=body, headers=self._portal.headers() | length)
            if connection.sock is not None:
                connection.sock.settimeout(JUDGE_TIMEOUT)
            with connection.getresponse() as response:
                return response.status, _reason(response)

    def _pieces(self, path: Path, connection: http.client.HTTPConnection, stopped: Stopped) -> Iterator[bytes]:
        total = path.stat().st_size
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                if stopped():
                    raise _stopped()
                # With TLS, a socket also becomes readable for protocol reasons.
                if not self._portal.encrypted and select.select([connection.sock], [], [], 0)[0]:
                    raise _AnsweredError
                progress.moved(file.tell(), total)
                yield piece


def _reason(response: http.client.HTTPResponse) -> str:
    """Return the portal's message for the owner of the image."""
    if not str(response.headers.get("Content-Type", "")).startswith("text/plain"):
        return ""
    return response.read(4 * LONGEST).decode(errors="replace").strip()[:LONGEST]


def _wait(seconds: float, stopped: Stopped) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if stopped():
            raise _stopped()
        time.sleep(POLL)


def _stopped() -> StoppedError:
    return StoppedError("The image could not be sent in time.")
