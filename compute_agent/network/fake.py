"""The network of simulated hosts."""

import socket
from collections.abc import Collection
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Leftover, Owned
from compute_agent.network.host_network import HostNetwork, Target
from compute_agent.network.state.documents import TYPES, Document, Documents, kind_of, needed_by, vni_of
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError


class FakeNetwork(HostNetwork):
    """Records calls and changes nothing on the host. Documents are stored in ``folder``, as on a real host."""

    def __init__(self, folder: Path | None = None) -> None:
        """Without a folder, documents are lost when the process ends."""
        self.plugged: set[str] = set()
        self.filtered: set[str] = set()
        self.away: set[str] = set()
        """Plugged instances whose guests are on the other host of their migration."""
        self.interfaces: dict[str, list[str]] = {}
        """Ids of the ports of each plugged instance, in order."""
        self.received: dict[tuple[str, str], tuple[Document, int]] = {}
        """The documents with their generations, by kind and id."""
        self._digests: dict[tuple[str, str], str] = {}
        self._ports: dict[str, list[PortRef]] = {}
        self._kept = Documents(folder) if folder is not None else None
        if self._kept is not None:
            listed = {(each.subject_kind, each.subject_id): each for each in self._kept.listed()}
            self._digests = {key: each.digest for key, each in listed.items()}
            for kind, made_of in TYPES.items():
                for key, document in self._kept.of(made_of).items():
                    self.received[kind, key] = document, listed[kind, key].generation
        self.listener: tuple[str, int] | None = None
        """The address that connections to guests are redirected to. None: connections are refused, because simulated
        guests run no programs.
        """

    def init_host(self) -> None:
        return None

    def plug(self, spec: InstanceSpec, *, away: bool = False) -> None:
        self.plugged.add(spec.uuid)
        self.away = self.away | {spec.uuid} if away else self.away - {spec.uuid}
        self._use(spec)

    def switch(self, uuid: str, *, here: bool) -> None:
        if uuid in self.plugged:
            self.away = self.away - {uuid} if here else self.away | {uuid}

    def apply_firewall(self, spec: InstanceSpec) -> None:
        self.filtered.add(spec.uuid)
        self._use(spec)

    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        if spec.uuid in self.plugged:
            self._use(spec)

    def unplug(self, uuid: str) -> None:
        self.plugged.discard(uuid)
        self.filtered.discard(uuid)
        self.away.discard(uuid)
        self.interfaces.pop(uuid, None)
        self._ports.pop(uuid, None)

    def restore(self, specs: list[InstanceSpec]) -> None:
        self.plugged = {spec.uuid for spec in specs}
        self.filtered = set(self.plugged)
        self.interfaces, self._ports = {}, {}
        for spec in specs:
            self._use(spec)

    def guest_socket(self, instance_id: str, port_id: str, address: str, port: int) -> Target:
        """Connect every port of every guest to the ``listener``."""
        if port_id not in self.interfaces.get(instance_id, ()):
            raise InstanceNotFoundError(f"No guest has the address {address} here.")
        if self.listener is None:
            raise UnsupportedError(f"A simulated guest has no open ports, so port {port} cannot be reached.")
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK), self.listener

    def check(self) -> list[str]:
        return []

    def leftovers(self, guests: set[str]) -> list[Leftover]:
        return [Leftover(kind="plug", name=uuid, subject_id=uuid) for uuid in sorted(set(self.plugged) - guests)]

    def apply(self, document: Document, generation: int, digest: str = "") -> None:
        self.received[kind_of(document), document.id] = (document, generation)
        self._digests[kind_of(document), document.id] = digest
        if self._kept is not None:
            self._kept.put(document, generation, digest)

    def forget(self, kind: str, subject_id: str) -> None:
        self.received.pop((kind, subject_id), None)
        self._digests.pop((kind, subject_id), None)
        if self._kept is not None:
            self._kept.remove(kind, subject_id)

    def documents(self) -> list[Owned]:
        used = needed_by(port for ports in list(self._ports.values()) for port in ports)
        return [
            Owned(
                subject_kind=kind,
                subject_id=subject_id,
                generation=generation,
                digest=self._digests.get((kind, subject_id), ""),
                in_use=(kind, subject_id) in used,
                vni=vni_of(document),
            )
            for (kind, subject_id), (document, generation) in self.received.items()
        ]

    def forget_outdated(self, outdated: Collection[Owned]) -> None:
        for each in outdated:
            _, generation = self.received.get((each.subject_kind, each.subject_id), (None, None))
            if generation == each.generation:
                self.forget(each.subject_kind, each.subject_id)

    def _use(self, spec: InstanceSpec) -> None:
        self.interfaces[spec.uuid] = [port.id for port in spec.ports]
        self._ports[spec.uuid] = list(spec.ports)
