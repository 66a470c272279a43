"""Storage daemons: one ``qemu-storage-daemon`` for each open volume, which it exports by NBD.

A daemon continues while the agent restarts. The description with which a daemon was started is stored in its folder
below the runtime folder, in memory only (``/run``). If a daemon dies, the agent starts it again from the description,
at the same address and with the same names of exports, so that paused guests can resume. A copy of the description
without keys is stored on the disk, for a restart of the machine: an encrypted volume then waits for a command with its
key. An export answers a write only after the host's file system has stored the data with all metadata
(``writethrough``). Therefore a killed daemon loses no write that it has answered.
"""

import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.virt.processes import processes
from compute_agent.virt.processes.rights import Rights
from compute_agent.volumes.daemons import daemon_process, exports
from compute_agent.volumes.daemons.base_daemons import COPY, DESCRIPTION, GATE, SENT, Expected
from compute_agent.volumes.daemons.copy_daemons import CopyDaemons
from compute_agent.volumes.daemons.daemon_process import QMP_SOCKET, READY
from compute_agent.volumes.daemons.exports import Description, Export
from compute_agent.volumes.daemons.qmp import Qmp
from compute_agent.volumes.driver import Opening, VolumeDriver
from compute_agent.volumes.errors import VolumeNotFoundError

log = logging.getLogger(__name__)


