"""Sends volumes to the portal's store of backups, and restores them.

A backup is read from a snapshot of the volume, in chunks of extents (``compute_agent.disk_formats.extents``). If the
agent is killed, the whole backup is sent again. A restore first writes the whole chain of backups to a file, verifying
each chunk. Only then does it change the volume.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from compute_agent.contract.volume import BackupVolumeRequest, RestoreVolumeRequest
from compute_agent.disk_formats.extents import CHUNK, ExtentsError, chunks, decoded
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.handlers import CommandHandler
from compute_agent.engine.outcomes import Outcome
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import BackupTransferError, StoppedError, UnsupportedError
from compute_agent.virt.processes import progress
from compute_agent.volumes.backup_outlet import BackupOutlet, Progress, SentBackup, StoredBackup
from compute_agent.volumes.backups.backup_sources import BackupSource, BackupSpec, VolumeCopies

log = logging.getLogger(__name__)

SEND_BACKUP, FETCH_BACKUP, WRITE_BACK = "send_backup", "fetch_backup", "write_back"
UNFINISHED = "restore-"
_ZEROS = bytes(1 << 20)


class Backup(CommandHandler[BackupVolumeRequest]):
    """Sends a volume, or the changes since its parent backup."""

    heavy = True

    def __init__(self, outlet: BackupOutlet | None, copies: VolumeCopies) -> None:
        """``outlet``: the portal's store; None if the host cannot reach it."""
        self._outlet, self._copies = outlet, copies

    async def run(self, context: CommandContext, body: BackupVolumeRequest) -> Outcome:
        outlet = _there(self._outlet)
        facts: dict[str, str] = {}
        send = Step(SEND_BACKUP, lambda: facts.update(self._send(outlet, body, context.stopped)), facts=facts)
        await context.run_steps([send])
        return Outcome(detail=facts)

    def _send(self, outlet: BackupOutlet, body: BackupVolumeRequest, stopped: Stopped) -> dict[str, str]:
        requested = BackupSpec(body.backup_id, body.parent_id, body.snapshot_id)
        with self._copies.freeze(body.volume, requested, stopped) as source:
            digests = send_all(outlet, body.backup_id, source, stopped)
            outlet.seal(body.backup_id, SentBackup(digests, source.disk_bytes, source.full), stopped)
        self._copies.backed_up(body.volume, requested)
        parameters = {"full": "true" if source.full else "false", "chunks": str(len(digests))}
        return parameters | ({"reason": source.reason} if source.reason else {})


def send_all(outlet: BackupOutlet, backup_id: str, source: BackupSource, stopped: Stopped) -> list[str]:
    """Send the source's data; return the digests of the chunks."""
    total = sum(extent.length for extent in source.extents if not extent.zero)
    digests: list[str] = []
    read = 0

    def counted(offset: int, length: int) -> bytes:
        nonlocal read
        read += length
        return source.read(offset, length)

    for chunk in chunks(source.extents, counted):
        digests.append(outlet.send_chunk(backup_id, len(digests), chunk, Progress(read, total), stopped))
        progress.moved(read, total)
    return digests


class Restore(CommandHandler[RestoreVolumeRequest]):
    """Restores a chain of backups to a volume that is not open."""

    heavy = True

    def __init__(self, outlet: BackupOutlet | None, copies: VolumeCopies) -> None:
        """``outlet``: the portal's store; None if the host cannot reach it."""
        self._outlet, self._copies = outlet, copies

    async def run(self, context: CommandContext, body: RestoreVolumeRequest) -> Outcome:
        outlet, volume = _there(self._outlet), body.volume
        path = self._copies.staging(volume) / f"{UNFINISHED}{volume.id}"

        def fetch() -> None:
            path.unlink(missing_ok=True)
            put_together(outlet, body.backup_ids, path, context.stopped)

        try:
            await context.run_steps(
                [
                    Step(FETCH_BACKUP, fetch),
                    Step(WRITE_BACK, lambda: self._copies.overwrite(volume, path, context.stopped)),
                ]
            )
        finally:
            await context.work(lambda: path.unlink(missing_ok=True))
        return Outcome()


def put_together(outlet: BackupOutlet, backup_ids: Sequence[str], path: Path, stopped: Stopped) -> None:
    """Write the chain of backups, oldest first, into a sparse raw file.

    Raises BackupTransferError for an invalid chain, and for a lost or damaged chunk.
    """
    chain = {backup_id: outlet.stored(backup_id, stopped) for backup_id in backup_ids}
    _check(chain)
    total = sum(len(stored.chunks) for stored in chain.values()) * CHUNK
    done = 0
    with path.open("xb") as file:
        path.chmod(0o600)
        file.truncate(max(stored.disk_bytes for stored in chain.values()))
        for backup_id, stored in chain.items():
            for number, named in enumerate(stored.chunks):
                if stopped():
                    raise StoppedError("The backup was not restored in time.")
                chunk = outlet.chunk(backup_id, number, named.digest, Progress(done, total), stopped)
                _write(file.fileno(), chunk, stored.disk_bytes, hollow=not stored.parent_id)
                done += CHUNK
                progress.moved(done, total)


def _check(chain: Mapping[str, StoredBackup]) -> None:
    below = ""
    for backup_id, stored in chain.items():
        if stored.parent_id != below and stored.parent_id:
            raise BackupTransferError(
                "The chain of backups is not complete.", detail=f"{backup_id} on {stored.parent_id}"
            )
        below = backup_id
    if not chain or next(iter(chain.values())).parent_id:
        raise BackupTransferError("The chain of backups does not begin with a full backup.")


def _write(handle: int, chunk: bytes, disk_bytes: int, *, hollow: bool) -> None:
    """Write the extents of a chunk. ``hollow``: the target is empty, so zeros need not be written."""
    try:
        extents = decoded(chunk, disk_bytes)
    except ExtentsError as error:
        raise BackupTransferError("A part of the backup is damaged.", detail=str(error)) from error
    try:
        for extent, data in extents:
            if not extent.zero:
                _write_all(handle, data, extent.offset)
                continue
            end = extent.offset + (0 if hollow else extent.length)
            for offset in range(extent.offset, end, len(_ZEROS)):
                _write_all(handle, _ZEROS[: end - offset], offset)
    except OSError as error:
        raise BackupTransferError(
            "The host has not enough free space for the data of the backup.", detail=str(error)
        ) from error


def _write_all(handle: int, data: bytes | memoryview, offset: int) -> None:
    """Write all data, in several calls if necessary: the kernel may write only a part if the disk is nearly full."""
    while data:
        done = os.pwrite(handle, data, offset)
        data, offset = data[done:], offset + done


def _there(outlet: BackupOutlet | None) -> BackupOutlet:
    if outlet is None:
        raise UnsupportedError("This host cannot send backups.")
    return outlet
