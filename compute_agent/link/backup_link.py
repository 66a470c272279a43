"""Uploads backups to the portal and downloads them, in chunks. The portal permits this only while a command of the host
refers to the backup.
"""

import hashlib
from urllib.parse import quote

import msgspec

from compute_agent.disk_formats.extents import LONGEST
from compute_agent.link.portal_requests import PortalRequests
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import BackupTransferError
from compute_agent.volumes.backup_outlet import BackupOutlet, Progress, SentBackup, StoredBackup


class BackupLink(PortalRequests, BackupOutlet):
    """One host's access to the portal's backup store."""

    failure = BackupTransferError
    what = "The transfer of a backup"

    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        digest = hashlib.sha256(chunk).hexdigest()
        self._ask("PUT", f"{_path(backup_id)}/chunks/{number}/{digest}", chunk, stopped, headers=_headers(done))
        return digest

    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        self._ask("PUT", f"{_path(backup_id)}/manifest", msgspec.json.encode(sent), stopped)

    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        text = self._ask("GET", f"{_path(backup_id)}/manifest", None, stopped)
        try:
            return msgspec.json.decode(text, type=StoredBackup)
        except msgspec.MsgspecError as error:
            raise BackupTransferError("The backup could not be fetched.", detail=str(error)) from error

    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        path = f"{_path(backup_id)}/chunks/{number}/{digest}"
        chunk = self._ask("GET", path, None, stopped, headers=_headers(done), longest=2 * LONGEST)
        if hashlib.sha256(chunk).hexdigest() != digest:
            raise BackupTransferError("The backup could not be fetched.", detail=f"chunk {number} has changed")
        return chunk


def _path(backup_id: str) -> str:
    return f"/agent/v1/backups/{quote(backup_id, safe='')}"


def _headers(done: Progress) -> dict[str, str]:
    return {"X-Novella-Progress": f"{done.bytes}/{done.total}"}
