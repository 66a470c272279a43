"""Novella's domains on this host: look-up, state, and power-off."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import libvirt
from msgspec import structs

from compute_agent.contract.build import GuestDisk, InstanceSpec
from compute_agent.contract.firmware_state import PROPERTY, from_property
from compute_agent.contract.guest_hardware import guest_hardware, is_stable
from compute_agent.contract.hardware import Hardware
from compute_agent.contract.power import PowerState
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import Guest, PowerListener
from compute_agent.virt.errors import HostError, InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt import account, firmware, five_phases, host_limits, kvm, qemu_conf
from compute_agent.virt.libvirt.connection import Connection, if_defined, translated
from compute_agent.virt.libvirt.cpus import Cpus
from compute_agent.virt.libvirt.domain_xml import NAMESPACE, Mark, VirtType, domain_xml, read_mark
from compute_agent.virt.libvirt.hardware_xml import Parts
from compute_agent.virt.libvirt.paths import HostPaths, InstancePaths
from compute_agent.virt.libvirt.power_states import PowerStates, from_event, from_state
from compute_agent.virt.libvirt.tpm import Tpm
from compute_agent.virt.machine import volume_connections
from compute_agent.virt.processes import storage_account

UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
)
"""Flags for undefining a domain. The file with the variables of the guest's firmware is kept."""

COPY_BEGIN_SECONDS = 60.0
"""Seconds that a copy waits for an earlier copy that is starting or being cleaned up."""


