"""Sends the copy of a guest's disk to the portal as the data of an image; the right to it comes with a command."""

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
from compute_agent.virt import progress
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import ImageSendError, StoppedError

log = logging.getLogger(__name__)

FOLDER = "outgoing"
CHUNK = 1024 * 1024
JUDGE_TIMEOUT = 600.0
"""Seconds that the portal may take to judge and store the data once it has all of it."""
PAUSE, PAUSE_MAX = 0.25, 10.0
"""Seconds before the next try; doubles."""
POLL = 0.1
"""Seconds between two checks whether to stop."""
FINAL = frozenset({400, 403, 404, 410, 413, 415})
"""Answers that no other try will change: the command was withdrawn, the image deleted, the data refused."""
LONGEST = 300
"""Characters of the portal's reason."""


class _AnsweredError(Exception):
    """The portal has answered before it had all of the data."""


class ImageSender:
    """One host's way out for images.  Used from worker threads."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host; copies lie in its state folder until they are sent."""
        self._folder = settings.state_dir / FOLDER
        self._portal = PortalHttp(settings, opener)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Give a place for a copy; whatever is there afterwards is removed."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / name
        path.unlink(missing_ok=True)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what an agent that died has left."""
        for path in self._folder.glob("*"):
            path.unlink()
            log.info("Removed an unsent image: %s", path.name)

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Send the file's bytes, again and again while the portal cannot be reached or cannot take them now.

        Raises ImageSendError when the portal will never take them, StoppedError when ``stopped`` returns True.
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
        """Return the portal's status and reason."""
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
                # Over TLS a socket also becomes readable for reasons of its own.
                if not self._portal.encrypted and select.select([connection.sock], [], [], 0)[0]:
                    raise _AnsweredError
                progress.moved(file.tell(), total)
                yield piece


def _reason(response: http.client.HTTPResponse) -> str:
    """Return the portal's reason in words fit for the owner of the image."""
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
