"""Storage daemons: one ``qemu-storage-daemon`` for each open volume, which it exports by NBD.

A daemon continues while the agent restarts. The description with which a daemon was started is stored in its folder
below the runtime folder, in memory only (``/run``). If a daemon dies, the agent starts it again from the description,
at the same address and with the same names of exports, so that paused guests can resume. A copy of the description
without keys is stored on the disk, for a restart of the machine: an encrypted volume then waits for a command with its
key. An export answers a write only after the host's file system has stored the data with all metadata
(``writethrough``). Therefore a killed daemon loses no write that it has answered.
"""

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.virt import processes
from compute_agent.virt.rights import Rights
from compute_agent.virt.storage_account import StorageAccount
from compute_agent.virt.volume_connections import socket_of
from compute_agent.volumes import daemon_process, exports
from compute_agent.volumes.daemon_process import NBD_SOCKET, QMP_SOCKET, READY
from compute_agent.volumes.driver import Json, Opening, VolumeDriver
from compute_agent.volumes.errors import NotExportedError
from compute_agent.volumes.exports import AUTHORIZED, CREDENTIALS, Description, Export
from compute_agent.volumes.kept_descriptions import KeptDescriptions
from compute_agent.volumes.qmp import Qmp

log = logging.getLogger(__name__)

DESCRIPTION, SHOWN, GATE = "daemon.json", "tls", "gate-"
TCP_WITHOUT_TLS = (
    "The volume is on another host than the server, and this host has no certificates to export it over TLS."
)


class Certificates(Protocol):
    """The certificates of the host, in the form that QEMU's ``tls-creds-x509`` expects."""

    @property
    def folder(self) -> Path:
        """The folder with ``ca-cert.pem``, ``server-cert.pem`` and ``server-key.pem``."""

    @property
    def complete(self) -> bool:
        """Whether all certificate files exist."""

    @property
    def tls_hostname(self) -> str:
        """The host name in the server's certificate."""


@dataclass(frozen=True)
class Address:
    """The address at which other hosts reach this host, and the certificates with which it authenticates."""

    reached_at: Callable[[], str]
    """Returns the address of this host; empty while it is unknown."""
    certificates: Certificates | None = None
    ports: tuple[int, int] = (10809, 11832)
    """The first and the last port at which daemons may listen."""

    def bind(self, port: int = 0) -> str:
        """Return the address on which daemons listen: the host's address, or the wildcard address if the host's address
        is not on any interface, for example behind NAT. Raises NotExportedError if the port is in use.
        """
        reached = self.reached_at()
        family, every = (socket.AF_INET6, "::") if ":" in reached else (socket.AF_INET, "0.0.0.0")  # noqa: S104 (see above)
        for address in (reached, every):
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((address, port))
                except OSError as error:
                    if error.errno == errno.EADDRNOTAVAIL:
                        continue
                    raise NotExportedError("The port is in use.", detail=f"{address} {port}") from error
                return address
        raise NotExportedError("The host has no address at which it can export volumes.")