class Domains:
    """Base class of the groups of driver methods. The driver inherits from all groups."""

    def __init__(self, settings: AgentSettings, virt_type: VirtType | None = None) -> None:
        """``virt_type``: the result of ``kvm.prepare``; None to determine it here. The connection is opened by
        ``init_host``.
        """
        self._virt_type = virt_type or kvm.choose(settings.virt_type)
        paths = HostPaths(settings.state_dir.absolute())
        chosen = account.choose(settings, self._virt_type) if paths.mounted else account.ROOT
        self._paths = replace(paths, account=chosen)
        own = settings.own_libvirt
        uri = f"{settings.libvirt_uri}:{self._paths.libvirt_root}" if own else settings.libvirt_uri
        groups = qemu_conf.controllers() if settings.cgroups and own else []
        self._cpus = Cpus(self._virt_type)
        self._groups = groups if own else qemu_conf.controllers_of_libvirtd()
        conf = qemu_conf.render(self._paths.account, groups, self._paths.certificates)
        self._storage_user = settings.storage_user
        self._hypervisor = Connection(uri, self._lifecycle, self._resync, conf)
        self._states = PowerStates()
        self._listener: PowerListener | None = None
        self._copying: dict[str, threading.Lock] = {}

    @property
    def _can_receive(self) -> bool:
        """Whether libvirt accepts incoming guests. Its embedded driver refuses them."""
        return not self._hypervisor.embedded and five_phases.available()

    def on_power_change(self, listener: PowerListener) -> None:
        self._listener = listener

    def guests(self) -> list[Guest]:
        with translated("list its guests"):
            seen = [(mark, if_defined(domain.state)) for domain, mark in self._marked()]
        guests = [Guest(mark.uuid, mark.attempt, from_state(*state)) for mark, state in seen if state is not None]
        return sorted(guests, key=lambda guest: guest.uuid)

    def power_state(self, uuid: str) -> PowerState:
        return self._state(self._domain(uuid))

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        self._folder(spec.uuid)
        self._power_off(spec.uuid)
        self._undefine(spec.uuid)
        xml = self._xml(spec, attempt)
        with translated("define the guest"):
            self._hypervisor.get().defineXML(xml)
        self._states.know(spec.uuid, PowerState.SHUTDOWN)

    def _redefine(self, spec: InstanceSpec, attempt: int) -> None:
        """Replace the guest's definition. On failure the previous definition is kept."""
        xml = self._xml(spec, attempt)
        domain = self._find(spec.uuid)
        with translated("define the guest"):
            if domain is not None and domain.hasManagedSaveImage():
                domain.managedSaveRemove()
            self._hypervisor.get().defineXML(xml)
        self._states.know(spec.uuid, PowerState.SHUTDOWN)

    def _xml(self, spec: InstanceSpec, attempt: int) -> str:
        """Return the XML of the guest's definition. UEFI variables and TPM state are created if the guest needs them.

        Raises UnsupportedError for hardware that this host lacks, RetryableHostError if the host lacks space.
        """
        paths = self._folder(spec.uuid)
        parts = self._parts(spec, paths)
        return domain_xml(self._as_qemu_sees(spec), attempt, paths, self._virt_type, parts)

    def _parts(self, spec: InstanceSpec, paths: InstancePaths) -> Parts:
        hardware, rescue = guest_hardware(spec), spec.rescue is not None and not is_stable(spec)
        host_limits.check(hardware, self._groups)
        parts = Parts(cpu_without=self._left_out(spec, hardware))
        if hardware.firmware == "uefi":
            chosen = firmware.choose(hardware, lambda secure: paths.variables(secure_boot=secure, rescue=rescue))
            parts = replace(parts, firmware=chosen)
            if not hardware.firmware_stateless:
                variables = paths.variables(secure_boot=chosen.secure_boot, rescue=rescue)
                brought = {} if rescue else from_property(spec.image.properties.get(PROPERTY, ""))
                firmware.install(chosen, variables, brought.get(firmware.kind_of(secure_boot=chosen.secure_boot)))
                parts = replace(parts, variables=variables)
        if hardware.tpm_version:
            self._tpm(spec.uuid).make()
            parts = replace(parts, tpm_socket=paths.tpm_socket)
        return parts

    def _left_out(self, spec: InstanceSpec, hardware: Hardware) -> tuple[str, ...]:
        """Return the features of the host's processor that the guest must not have, so that it can move."""
        if spec.cpu_features is None or hardware.cpu_mode in {"custom", "host-passthrough"}:
            return ()
        with translated("read the host's processor"):
            offered = self._cpus.of_host(self._hypervisor.get())
        return tuple(sorted(set(offered.features if offered else ()) - set(spec.cpu_features)))

    def _tpm(self, uuid: str) -> Tpm:
        paths = self._paths.instance(uuid)
        account = storage_account.choose(self._storage_user)
        return Tpm(paths.real / paths.tpm.name, self._paths.tpm_key(uuid), paths.tpm_socket, account)

    def _as_qemu_sees(self, spec: InstanceSpec) -> InstanceSpec:
        """Return the spec with socket paths of volumes as QEMU sees them."""
        return structs.replace(spec, volumes=[self._reachable(disk) for disk in spec.volumes])

    def _reachable(self, disk: GuestDisk) -> GuestDisk:
        """Return the volume with the path of its socket as QEMU sees it. Raises ConnectionRefusedByHostError."""
        connection, sockets = disk.connection, self._paths.exports
        if connection.socket:
            connection = structs.replace(connection, socket=str(self._paths.visible(Path(connection.socket))))
        volume_connections.check(connection, client_id=disk.attachment_id, data_id=disk.id, sockets=sockets)
        return structs.replace(disk, connection=connection)

    def _folder(self, uuid: str) -> InstancePaths:
        paths = self._paths.instance(uuid)
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return paths

    def _marked(self) -> list[tuple[Any, Mark]]:
        """List the domains with Novella's mark; others are never changed."""
        result = []
        for domain in self._hypervisor.get().listAllDomains():
            mark = self._mark(domain)
            if mark is not None:
                result.append((domain, mark))
        return result

    @staticmethod
    def _mark(domain: Any) -> Mark | None:
        try:
            return read_mark(domain.UUIDString(), domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE))
        except (libvirt.libvirtError, ValueError):  # without the mark, or removed in the meantime
            return None

    def _domain(self, uuid: str) -> Any:
        """Return Novella's domain. Raises InstanceNotFoundError if there is none, or if the domain is not Novella's."""
        with translated("find the guest"):
            domain = self._hypervisor.get().lookupByUUIDString(uuid)
        if self._mark(domain) is None:
            raise InstanceNotFoundError(
                "There is no such guest on this host.", detail="a domain without Novella's mark"
            )
        return domain

    def _find(self, uuid: str) -> Any | None:
        """Return Novella's domain or None. Raises HostError if the uuid belongs to a domain that is not Novella's."""
        try:
            return self._domain(uuid)
        except InstanceNotFoundError as error:
            if error.detail.startswith("a domain without"):
                raise HostError("The host has a guest of this id that is not Novella's.") from error
            return None

    @staticmethod
    def _state(domain: Any) -> PowerState:
        with translated("report the guest's state"):
            return from_state(*domain.state())

    def _power_off(self, uuid: str) -> None:
        """Power the guest off if it exists and runs."""
        domain = self._find(uuid)
        if domain is None:
            return
        with translated("power the guest off"):
            if not domain.isActive():
                return
            try:
                domain.destroy()
            except libvirt.libvirtError as error:
                # It may have stopped after isActive.
                if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
                    raise

    def _undefine(self, uuid: str) -> None:
        domain = self._find(uuid)
        if domain is None:
            return
        try:
            domain.undefineFlags(UNDEFINE)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                with translated("remove the guest"):
                    raise

    @contextmanager
    def _no_copy_begins(self, uuid: str) -> Iterator[None]:
        """Block new copies of this guest's disk while the block runs. Raises RetryableHostError after a timeout."""
        lock = self._copying.setdefault(uuid, threading.Lock())
        if not lock.acquire(timeout=COPY_BEGIN_SECONDS):
            raise RetryableHostError("The hypervisor is still busy with the guest's disk.")
        try:
            yield
        finally:
            lock.release()

    # --- events -----------------------------------------------------------------------------------------------------

    def _lifecycle(self, uuid: str, event: int, detail: int) -> None:
        state = from_event(event, detail)
        if state is not None and self._states.knows(uuid):
            self._report(uuid, state)

    def _resync(self) -> None:
        """Read the guests and their states again, as events may have been missed."""
        for guest in self.guests():
            if self._states.knows(guest.uuid):
                self._report(guest.uuid, guest.power_state)
            else:
                self._states.know(guest.uuid, guest.power_state)

    def _report(self, uuid: str, state: PowerState) -> None:
        if self._states.know(uuid, state) and self._listener is not None:
            self._listener(uuid, state)
