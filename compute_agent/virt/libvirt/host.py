"""The host itself: connection, capacity, leftovers, and the size of console logs."""

import logging
import threading
from dataclasses import replace

from compute_agent.contract.cpu import Cpu
from compute_agent.contract.messages import Leftover
from compute_agent.contract.migration import RECEIVER_TRAIT
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import HostCapacity
from compute_agent.virt.errors import HostError
from compute_agent.virt.libvirt import capacity, consoles, host_traits, leftovers, snapshots
from compute_agent.virt.libvirt.connection import if_defined, translated
from compute_agent.virt.libvirt.domain_xml import VirtType, domain_name
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.processes.processes import Reaper

log = logging.getLogger(__name__)

TRIM_INTERVAL = 2.0
"""Seconds between checks of the console logs."""


class HostOperations(Domains):
    """The driver's operations on the host: its connection to libvirt, its capacity, and the lists of its guests."""

    def __init__(self, settings: AgentSettings, virt_type: VirtType | None = None) -> None:
        super().__init__(settings, virt_type)
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._reaper: Reaper | None = None
        self._traits = host_traits.Traits(self._virt_type, self._groups)

    def init_host(self) -> None:
        self._paths.prepare()
        if self._reaper is None and self._hypervisor.own:
            self._reaper = Reaper()
        self._hypervisor.open()
        self._resync()
        # In a thread, because a guest that hangs would delay the start. A new copy ends interrupted ones itself.
        threading.Thread(target=self._end_interrupted_copies, name="interrupted-copies", daemon=True).start()
        if self._keeper is None or not self._keeper.is_alive():
            self._closing.clear()
            self._keeper = threading.Thread(target=self._keep_logs_small, name="console-logs", daemon=True)
            self._keeper.start()

    def close(self) -> None:
        self._closing.set()
        self._hypervisor.close()

    def capacity(self) -> HostCapacity:
        with translated("measure the host"):
            domains = [domain for domain, _ in self._marked()]
            connection = self._hypervisor.get()
            measured = capacity.measure(connection, domains, self._paths.instances, self._virt_type)
            traits = {*self._traits.of(connection), *([RECEIVER_TRAIT] if self._can_receive else [])}
            return replace(measured, traits=tuple(sorted(traits)), guest_cpu=self._cpus.of_host(connection))

    def cpus(self) -> dict[str, Cpu]:
        with translated("list the guests' processors"):
            active = [domain for domain, _ in self._marked() if if_defined(domain.isActive)]
            return self._cpus.of_guests(self._hypervisor.get(), active)

    def leftovers(self) -> list[Leftover]:
        return leftovers.listed(self._hypervisor, self._paths)

    def _end_interrupted_copies(self) -> None:
        """End copies that QEMU still runs for a killed agent: they slow down the disk, and would cause later copies to
        fail.
        """
        for guest in self.guests():
            try:
                with self._no_copy_begins(guest.uuid), translated("end an interrupted copy"):
                    snapshots.end_left_copy(self._domain(guest.uuid))
            except HostError as error:
                log.info("guest %s: %s %s", guest.uuid, error, error.detail)

    def _keep_logs_small(self) -> None:
        while not self._closing.wait(TRIM_INTERVAL):
            for uuid in self._states.known():
                self._keep_small(uuid)

    def _keep_small(self, uuid: str) -> None:
        """Limit the size of a guest's console log, and of QEMU's log, because a guest can write any amount to both."""
        for path in (self._paths.instance(uuid).console_log, self._paths.emulator_log(domain_name(uuid))):
            try:
                consoles.trim_log(path)
            except OSError:
                log.exception("the log %s could not be cut", path)
