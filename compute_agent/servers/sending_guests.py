"""Ends the exports of a guest's disks before anything else uses them."""

from pathlib import Path

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.moves import GuestOrigin
from compute_agent.servers.services import GuestTransfer
from compute_agent.virt.driver import ComputeDriver, Fetch
from compute_agent.virt.live_migration import Arrival
from compute_agent.virt.passing_on import PassingOn


class SendingGuests(PassingOn):
    """A hypervisor driver whose guests are exported to other hosts (``SendGuestRequest``)."""

    def __init__(self, inner: ComputeDriver, transfer: GuestTransfer) -> None:
        super().__init__(inner)
        self._transfer = transfer

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        self._transfer.end(spec.uuid)
        self.inner.create_disk(spec, base, keep_ephemeral=keep_ephemeral)

    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        self._transfer.end(spec.uuid)
        self.inner.receive_disks(spec, base, origin, fetch)

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        self._transfer.end(spec.uuid)
        self.inner.define(spec, attempt)

    def start(self, uuid: str) -> None:
        self._transfer.end(uuid)
        self.inner.start(uuid)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        self._transfer.end(uuid)
        self.inner.reboot(uuid, hard=hard, timeout=timeout)

    def resume(self, uuid: str) -> None:
        self._transfer.end(uuid)
        self.inner.resume(uuid)

    def destroy(self, uuid: str) -> None:
        self._transfer.end(uuid)
        self.inner.destroy(uuid)

    def leave(self, uuid: str) -> None:
        self._transfer.end(uuid)
        self.inner.leave(uuid)

    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        self._transfer.end(spec.uuid)
        return self.inner.arrival(spec, attempt)

    def adopt_disks(self, spec: InstanceSpec, base: Path | None) -> bool:
        self._transfer.end(spec.uuid)
        return self.inner.adopt_disks(spec, base)
