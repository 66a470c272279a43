"""Folders, locks, descriptions and ports of storage daemons."""

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from compute_agent.virt.machine.host_address import Certificates
from compute_agent.virt.machine.volume_connections import socket_of
from compute_agent.virt.processes.rights import Rights
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes.daemons import daemon_process, exports
from compute_agent.volumes.daemons.daemon_process import QMP_SOCKET
from compute_agent.volumes.daemons.export_address import Address, check_certificates
from compute_agent.volumes.daemons.exports import CREDENTIALS, Description
from compute_agent.volumes.daemons.kept_descriptions import StoredDescriptions
from compute_agent.volumes.daemons.qmp import Qmp
from compute_agent.volumes.driver import Opening
from compute_agent.volumes.errors import NotExportedError

DESCRIPTION, SHOWN = "daemon.json", "tls"
SERVER_FILES = ("ca-cert.pem", "server-cert.pem", "server-key.pem")
FFDHE2048 = b"""\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
"""A group of RFC 7919 for the key exchange. Without this file, each daemon of QEMU 7.2 searches for a group of its own
when it starts, for up to a second.
"""
GATE, COPY, SENT = "gate-", "copy-", "send-"
"""Prefixes of the folders of daemons that are not a volume's own."""


class Expected(NamedTuple):
    """A volume that another host still has open, and for which a daemon waits here."""

    shared_id: str
    descriptor: int
    """A descriptor of its lock file, which the daemon has inherited."""


class BaseDaemons:
    """The storage daemons of one host, with their folders; subclasses start and end them."""

    def __init__(
        self, runtime: Path, sockets: Path, address: Address, kept: Path, rights: Rights | None = None
    ) -> None:
        """Store descriptions, with keys, below ``runtime``, which is in memory, and the sockets that guests connect to
        in ``sockets``. Both paths must be short. ``kept`` is a folder on the disk for the data that a restart of the
        machine must not lose.
        """
        self.runtime = runtime
        self.sockets = sockets
        self._kept = StoredDescriptions(kept)
        self._address = address
        self._rights = rights or Rights()
        self._locks: dict[str, threading.RLock] = {}
        self._waiting: Counter[str] = Counter()
        self._guard = threading.Lock()
        self._last_port: int = address.ports[0] - 1
        self._expected: dict[str, Expected] = {}

    @property
    def certificates(self) -> Certificates | None:
        """The certificates with which this host opens volumes of other hosts, and exports its own volumes."""
        return self._address.certificates

    @property
    def account(self) -> StorageAccount | None:
        """The account that reads and writes volumes on this host; None: the agent's own account."""
        return self._rights.account

    @contextlib.contextmanager
    def locked(self, volume_id: str, *, wait: bool = True) -> Iterator[bool]:
        """Lock the volume's daemon against other threads and the periodic check. Yields False if ``wait`` is False and
        another thread has the lock.
        """
        with self._guard:
            lock = self._locks.setdefault(volume_id, threading.RLock())
        taken = lock.acquire(blocking=False)
        if wait and not taken:
            self._count_waiting(volume_id, 1)
            try:
                taken = lock.acquire()
            finally:
                self._count_waiting(volume_id, -1)
        try:
            yield taken
        finally:
            if taken:
                lock.release()

    def awaited(self, volume_id: str) -> bool:
        """Return whether another thread waits for the lock of ``locked``. Work that can wait then stops."""
        return self._waiting[volume_id] > 0

    def _count_waiting(self, volume_id: str, more: int) -> None:
        with self._guard:
            self._waiting[volume_id] += more

    def descriptions(self) -> list[Description]:
        """Return the description of every daemon of this host."""
        descriptions = (self.description(path.parent.name) for path in sorted(self.runtime.glob(f"*/{DESCRIPTION}")))
        return [each for each in descriptions if each is not None]

    def description(self, volume_id: str) -> Description | None:
        """Return the description with which the volume's daemon was started; None if the volume has no daemon."""
        try:
            return msgspec.json.decode((self._folder(volume_id) / DESCRIPTION).read_bytes(), type=Description)
        except (OSError, msgspec.DecodeError):
            return None

    def runs(self, volume_id: str) -> bool:
        """Return whether the volume's daemon runs and has all its exports."""
        return daemon_process.is_ready(self._folder(volume_id))

    @contextlib.contextmanager
    def opened(self, volume_id: str) -> Iterator[Qmp | None]:
        """Yield a QMP connection to the volume's daemon; None if no daemon runs."""
        if not self.runs(volume_id):
            yield None
            return
        with Qmp(self._folder(volume_id) / QMP_SOCKET) as qmp:
            yield qmp

    def check_certificates(self) -> Certificates:
        """Return the certificates of this host. Raises NotExportedError if it has none."""
        return check_certificates(self._address.certificates)

    def _folder(self, volume_id: str) -> Path:
        return self.runtime / volume_id

    def _folder_of_gate(self, volume_id: str) -> Path:
        return self._named_folder(GATE, volume_id)

    def _named_folder(self, prefix: str, name: str) -> Path:
        """Return a folder as short as a volume's, because the path of a socket has 107 bytes."""
        return self.runtime / f"{prefix}{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def _socket(self, volume_id: str) -> Path:
        return socket_of(self.sockets, volume_id)

    def _make(self, folder: Path) -> None:
        for each in (self.runtime, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            each.chmod(0o711)  # the daemon's account can enter it, but not list or change it

    def _rights_for(self, opening: Opening) -> Rights:
        return Rights() if opening.as_root else self._rights

    def _shown(self, certificates: Certificates, folder: Path, rights: Rights) -> Path:
        """Return a folder with the certificates and the group for key exchange, readable by the daemon's account."""
        shown = folder / SHOWN
        shown.mkdir(mode=0o700, exist_ok=True)
        files = {name: (certificates.folder / name).read_bytes() for name in SERVER_FILES}
        for name, content in {**files, "dh-params.pem": FFDHE2048}.items():
            path = shown / name
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(content)
            if rights.account is not None:
                rights.account.show(path, 0o440)
        if rights.account is not None:
            rights.account.show(shown, 0o750)
        return shown

    def _serve(self, qmp: Qmp, shown: Path, port: int) -> None:
        """Listen on TCP with the certificates in ``shown``, for the hosts that ``exports.authorize`` allows."""
        credentials = {"qom_type": "tls-creds-x509", "id": CREDENTIALS, "endpoint": "server", "verify_peer": True}
        qmp.execute("object-add", **credentials, dir=str(shown))
        exports.serve(qmp, self._address.bind(), port)

    def _free_port(self) -> int:
        """Return the next free port after the previous one, so that threads get different ones before they listen."""
        known = (*self.descriptions(), *self._kept.all())
        taken = {port for each in known for port in (each.port, each.gate)}
        first, last = self._address.ports
        with self._guard:
            for port in chain(range(self._last_port + 1, last + 1), range(first, self._last_port + 1)):
                if port not in taken:
                    with contextlib.suppress(NotExportedError):
                        self._address.bind(port)
                        self._last_port = port
                        return port
        raise NotExportedError("The host has no port left to export volumes to other hosts.")
