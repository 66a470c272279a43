"""Transfer of guests' disks between hosts, by storage daemons: NBD over TLS with the certificates of both hosts."""

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.moves import FLAT, ROOT, GuestOrigin, SentDisk, export_of
from compute_agent.virt.driver import Fetch, SentGuest, Stopped
from compute_agent.virt.processes import progress
from compute_agent.volumes.copies import copying
from compute_agent.volumes.copies.copy_journal import CopyJournal
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import TCP_WITHOUT_TLS
from compute_agent.volumes.errors import CopyFailedError, NoSpaceError, NotExportedError

log = logging.getLogger(__name__)

PAUSES = (1.0, 3.0, 9.0)
"""Seconds before an interrupted copy continues. A copy that has made progress begins with the first one again."""
PIECE = 256 << 20
"""Bytes of a file that are copied together. After an interruption, also of the agent, the copy continues with the same
piece.
"""
SECTOR = 512


class DiskTransfer:
    """Exports of guests' disks, and copies from exports of other hosts."""

    def __init__(self, daemons: Daemons) -> None:
        self._daemons = daemons

    def check(self) -> None:
        self._daemons.check_certificates()

    def export(self, uuid: str, sent: SentGuest, host_id: str) -> GuestOrigin:
        """Export each file, and the content of the root disk as the guest sees it. The files are read, never probed."""
        if not sent.files:
            return GuestOrigin()
        nodes: dict[str, dict[str, Any]] = {}
        disks, files = [], [each.path for each in sent.files]
        for number, each in enumerate(sent.files):
            nodes[export_of(uuid, each.name)] = {**_file(each.path), "node-name": f"disk-{number}"}
            disks.append(SentDisk(name=each.name, size=each.path.stat().st_size))
            if each.name == ROOT and sent.base is not None:
                sent.base.chmod(0o444)  # its folder is closed to other accounts
                files.append(sent.base)
                nodes[export_of(uuid, FLAT)] = {
                    "driver": "qcow2",
                    "node-name": "flat",
                    "read-only": True,
                    "file": _file(each.path),
                    "backing": {"driver": "raw", "read-only": True, "file": _file(sent.base)},
                }
                disks.append(SentDisk(name=FLAT, size=sent.base.stat().st_size))
        own = [each.path for each in sent.files]
        port, tls_hostname = self._daemons.send(uuid, nodes, own, files, host_id)
        base = sent.base.name if sent.base is not None else ""
        return GuestOrigin(disks=disks, base=base, port=port, tls_hostname=tls_hostname)

    def is_exported(self, uuid: str) -> bool:
        """Return whether a guest's disks are exported, or were exported until the machine restarted."""
        return self._daemons.is_sending(uuid)

    def end(self, uuid: str) -> None:
        self._daemons.end_sending(uuid)

    def fetch(self, uuid: str, attempt: int, origin: GuestOrigin, stopped: Stopped) -> Fetch:
        if not (origin.address and origin.port and origin.tls_hostname):
            raise NotExportedError(TCP_WITHOUT_TLS)

        def copy(disk: SentDisk, path: Path, disk_format: str) -> None:
            connection = VolumeConnection(
                export=export_of(uuid, disk.name),
                address=origin.address,
                port=origin.port,
                tls=True,
                tls_hostname=origin.tls_hostname,
            )
            certificates, account = self._daemons.certificates, self._daemons.account

            def again(copy_some: Callable[[], None]) -> None:
                _insist(copy_some, f"Disk {disk.name} of server {uuid}", stopped)

            end = -(-disk.size // SECTOR) * SECTOR
            journal = CopyJournal(path, f"{origin.tls_hostname} {connection.export} {end} attempt {attempt}")
            done = journal.done()
            if disk_format != "raw" and done < end:  # the size of the file is not known before
                again(
                    lambda: copying.fetch_file(connection, certificates, path, disk_format, disk.size, stopped, account)
                )
                journal.record(end)
                return
            if not done:
                path.unlink(missing_ok=True)
                path.touch(mode=0o600)
                os.truncate(path, end)
            with ThreadPoolExecutor(1) as storing:
                stored = storing.submit(journal.record, done)
                for begin in range(done, end, PIECE):
                    piece = range(begin, min(begin + PIECE, end))
                    with progress.counted_from(begin, end):
                        again(partial(copying.fetch_piece, connection, certificates, path, piece, stopped, account))
                    stored.result()
                    stored = storing.submit(journal.record, piece.stop)
                stored.result()

        return copy


def _file(path: Path) -> dict[str, Any]:
    return {"driver": "file", "filename": str(path), "read-only": True}


def _insist(copy_some: Callable[[], None], what: str, stopped: Stopped) -> None:
    """Copy some data, several times if the connection ends. Raises CopyFailedError, StoppedError."""
    for pause in PAUSES:
        try:
            copy_some()
        except NoSpaceError:
            raise
        except CopyFailedError as error:
            log.warning("%s: the copy was interrupted and continues: %s", what, error.detail)
            _wait(pause, stopped)
        else:
            return
    copy_some()


def _wait(seconds: float, stopped: Stopped) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopped():
        time.sleep(0.1)
