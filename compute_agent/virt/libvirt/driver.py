"""The libvirt driver: real guests of QEMU, with KVM or without."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Belonging, Diagnostics
from compute_agent.contract.power import PowerState
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import (
    BootFiles,
    ComputeDriver,
    ConsoleChunk,
    Guest,
    HostCapacity,
    PowerListener,
    Stopped,
    never,
)
from compute_agent.virt.errors import HostError, InstanceNotFoundError, RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import (
    boot,
    capacity,
    console_log,
    counters,
    disks,
    interfaces,
    kvm,
    leftovers,
    resizing,
    seed,
    snapshots,
    switching,
)
from compute_agent.virt.libvirt.connection import Connection, translated, unless_gone
from compute_agent.virt.libvirt.domain_xml import NAMESPACE, Mark, VirtType, domain_name, domain_xml, read_mark
from compute_agent.virt.libvirt.paths import HostPaths, InstancePaths
from compute_agent.virt.libvirt.power import PowerStates, from_event, from_state
from compute_agent.virt.processes import Reaper

log = logging.getLogger(__name__)

OFF = frozenset({PowerState.SHUTDOWN, PowerState.CRASHED})
PRESS_AGAIN = 5.0
"""Seconds after which the power button is pressed again: a guest that is still starting does not hear it."""
TRIM_INTERVAL = 2.0


class LibvirtDriver(ComputeDriver):
    """Keeps the contract of ``ComputeDriver`` with libvirt; ``embed`` runs its QEMU driver in this process."""

    def __init__(self, settings: AgentSettings, virt_type: VirtType | None = None) -> None:
        """Take ``virt_type`` from ``kvm.prepare``, or decide it here; connects in ``init_host``."""
        self._paths = HostPaths(settings.state_dir.absolute())
        self._virt_type = virt_type or kvm.choose(settings.virt_type)
        uri = f"embed:{self._paths.libvirt_root}" if settings.libvirt_uri == "embed" else settings.libvirt_uri
        self._hypervisor = Connection(uri, self._lifecycle, self._resync)
        self._board = PowerStates()
        self._listener: PowerListener | None = None
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._reaper: Reaper | None = None

    # --- the host ---------------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        self._paths.prepare()
        if self._reaper is None and self._hypervisor.embedded:
            self._reaper = Reaper()
        self._hypervisor.open()
        self._resync()
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
            return capacity.measure(self._hypervisor.get(), domains, self._paths.instances, self._virt_type)

    def guests(self) -> list[Guest]:
        with translated("list its guests"):
            seen = [(mark, unless_gone(domain.state)) for domain, mark in self._marked()]
        found = [Guest(mark.uuid, mark.attempt, from_state(*state)) for mark, state in seen if state is not None]
        return sorted(found, key=lambda guest: guest.uuid)

    def belongings(self) -> list[Belonging]:
        return leftovers.listed(self._hypervisor, self._paths)

    def has_disk(self, uuid: str) -> bool:
        return self._paths.instance(uuid).root_disk.exists()

    def on_power_change(self, listener: PowerListener) -> None:
        self._listener = listener

    # --- building ---------------------------------------------------------------------------------------------------

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        if base is None:
            raise RetryableHostError("The host has no image to start from.", detail="create_disk without a base")
        self._power_off(spec.uuid)
        paths = self._folder(spec.uuid)
        boot.remove_rescue(paths)
        disks.create_disks(spec, base.absolute(), paths, keep_ephemeral=keep_ephemeral)

    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        paths = self._folder(spec.uuid)
        boot.install(files, paths.kernel, paths.ramdisk)

    def create_seed(self, spec: InstanceSpec) -> None:
        seed.write_seed(spec, self._folder(spec.uuid))

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        paths = self._folder(spec.uuid)
        self._power_off(spec.uuid)
        self._undefine(spec.uuid)
        xml = domain_xml(spec, attempt, paths, self._virt_type)
        with translated("define the guest"):
            self._hypervisor.get().defineXML(xml)
        self._board.know(spec.uuid, PowerState.SHUTDOWN)

    def start(self, uuid: str) -> None:
        self._start(uuid)

    def _start(self, uuid: str, flags: int = 0) -> None:
        domain = self._domain(uuid)
        self._board.know(uuid, self._state(domain))
        try:
            domain.createWithFlags(flags)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID and domain.isActive():
                return
            with translated("start the guest"):
                raise

    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        # The state now, then events: one that came between the two has written the board already.
        if self._state(self._domain(uuid)) is PowerState.RUNNING:
            return PowerState.RUNNING
        state = self._board.wait(uuid, {PowerState.RUNNING, PowerState.CRASHED}, timeout)
        if state is not PowerState.RUNNING:
            said = "stopped while it was starting" if state in OFF else "did not run in time"
            raise RetryableHostError(f"The guest {said}.", detail=f"power state {state!r} after at most {timeout} s")
        return state

    # --- power ------------------------------------------------------------------------------------------------------

    def stop(self, uuid: str, timeout: float) -> None:
        domain = self._domain(uuid)
        if not self._shut_down(uuid, domain, timeout):
            self._power_off(uuid)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        domain = self._domain(uuid)
        if hard or not self._shut_down(uuid, domain, timeout):
            self._power_off(uuid)
        self._start(uuid, libvirt.VIR_DOMAIN_START_FORCE_BOOT)  # what was saved by a suspend is not gone on with

    def pause(self, uuid: str) -> None:
        switching.pause(self._domain(uuid))
        self._board.know(uuid, PowerState.PAUSED)

    def unpause(self, uuid: str) -> None:
        switching.unpause(self._domain(uuid))
        self._board.know(uuid, PowerState.RUNNING)

    def suspend(self, uuid: str) -> None:
        switching.suspend(self._domain(uuid))
        self._board.know(uuid, PowerState.SHUTDOWN)

    def resume(self, uuid: str) -> None:
        self.start(uuid)

    def crash_dump(self, uuid: str) -> None:
        switching.crash_dump(self._domain(uuid))

    def set_password(self, uuid: str, user: str, password: str) -> None:
        switching.set_password(self._domain(uuid), user, password)

    def diagnostics(self, uuid: str) -> Diagnostics:
        domain = self._domain(uuid)
        with translated("count what the guest did"):
            return counters.diagnose(
                self._hypervisor.get(),
                domain,
                self._state(domain),
                hypervisor="kvm" if self._virt_type == "kvm" else "qemu",
                started=self._board.running_since(uuid),
            )

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        if base is None:
            raise RetryableHostError("The host has no image to start from.", detail="rescue without a base")
        paths = self._paths.instance(spec.uuid)
        if not paths.root_disk.exists():
            raise InstanceNotFoundError("The guest has no disk to be rescued.")
        self._power_off(spec.uuid)
        disks.create_rescue_disk(base.absolute(), paths)
        boot.install(files, paths.rescue_kernel, paths.rescue_ramdisk)
        seed.write_seed(spec, paths, paths.rescue_seed)
        self.define(spec, attempt)

    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        self.define(spec, attempt)
        boot.remove_rescue(self._folder(spec.uuid))

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        self._power_off(spec.uuid)
        resizing.enlarge(spec, self._folder(spec.uuid))
        self._redefine(spec, attempt)

    def confirm_resize(self, uuid: str) -> None:
        resizing.keep(self._find(uuid), self._paths.instance(uuid))

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        self._power_off(spec.uuid)
        resizing.restore(spec, self._folder(spec.uuid))
        self._redefine(spec, attempt)

    def _redefine(self, spec: InstanceSpec, attempt: int) -> None:
        """Put another definition in the place of the guest's own, which stays when that fails."""
        xml = domain_xml(spec, attempt, self._folder(spec.uuid), self._virt_type)
        domain = self._find(spec.uuid)
        with translated("define the guest"):
            if domain is not None and domain.hasManagedSaveImage():
                domain.managedSaveRemove()
            self._hypervisor.get().defineXML(xml)
        self._board.know(spec.uuid, PowerState.SHUTDOWN)

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        domain = self._domain(uuid)
        snapshots.copy_disk(domain, self._paths.instance(uuid).root_disk, target, disk_format, stopped)

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        interfaces.attach(self._domain(spec.uuid), port)

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        domain = self._find(spec.uuid)
        if domain is not None:
            interfaces.detach(domain, port)

    def console_socket(self, uuid: str, protocol: str) -> Path:
        domain = self._domain(uuid)
        paths = self._paths.instance(uuid)
        path = {"vnc": paths.vnc_socket, "serial": paths.serial_socket}.get(protocol)
        with translated("open the console"):
            if path is None or not domain.isActive():
                raise UnsupportedError("The guest has no such console now.")
        return path

    def destroy(self, uuid: str) -> None:
        self._power_off(uuid)
        self._undefine(uuid)
        self._board.forget(uuid)
        self._paths.emulator_log(domain_name(uuid)).unlink(missing_ok=True)
        folder = self._paths.instance(uuid).folder
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RetryableHostError("The guest's disks could not be removed.", detail=str(error)) from error

    def power_state(self, uuid: str) -> PowerState:
        return self._state(self._domain(uuid))

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        paths = self._paths.instance(uuid)
        if not paths.folder.is_dir():
            raise InstanceNotFoundError("There is no such guest on this host.")
        return console_log.read(paths.console_log, offset, max_bytes)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _folder(self, uuid: str) -> InstancePaths:
        paths = self._paths.instance(uuid)
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return paths

    def _marked(self) -> list[tuple[Any, Mark]]:
        """List the domains with Novella's mark; the others are nobody's business here."""
        found = []
        for domain in self._hypervisor.get().listAllDomains():
            mark = self._mark(domain)
            if mark is not None:
                found.append((domain, mark))
        return found

    @staticmethod
    def _mark(domain: Any) -> Mark | None:
        try:
            return read_mark(domain.UUIDString(), domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE))
        except (libvirt.libvirtError, ValueError):  # without the mark, or gone meanwhile
            return None

    def _domain(self, uuid: str) -> Any:
        """Return Novella's domain; raises InstanceNotFoundError, also for a domain that is not Novella's."""
        with translated("find the guest"):
            domain = self._hypervisor.get().lookupByUUIDString(uuid)
        if self._mark(domain) is None:
            raise InstanceNotFoundError(
                "There is no such guest on this host.", detail="a domain without Novella's mark"
            )
        return domain

    def _find(self, uuid: str) -> Any | None:
        """Return Novella's domain or None; raises HostError when the uuid belongs to a domain that is not Novella's."""
        try:
            return self._domain(uuid)
        except InstanceNotFoundError as error:
            if error.detail.startswith("a domain without"):
                raise HostError("The host has a guest of this id that is not Novella's.") from error
            return None

    @staticmethod
    def _state(domain: Any) -> PowerState:
        with translated("say the guest's state"):
            return from_state(*domain.state())

    def _shut_down(self, uuid: str, domain: Any, timeout: float) -> bool:
        """Press the power button until the guest is off, at most ``timeout`` seconds; say whether it is."""
        deadline = time.monotonic() + timeout
        while True:
            state = self._state(domain)
            self._board.know(uuid, state)
            left = deadline - time.monotonic()
            if state in OFF:
                return True
            if left <= 0 or state is not PowerState.RUNNING:
                return False
            try:
                domain.shutdown()
            except libvirt.libvirtError as error:
                log.info("guest %s could not be asked to stop: %s", uuid, error)
            if self._board.wait(uuid, OFF, min(left, PRESS_AGAIN)) in OFF:
                return True

    def _power_off(self, uuid: str) -> None:
        """Take the power from the guest if it is there and has any."""
        domain = self._find(uuid)
        if domain is None:
            return
        with translated("power the guest off"):
            if not domain.isActive():
                return
            try:
                domain.destroy()
            except libvirt.libvirtError as error:
                # It may have stopped by itself between the two calls.
                if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
                    raise

    def _undefine(self, uuid: str) -> None:
        domain = self._find(uuid)
        if domain is None:
            return
        try:
            domain.undefineFlags(switching.UNDEFINE)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                with translated("remove the guest"):
                    raise

    def _lifecycle(self, uuid: str, event: int, detail: int) -> None:
        state = from_event(event, detail)
        if state is not None and self._board.knows(uuid):
            self._tell(uuid, state)

    def _resync(self) -> None:
        """Learn the guests and their states anew: events may have been missed."""
        for guest in self.guests():
            if self._board.knows(guest.uuid):
                self._tell(guest.uuid, guest.power_state)
            else:
                self._board.know(guest.uuid, guest.power_state)

    def _tell(self, uuid: str, state: PowerState) -> None:
        if self._board.know(uuid, state) and self._listener is not None:
            self._listener(uuid, state)

    def _keep_logs_small(self) -> None:
        while not self._closing.wait(TRIM_INTERVAL):
            for uuid in self._board.known():
                try:
                    console_log.trim(self._paths.instance(uuid).console_log)
                except OSError:
                    log.exception("the console log of %s could not be cut", uuid)
