"""Uploads backups to the portal and downloads them, in chunks. The portal permits this only while a command of the host
refers to the backup.
"""

import contextlib
import hashlib
import http.client
import logging
import time
from urllib.parse import quote

import msgspec

from compute_agent.disk_formats.extents import LONGEST
from compute_agent.link.dial import SocketOpener
from compute_agent.link.portal_http import PortalHttp
from compute_agent.settings import AgentSettings
from compute_agent.virt import progress
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import BackupTransferError, StoppedError
from compute_agent.volumes.backup_outlet import BackupOutlet, Progress, SentBackup, StoredBackup

log = logging.getLogger(__name__)

PAUSE, PAUSE_MAX = 0.25, 10.0
"""Seconds before the first retry; doubles, up to ``PAUSE_MAX``."""
PATIENCE = 300.0
"""Seconds for which one chunk is retried while the portal or its store is unavailable."""
POLL = 0.1
"""Seconds between two checks for cancellation."""
LONGEST_REASON = 300
"""Limit of the portal's message, in characters."""
FINAL = 507
"""The status if the backup store is full. Retries are useless then, and for every status from 400 to 499 except 401 and
409.
"""


class BackupLink(BackupOutlet):
    """One host's access to the portal's backup store. Used from worker threads; each thread has its own connection."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host."""
        self._portal = PortalHttp(settings, opener)

    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        digest = hashlib.sha256(chunk).hexdigest()
        self._ask("PUT", f"{_path(backup_id)}/chunks/{number}/{digest}", chunk, done, stopped)
        return digest

    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        self._ask("PUT", f"{_path(backup_id)}/manifest", msgspec.json.encode(sent), Progress(0, 0), stopped)

    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        text = self._ask("GET", f"{_path(backup_id)}/manifest", None, Progress(0, 0), stopped)
        try:
            return msgspec.json.decode(text, type=StoredBackup)
        except msgspec.MsgspecError as error:
            raise BackupTransferError("The backup could not be fetched.", detail=str(error)) from error

    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        chunk = self._ask("GET", f"{_path(backup_id)}/chunks/{number}/{digest}", None, done, stopped)
        if hashlib.sha256(chunk).hexdigest() != digest:
            raise BackupTransferError("The backup could not be fetched.", detail=f"chunk {number} is not what it was")
        return chunk

    def _ask(self, method: str, path: str, body: bytes | None, done: Progress, stopped: Stopped) -> bytes:
        """Send a request, with retries while the portal or its store is unavailable.

        Raises BackupTransferError with the portal's message if a retry is useless, StoppedError if the command is
        cancelled.
        """
        pause, until = PAUSE, time.monotonic() + PATIENCE
        while True:
            if stopped():
                raise StoppedError("The backup was stopped.")
            try:
                status, answer = self._try(method, path, body, done)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, repr(error).encode()
            progress.moved()
            if 200 <= status < 300:
                return answer
            reason = answer[: 4 * LONGEST_REASON].decode(errors="replace").strip()[:LONGEST_REASON]
            useless = (400 <= status < 500 and status not in {401, 409}) or status == FINAL
            if useless or time.monotonic() > until:
                said = reason if status else "The portal could not be reached."
                raise BackupTransferError(said, detail=f"{method} {path}: HTTP {status} {reason}")
            log.warning("A part of a backup could not be transferred, retrying: %s %s", status or "", reason)
            _wait(pause, stopped)
            pause = min(2 * pause, PAUSE_MAX)

    def _try(self, method: str, path: str, body: bytes | None, done: Progress) -> tuple[int, bytes]:
        headers = self._portal.headers() | {"X-Novella-Progress": f"{done.bytes}/{done.total}"}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        with contextlib.closing(self._portal.connect()) as connection:
            connection.request(method, path, body=body, headers=headers)
            with connection.getresponse() as response:
                answer = response.read(2 * LONGEST if "/chunks/" in path else -1)
                if response.length:
                    raise http.client.IncompleteRead(answer)
                return response.status, answer


def _path(backup_id: str) -> str:
    return f"/agent/v1/backups/{quote(backup_id, safe='')}"


def _wait(seconds: float, stopped: Stopped) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopped():
        time.sleep(POLL)
