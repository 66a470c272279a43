"""Observation of a guest: its console log, its sockets, its counters."""

from pathlib import Path

from compute_agent.contract.calls import Diagnostics
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError
from compute_agent.virt.libvirt import console_log, counters
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domains import Domains


class ConsoleOperations(Domains):
    """Console logs and console sockets of guests."""

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        paths = self._paths.instance(uuid)
        if not paths.folder.is_dir():
            raise InstanceNotFoundError("There is no such guest on this host.")
        return console_log.read(paths.console_log, offset, max_bytes)

    def console_socket(self, uuid: str, protocol: str) -> Path:
        domain = self._domain(uuid)
        paths = self._paths.instance(uuid)
        path = {"vnc": paths.vnc_socket, "serial": paths.serial_socket()}.get(protocol)
        with translated("open the console"):
            if path is None or not domain.isActive():
                raise UnsupportedError("The guest has no such console now.")
        return path

    def diagnostics(self, uuid: str) -> Diagnostics:
        domain = self._domain(uuid)
        with translated("count what the guest did"):
            return counters.diagnose(
                self._hypervisor.get(),
                domain,
                self._state(domain),
                hypervisor="kvm" if self._virt_type == "kvm" else "qemu",
                started=self._states.running_since(uuid),
            )
