"""Finds the guest that sends a request to the metadata service, by network and address, and the metadata that the
portal has sent for it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.messages import SERVER
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import StateStore
from compute_agent.engine.subjects import Subject
from compute_agent.guest_trees import Asker
from compute_agent.network.host_network import HostNetwork
from compute_agent.servers.records import ServerRecords

T = TypeVar("T")

ANSWER_SECONDS = 5.0


class GuestDirectory:
    """Finds guests. Methods may be called from any thread; stored data is accessed in the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: HostNetwork,
        store: StateStore,
        outbox: Outbox,
        vendor_data: bytes = b"{}",
    ) -> None:
        self._loop, self._network, self._store, self._outbox = loop, network, store, outbox
        self._records = ServerRecords(store)
        self._vendor_data = vendor_data
        self._posted: dict[str, tuple[str, InstanceSpec]] = {}
        """Posted passwords that the portal may not have stored yet, and the guest's metadata at that time. Newer
        metadata of the portal replaces them.
        """

    def guest(self, network_id: str, address: str) -> str | None:
        interface = self._network.interface_at(network_id, address)
        return interface.uuid if interface is not None else None

    def asker(self, network_id: str, address: str) -> Asker | None:
        interface = self._network.interface_at(network_id, address)
        spec = self._on_loop(lambda: self._records.spec(interface.uuid)) if interface is not None else None
        if interface is None or spec is None:
            return None
        port = next((port for port in spec.ports if port.id == interface.port_id), None)
        if port is None:
            return None
        spec = replace(spec, posted_password=self._posted_by(spec))
        return Asker(spec, port, floating=interface.floating, vendor_data=self._vendor_data)

    def post_password(self, asker: Asker, password: str) -> bool:
        return self._on_loop(lambda: self._post(asker.spec.uuid, password))

    def _post(self, uuid: str, password: str) -> bool:
        spec = self._records.spec(uuid)
        if spec is None or self._posted_by(spec) or not password:
            return False
        self._posted[uuid] = password, spec
        record = self._store.subject(Subject(SERVER, uuid))
        self._outbox.posted(Subject(SERVER, uuid), record.generation if record else 0, {"password": password})
        return True

    def _posted_by(self, spec: InstanceSpec) -> str:
        password, then = self._posted.get(spec.uuid, ("", None))
        return spec.posted_password or (password if then == spec else "")

    def _on_loop(self, work: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - the waiting thread gets it
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(timeout=ANSWER_SECONDS)