class Daemons(CopyDaemons):
    """The storage daemons of one host: one for each open volume, and one for each copy."""

    def is_whole(self, description: Description) -> bool:
        """Return whether the daemon and its gate, if it has one, run."""
        gate = self._folder_of_gate(description.volume.id)
        return self.runs(description.volume.id) and (not description.gate or daemon_process.is_ready(gate))

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
        if remote:
            self.check_certificates()
        description = before or Description(volume=volume)
        if not self.runs(volume.id) or not description.exports:
            if not description.exports:
                port = self._free_port() if tls and (remote or volume.multiattach) else 0
                export = Export(exports.name_of(volume, clients, 1), driver.size(volume.id))
                description = Description(volume=volume, exports=[export], counter=1, port=port)
            description = msgspec.structs.replace(description, volume=volume, clients=list(clients))
            self._describe(description)
            self._start(driver, description)
        gate = (description.gate or self._free_port()) if remote and not description.port else 0
        kept = description.exports[-1:]
        served = msgspec.structs.replace(description, volume=volume, clients=list(clients), exports=kept, gate=gate)
        with Qmp(self._folder(volume.id) / QMP_SOCKET) as qmp:
            self._describe(served)
            if served.port:
                exports.authorize(qmp, served.clients)
            exports.follow(qmp, served, driver.followed(volume, qmp))
        self._keep_gate(served)
        return self._connection(served)

    def join(self, driver: VolumeDriver, volume: VolumeSpec, shared_id: str, client: VolumeClient) -> VolumeConnection:
        """Open a volume that another host has open under the id ``shared_id``, and that gets the id of ``volume`` when
        this host acquires it. A daemon that an earlier call has started is replaced.
        """
        self.disconnect(volume.id)
        export = Export(exports.name_of(volume, [client], 1), driver.size(shared_id))
        description = Description(volume=volume, exports=[export], counter=1, clients=[client])
        self._describe(description)
        with driver.joining(shared_id, volume.id) as held:
            self._run(description, driver.opening(msgspec.structs.replace(volume, id=shared_id)), held)
        return self._connection(description)

    def expect(
        self, driver: VolumeDriver, volume: VolumeSpec, shared_id: str, client: VolumeClient
    ) -> VolumeConnection:
        """Start a daemon for a volume that another host has open under the id ``shared_id``. Its export refuses writes
        until ``take_over``. A daemon that an earlier call has started is replaced.
        """
        self.disconnect(volume.id)
        size = driver.size(shared_id)
        export = Export(exports.name_of(volume, [client], 1), size)
        description = Description(volume=volume, exports=[export], counter=1, clients=[client])
        as_root = driver.opening(msgspec.structs.replace(volume, id=shared_id)).as_root
        descriptor = driver.lock_file(shared_id)
        self._expected[volume.id] = Expected(shared_id, descriptor)
        self._describe(description)
        self._run(description, replace(exports.placeholder(size), as_root=as_root), [descriptor])
        return self._connection(description)

    def take_over(self, driver: VolumeDriver, volume: VolumeSpec) -> None:
        """Open a volume of ``expect``, which the other host has closed, and give it the id of ``volume``.

        Raises VolumeInUseError; VolumeNotFoundError if a third host has renamed it. The daemon then still refuses
        writes.
        """
        expected = self._expected.pop(volume.id, None)
        if expected is None:
            raise VolumeNotFoundError
        try:
            driver.take_over(expected.shared_id, volume.id, expected.descriptor)
        finally:
            os.close(expected.descriptor)
        with Qmp(self._folder(volume.id) / QMP_SOCKET) as qmp:
            exports.replace_placeholder(qmp, driver.opening(volume))

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
        expected = self._expected.pop(volume_id, None)
        if expected is not None:
            os.close(expected.descriptor)

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
        for folder in self.runtime.glob(f"{COPY}*"):
            daemon_process.remove(folder)
        for pid in daemon_process.strays(self.runtime):
            log.warning("An unknown storage daemon is ended: %s", pid)
            processes.kill(pid)
        described = {each.volume.id for each in self.descriptions()}
        gates = {self._folder_of_gate(each) for each in described}
        for folder in self.runtime.glob(f"{GATE}*"):
            if folder not in gates:
                daemon_process.remove(folder)
        for path in self.sockets.glob("*.sock"):
            if path.stem not in described:
                path.unlink(missing_ok=True)

    def end_all(self) -> list[str]:
        """End every daemon, and return the ids of the volumes that were open (``novella-agent clean``)."""
        self.sweep()
        for folder in self.runtime.glob(f"{SENT}*"):
            daemon_process.remove(folder)
        kept = {each.volume.id for each in self._kept.all()}
        folders = {path.name for path in self.runtime.glob("*") if path.is_dir() and not path.name.startswith(GATE)}
        ended = sorted(kept | folders)
        for volume_id in ended:
            self.disconnect(volume_id)
        shutil.rmtree(self.runtime, ignore_errors=True)
        return ended

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
        volume = description.volume
        self._end_gate(volume.id)
        daemon_process.end(self._folder(volume.id))
        held = driver.hold(volume.id, again=again)
        try:
            self._run(description, driver.opening(volume), held)
        finally:
            for descriptor in held:
                os.close(descriptor)
        self._keep_gate(description)

    def _run(self, description: Description, opening: Opening, held: Sequence[int]) -> None:
        """Start the daemon, which inherits the descriptors ``held``. If this fails, the daemon is ended."""
        volume, folder = description.volume, self._folder(description.volume.id)
        try:
            with contextlib.ExitStack() as stack:
                listen = None if description.port else stack.enter_context(self._socket_for_guests(volume.id))
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

    def _keep_gate(self, description: Description) -> None:
        """Start or update the daemon's gate, or end it if the description has none.

        The gate is a second daemon that exports the volume by TLS to a guest's host. It is needed if the volume's
        own daemon listens at a Unix socket, because a daemon cannot listen at a socket and at a port at the same time.
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
        certificates, account = self.check_certificates(), self._rights.account
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
        daemon_process.remove(self._folder_of_gate(volume_id))

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

    def _listen(self, qmp: Qmp, description: Description, opening: Opening) -> None:
        certificates = self.check_certificates()
        exports.authorize(qmp, description.clients)
        shown = self._shown(certificates, self._folder(description.volume.id), self._rights_for(opening))
        self._serve(qmp, shown, description.port)

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
