"""Storage daemons that run for one piece of work: copies, and disks that are sent to another host."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compute_agent.contract.volume import VolumeClient
from compute_agent.virt.processes.rights import Rights
from compute_agent.volumes.daemons import daemon_process, exports
from compute_agent.volumes.daemons.base_daemons import COPY, SENT, BaseDaemons
from compute_agent.volumes.daemons.daemon_process import NBD_SOCKET, QMP_SOCKET
from compute_agent.volumes.daemons.qmp import Qmp
from compute_agent.volumes.driver import Json, Opening


class CopyDaemons(BaseDaemons):
    """Starts a daemon for one piece of work, and ends it afterwards."""

    @contextlib.contextmanager
    def serving(self, name: str, opening: Opening, held: Sequence[int] = (), *, read_only: bool) -> Iterator[Path]:
        """Export ``opening`` under the name ``name`` while the block runs, for copies by programs of this host. Yields
        the path of the unix socket. The daemon ends after the block.
        """
        with self._copy_folder(name) as folder:
            with daemon_process.listening(folder / NBD_SOCKET) as listen:
                daemon_process.launch(folder, held, self._rights_for(opening), listen)
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.open_nodes(qmp, opening)
                exports.add_export(qmp, name, opening.node, read_only=read_only)
            yield folder / NBD_SOCKET

    @contextlib.contextmanager
    def at_work(self, name: str, opening: Opening, held: Sequence[int]) -> Iterator[Qmp]:
        """Yield a QMP connection to a daemon that opens ``opening`` and exports nothing. The daemon ends after the
        block.
        """
        with self._copy_folder(name) as folder:
            daemon_process.launch(folder, held, self._rights_for(opening))
            with Qmp(folder / QMP_SOCKET) as qmp:
                exports.open_nodes(qmp, opening)
                yield qmp

    def send(
        self, name: str, nodes: Mapping[str, Json], own: Sequence[Path], files: Sequence[Path], host_id: str
    ) -> tuple[int, str]:
        """Export nodes, read-only and over TLS, to the host with this id, until ``end_sending``. ``nodes``: name of an
        export → arguments of ``blockdev-add``; ``files``: all files that the nodes open. The files in ``own`` belong to
        the account of storage daemons until the guest's start changes their owner. Returns the port, and the name in
        this host's certificate. Raises NotExportedError without certificates. An earlier daemon with this name is
        ended.
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
        """Return whether a daemon that ``send`` has started, or its folder, exists."""
        return self._folder_of_sent(name).exists()

    def end_sending(self, name: str) -> None:
        """End the daemon of ``send``. Does nothing if there is none."""
        daemon_process.remove(self._folder_of_sent(name))

    @contextlib.contextmanager
    def _copy_folder(self, name: str) -> Iterator[Path]:
        """Yield the folder of a copy's daemon. After the block, the daemon is ended and the folder removed."""
        folder = self._named_folder(COPY, name)
        daemon_process.end(folder)
        self._make(folder)
        try:
            yield folder
        finally:
            daemon_process.remove(folder)

    def _folder_of_sent(self, name: str) -> Path:
        return self._named_folder(SENT, name)