class Daemons:
    """The storage daemons of one host."""

    def __init__(
        self, runtime: Path, sockets: Path, address: Address, kept: Path, rights: Rights | None = None
    ) -> None:
        """Store descriptions, with keys, below ``runtime``, which is in memory, and the sockets that guests connect to
        in ``sockets``. Both paths must be short. ``kept`` is a folder on the disk for the data that a restart of the
        machine must not lose.
        """
        self.runtime = runtime
        self.sockets = sockets
        self._kept = KeptDescriptions(kept)
        self._address = address
        self._rights = rights or Rights()
        self._locks: dict[str, threading.RLock] = {}
        self._waiting: Counter[str] = Counter()
        self._guard = threading.Lock()
        self._last_port: int = address.ports[0] - 1

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

    # ----- descriptions ---------------------------------------------------------------------------------------------

    def descriptions(self) -> list[Description]:
        """Return the description of every daemon of this host."""
        found = (self.description(path.parent.name) for path in sorted(self.runtime.glob(f"*/{DESCRIPTION}")))
        return [each for each in found if each is not None]

    def description(self, volume_id: str) -> Description | None:
        """Return the description with which the volume's daemon was started; None if the volume has no daemon."""
        try:
            return msgspec.json.decode((self._folder(volume_id) / DESCRIPTION).read_bytes(), type=Description)
        except (OSError, msgspec.DecodeError):
            return None

    def runs(self, volume_id: str) -> bool:
        """Return whether the volume's daemon runs and has all its exports."""
        return daemon_process.is_ready(self._folder(volume_id))

    def is_whole(self, description: Description) -> bool:
        """Return whether the daemon and its gate, if it has one, run."""
        gate = self._folder_of_gate(description.volume.id)
        return self.runs(description.volume.id) and (not description.gate or daemon_process.is_ready(gate))

    @contextlib.contextmanager
    def opened(self, volume_id: str) -> Iterator[Qmp | None]:
        """Yield a QMP connection to the volume's daemon; None if no daemon runs."""
        if not self.runs(volume_id):
            yield None
            return
        with Qmp(self._folder(volume_id) / QMP_SOCKET) as qmp:
            yield qmp

    # ----- serving --------------------------------------------------------------------------------------------------

    def connect(self, driver: VolumeDriver, volume: VolumeSpec, clients: Sequence[VolumeClient]) -> VolumeConnection:
        """Allow exactly these clients to open the volume, and return the connection. Start the daemon if it does not
        run.

        Exports with an earlier size, and connections of clients that are no longer allowed, are closed. Raises
        NotExportedError if a client is on another host and this host has no certificates.
        """
        before = self.description(volume.id) or self._kept.of(volume.id)
        if before is not None and exports.is_of_others(before, volume, clients):
            self.disconnect(volume.id)
            before = None
        remote = any(not client.local for client in clients)
        tls = self._address.certificates is not None and self._address.certificates.complete
        if remote and not tls:
            raise NotExportedError(TCP_WITHOUT_TLS)
        wanted = before or Description(volume=volume)
        if not self.runs(volume.id) or not wanted.exports:
            if not wanted.exports:
                port = self._free_port() if tls and (remote or volume.multiattach) else 0
                export = Export(exports.name_of(volume, clients, 1), driver.size(volume.id))
                wanted = Description(volume=volume, exports=[export], counter=1, port=port)
            wanted = msgspec.structs.replace(wanted, volume=volume, clients=list(clients))
            self._describe(wanted)
            self._start(driver, wanted)
        gate = (wanted.gate or self._free_port()) if remote and not wanted.port else 0
        kept = wanted.exports[-1:]
        served = msgspec.structs.replace(wanted, volume=volume, clients=list(clients), exports=kept, gate=gate)
        with Qmp(self._folder(volume.id) / QMP_SOCKET) as qmp:
            self._describe(served)
            if served.port:
                exports.authorize(qmp, served.clients)
            exports.follow(qmp, served, driver.followed(volume, qmp))
        self._keep_gate(served)
        return self._connection(served)

    def export_again(self, driver: VolumeDriver, volume: VolumeSpec) -> VolumeConnection | None:
        """Add an export with the new size to an open volume that was extended. Return its connection; None if the
        volume is not open.
        """
        before = self.description(volume.id)
        if before is None or not before.exports:
            return None
        self.repair(driver, before)
        before, size = self.description(volume.id) or before, driver.size(volume.id)
        after = before
        if before.exports[-1].size != size:
            counter = before.counter + 1
            export = Export(exports.name_of(volume, before.clients, counter), size)
            after = msgspec.structs.replace(before, volume=volume, counter=counter, exports=[*before.exports, export])
            self._describe(after)
        with Qmp(self._folder(volume.id) / QMP_SOCKET) as qmp:
            exports.follow(qmp, after, driver.followed(volume, qmp))
        self._keep_gate(after)
        return self._connection(after)

    def repair(self, driver: VolumeDriver, description: Description) -> bool:
        """Start the daemon or its gate again if it has died. Return whether it had died. Raises VolumeInUseError if the
        volume was assigned to another host in the meantime.
        """
        if self.is_whole(description):
            return False
        if self.runs(description.volume.id):
            self._keep_gate(description)
        else:
            self._start(driver, description, again=True)
        return True

    @contextlib.contextmanager
    def paused(self, driver: VolumeDriver, volume_id: str) -> Iterator[None]:
        """Stop the volume's daemon, if there is one, while the block runs. Then start it again with its exports."""
        if self.description(volume_id) is None:
            yield
            return
        daemon_process.end(self._folder(volume_id))
        try:
            yield
        finally:
            now = self.description(volume_id)
            if now is not None:
                self.repair(driver, now)

    def disconnect(self, volume_id: str) -> None:
        """End the volume's daemon, and remove its socket and descriptions. Does nothing if the volume has no daemon."""
        folder = self._folder(volume_id)
        self._end_gate(volume_id)
        daemon_process.end(folder)
        self._socket(volume_id).unlink(missing_ok=True)
        self._kept.forget(volume_id)
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def serving(self, name: str, opening: Opening, held: Sequence[int] = (), *, read_only: bool) -> Iterator[Path]:
        """Export ``opening`` under the name ``name`` while the block runs, for copies by programs of this host. Yields
        the path of the unix socket. The daemon ends after the block.
        """
        folder = self._folder_of_copy(name)
        daemon_process.end(folder)
        self._make(folder)
        try:
            with daemon_process.listening(folder / NBD_SOCKET) as listen:
                daemon_process.launch(folder, held, self._rights_for(opening), listen)
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.open_nodes(qmp, opening)
                exports.add_export(qmp, name, opening.node, read_only=read_only)
            yield folder / NBD_SOCKET
        finally:
            daemon_process.end(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def check_certificates(self) -> Certificates:
        """Return the certificates of this host. Raises NotExportedError if it has none."""
        certificates = self._address.certificates
        if certificates is None or not certificates.complete:
            raise NotExportedError(TCP_WITHOUT_TLS)
        return certificates

    def send(
        self, name: str, nodes: Mapping[str, Json], own: Sequence[Path], files: Sequence[Path], host_id: str
    ) -> tuple[int, str]:
        """Export nodes, read-only and over TLS, to the host with this id, until ``end_sending``. ``nodes``: name of an
        export → arguments of ``blockdev-add``; ``files``: all files that the nodes open. Those in ``own`` are given to
        the account of storage daemons, until the guest's start gives them to the guest.

        Returns the port, and the name in this host's certificate. Raises NotExportedError without certificates. An
        earlier daemon with this name is ended.
        """
        certificates, account = self.check_certificates(), self._rights.account
        folder = self._folder_of_sent(name)
        self.end_sending(name)
        self._make(folder)
        try:
            if account is not None:
                for path in own:
                    os.chown(path, account.uid, -1, follow_symlinks=False)
            rights = Rights() if account is None else Rights(account, files)
            port = self._free_port()
            daemon_process.launch(folder, (), rights)
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.authorize(qmp, [VolumeClient(attachment_id=name, host_id=host_id, local=False)])
                self._serve(qmp, self._shown(certificates, folder, rights), port)
                for export, node in nodes.items():
                    qmp.execute("blockdev-add", **node)
                    exports.add_export(qmp, export, str(node["node-name"]), read_only=True)
        except Exception:
            self.end_sending(name)
            raise
        return port, certificates.tls_hostname

    def is_sending(self, name: str) -> bool:
        """Return whether there is a daemon, or a folder of one, for ``send``."""
        return self._folder_of_sent(name).exists()

    def end_sending(self, name: str) -> None:
        """End the daemon of ``send``. Does nothing if there is none."""
        folder = self._folder_of_sent(name)
        daemon_process.end(folder)
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def at_work(self, name: str, opening: Opening, held: Sequence[int]) -> Iterator[Qmp]:
        """Yield a QMP connection to a daemon that opens ``opening`` and exports nothing. The daemon ends after the
        block.
        """
        folder = self._folder_of_copy(name)
        daemon_process.end(folder)
        self._make(folder)
        try:
            daemon_process.launch(folder, held, self._rights_for(opening))
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.open_nodes(qmp, opening)
                yield qmp
        finally:
            daemon_process.end(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def remember(self) -> None:
        """Store the descriptions of daemons that a restart of the machine has ended, so that the periodic check starts
        them again. Daemons of encrypted volumes are omitted, because their keys are missing.
        """
        for each in self._kept.all():
            if each.volume.encryption is None and self.description(each.volume.id) is None:
                self._describe(each)

    def without_key(self) -> list[VolumeSpec]:
        """Return the volumes whose daemons cannot start until a command brings the key."""
        kept = [each.volume for each in self._kept.all() if each.volume.encryption is not None]
        return [volume for volume in kept if self.description(volume.id) is None]

    def sweep(self) -> None:
        """End the daemons, and remove the files, that copies of a killed agent have left."""
        for folder in self.runtime.glob("copy-*"):
            daemon_process.end(folder)
            shutil.rmtree(folder, ignore_errors=True)
        for pid in daemon_process.strays(self.runtime):
            log.warning("A storage daemon that nothing is known of is ended: %s", pid)
            processes.kill(pid)
        described = {each.volume.id for each in self.descriptions()}
        gates = {self._folder_of_gate(each) for each in described}
        for folder in self.runtime.glob(f"{GATE}*"):
            if folder not in gates:
                daemon_process.end(folder)
                shutil.rmtree(folder, ignore_errors=True)
        for path in self.sockets.glob("*.sock"):
            if path.stem not in described:
                path.unlink(missing_ok=True)

    def end_all(self) -> list[str]:
        """End every daemon, and return the ids of the volumes that were open (``novella-agent clean``)."""
        self.sweep()
        kept = {each.volume.id for each in self._kept.all()}
        ended = sorted(kept | {path.name for path in self.runtime.glob("*") if path.is_dir()})
        for volume_id in ended:
            self.disconnect(volume_id)
        shutil.rmtree(self.runtime, ignore_errors=True)
        return ended

    # ----- inside ---------------------------------------------------------------------------------------------------

    def _folder(self, volume_id: str) -> Path:
        return self.runtime / volume_id

    def _folder_of_copy(self, name: str) -> Path:
        """Return the folder of a copy's daemon: as short as a volume's, because the path of a socket has 107 bytes."""
        return self.runtime / f"copy-{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def _folder_of_sent(self, name: str) -> Path:
        return self.runtime / f"send-{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def _folder_of_gate(self, volume_id: str) -> Path:
        return self.runtime / f"{GATE}{hashlib.sha256(volume_id.encode()).hexdigest()[:16]}"

    def _socket(self, volume_id: str) -> Path:
        return socket_of(self.sockets, volume_id)

    def _make(self, folder: Path) -> None:
        for each in (self.runtime, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            each.chmod(0o711)  # the daemon's account can enter it, but not list or change it

    def _describe(self, description: Description) -> None:
        folder = self._folder(description.volume.id)
        self._make(folder)
        part = folder / f"{DESCRIPTION}.part"
        part.touch(mode=0o600)
        part.write_bytes(msgspec.json.encode(description))
        part.replace(folder / DESCRIPTION)
        self._kept.keep(description)

    def _start(self, driver: VolumeDriver, description: Description, *, again: bool = False) -> None:
        """Start the daemon with all exports of its description. If this fails, the daemon is ended."""
        volume, folder = description.volume, self._folder(description.volume.id)
        self._end_gate(volume.id)
        daemon_process.end(folder)
        held = driver.hold(volume.id, again=again)
        try:
            opening = driver.opening(volume)
            with contextlib.ExitStack() as given:
                listen = None if description.port else given.enter_context(self._socket_for_guests(volume.id))
                daemon_process.launch(folder, held, self._rights_for(opening), listen)
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.open_nodes(qmp, opening)
                if description.port:
                    self._listen(qmp, description, opening)
                exports.follow(qmp, description, opening.node)
            (folder / READY).touch()
        except Exception:
            daemon_process.end(folder)
            raise
        finally:
            for descriptor in held:
                os.close(descriptor)
        self._keep_gate(description)

    def _keep_gate(self, description: Description) -> None:
        """Start or update the daemon's gate, or end it if the description has none.

        A daemon listens at one place: a unix socket, or a port with TLS. If a guest on another host needs a volume
        whose daemon listens at a socket, its gate, a second daemon, exports the first one's exports to that host.
        """
        volume_id, socket = description.volume.id, self._socket(description.volume.id)
        folder, beyond = self._folder_of_gate(volume_id), exports.remote(description)
        if not description.gate:
            self._end_gate(volume_id)
        elif daemon_process.is_ready(folder):
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.authorize(qmp, beyond.clients)
                exports.follow_gate(qmp, beyond, socket)
        else:
            self._start_gate(folder, beyond, socket)

    def _start_gate(self, folder: Path, description: Description, socket: Path) -> None:
        certificates, account = self._address.certificates, self._rights.account
        if certificates is None or not certificates.complete:
            raise NotExportedError(TCP_WITHOUT_TLS)
        daemon_process.end(folder)
        self._make(folder)
        if account is not None:
            os.chown(socket, account.uid, -1)
        rights = Rights() if account is None else Rights(account, [socket])
        try:
            daemon_process.launch(folder, (), rights)
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.authorize(qmp, description.clients)
                self._serve(qmp, self._shown(certificates, folder, rights), description.gate)
                exports.follow_gate(qmp, description, socket)
            (folder / READY).touch()
        except Exception:
            daemon_process.end(folder)
            raise

    def _end_gate(self, volume_id: str) -> None:
        folder = self._folder_of_gate(volume_id)
        daemon_process.end(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def _rights_for(self, opening: Opening) -> Rights:
        return Rights() if opening.as_root else self._rights

    def _socket_for_guests(self, volume_id: str) -> socket.socket:
        """Return a socket to which the account of guests can connect, because it has the group of the
        sockets' folder.
        """
        self.sockets.mkdir(mode=0o711, parents=True, exist_ok=True)
        path = self._socket(volume_id)
        made = daemon_process.listening(path)
        os.chown(path, -1, self.sockets.stat().st_gid)
        path.chmod(0o660)
        return made

    def _shown(self, certificates: Certificates, folder: Path, rights: Rights) -> Path:
        """Return a folder with the certificates, readable by the daemon's account."""
        if rights.account is None:
            return certificates.folder
        shown = folder / SHOWN
        shown.mkdir(mode=0o700, exist_ok=True)
        for name in ("ca-cert.pem", "server-cert.pem", "server-key.pem"):
            path = shown / name
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            path.write_bytes((certificates.folder / name).read_bytes())
            rights.account.show(path, 0o440)
        rights.account.show(shown, 0o750)
        return shown

    def _listen(self, qmp: Qmp, description: Description, opening: Opening) -> None:
        certificates = self._address.certificates
        if certificates is None or not certificates.complete:
            raise NotExportedError(TCP_WITHOUT_TLS)
        exports.authorize(qmp, description.clients)
        shown = self._shown(certificates, self._folder(description.volume.id), self._rights_for(opening))
        self._serve(qmp, shown, description.port)

    def _serve(self, qmp: Qmp, shown: Path, port: int) -> None:
        """Listen on TCP with the certificates in ``shown``, for the hosts that ``exports.authorize`` allows."""
        credentials = {"qom_type": "tls-creds-x509", "id": CREDENTIALS, "endpoint": "server", "verify_peer": True}
        qmp.execute("object-add", **credentials, dir=str(shown))
        place = {"type": "inet", "data": {"host": self._address.bind(), "port": str(port)}}
        exports.serve(qmp, place, tls_creds=CREDENTIALS, tls_authz=AUTHORIZED)

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

    def _connection(self, description: Description) -> VolumeConnection:
        export, port = description.exports[-1].name, description.port or description.gate
        socket = "" if description.port else str(self._socket(description.volume.id))
        if not port:
            return VolumeConnection(export=export, socket=socket)
        certificates = self._address.certificates
        return VolumeConnection(
            export=export,
            socket=socket,
            address=self._address.reached_at(),
            port=port,
            tls=True,
            tls_hostname=certificates.tls_hostname if certificates is not None else "",
        )
