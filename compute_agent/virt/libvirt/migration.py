"""Live migration by libvirt, between agents: see ``virt.live_migration`` and ``five_phases``."""

import contextlib
import logging
import re
import uuid as uuids
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import libvirt
import msgspec

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.power import PowerState
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import HostError, RetryableHostError, StoppedError, UnsupportedError
from compute_agent.virt.libvirt import five_phases, volume_table
from compute_agent.virt.libvirt.account import Account
from compute_agent.virt.libvirt.arriving_xml import arriving_xml, file_of, sized_disks
from compute_agent.virt.libvirt.building import BuildOperations
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.domain_xml import VirtType, domain_name
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.live_migration import DISKS, MEMORY, Arrival, Departure, MigrationOptions, Whereabouts
from compute_agent.virt.migration_link.errors import MigrationFailedError
from compute_agent.virt.processes.programs import ProgramError, run_program
from compute_agent.virt.processes.progress import Amount

log = logging.getLogger(__name__)

NAMESPACE = uuids.UUID("2f2d4c1e-9d3f-4b7e-8a65-5a0f6a6cf7d1")
OWN_NAME = re.compile(rb"<hostname>[^<]*</hostname>")
OWN_UUID = re.compile(rb"<hostuuid>[^<]*</hostuuid>")
DISK_NAME = re.compile(r"[a-z]{2,8}")
LARGEST_DISK = 1 << 46
MOST_SEED = 32 << 20
MOST_DISKS = 64
UNLIMITED_MB = 1 << 20
LAST_TRANSFER = 50
"""Milliseconds that the transfer of the last memory may take, for which the guest is paused. QEMU's default of 300
leaves no time for its devices, its disks and the start on the other host.
"""
BASIC = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_AUTO_CONVERGE
POST_COPY = libvirt.VIR_MIGRATE_POSTCOPY
LOCAL = libvirt.VIR_MIGRATE_NON_SHARED_INC
XML = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
SWITCHING = (libvirt.VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY)
"""Details of the event of a guest that is paused for the switch."""
MIGRATED = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION]
USERFAULTS, USERFAULT_DEVICE = Path("/proc/sys/vm/unprivileged_userfaultfd"), Path("/dev/userfaultfd")
USES_DEVICE = 8_001_000
"""The version of QEMU from which on it certainly opens the device."""
ENDED = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED]


class Offer(msgspec.Struct):
    """The running guest: its XML, its config drive, and the bytes of its disks that are copied."""

    xml: str
    seed: bytes
    sizes: dict[str, int]
    paused: bool
    post_copy: bool


class Shape(msgspec.Struct):
    """The guest's XML for this host, and whether QEMU can receive it by post-copy here."""

    xml: str
    post_copy: bool = True


class MigrationOperations(BuildOperations):
    """Sending and receiving of running guests."""

    def __init__(self, settings: AgentSettings, virt_type: VirtType | None = None) -> None:
        super().__init__(settings, virt_type)
        self._host_name = settings.host
        self._departures: dict[str, _LibvirtDeparture] = {}

    def _lifecycle(self, uuid: str, event: int, detail: int) -> None:
        departure = self._departures.get(uuid)
        if departure is not None and event == libvirt.VIR_DOMAIN_EVENT_SUSPENDED and detail in SWITCHING:
            departure.notify_paused()
        super()._lifecycle(uuid, event, detail)

    def departure(self, uuid: str, options: MigrationOptions) -> Departure:
        domain = self._domain(uuid)
        with translated("look at the guest"):
            if not domain.isActive():
                raise UnsupportedError("The guest does not run.")
        departure = _LibvirtDeparture(self, uuid, domain, self._folder(uuid), self._host_name, options)
        self._departures[uuid] = departure
        return departure

    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        if not self._can_receive:
            raise UnsupportedError("This host's libvirt cannot receive running guests.")
        return _LibvirtArrival(self, spec, attempt, self._folder(spec.uuid), self._host_name)

    def whereabouts(self, uuid: str) -> Whereabouts:
        domain = self._find(uuid)
        with translated("look at the guest"):
            if domain is None or not domain.isActive():
                return Whereabouts.LEFT
            return Whereabouts.UNDECIDED if domain.state() in (MIGRATED, ENDED) else Whereabouts.HERE

    def keep(self, uuid: str) -> None:
        departure, domain = self._departures.pop(uuid, None), self._domain(uuid)
        if departure is not None:
            departure.stay()
        with translated("resume the guest"):
            if domain.isActive() and domain.state() in (MIGRATED, ENDED):
                domain.resume()
        self._states.know(uuid, self._state(domain))

    def control_migration(self, uuid: str, action: str) -> None:
        departure, domain = self._departures.get(uuid), self._domain(uuid)
        if departure is None or not departure.performing:
            raise UnsupportedError("The guest is not being migrated.")
        with translated("control the migration"):
            if action == "abort":
                departure.aborted = True
                # QEMU 7.2 that is cancelled during the switchover lets the guest go on with closed disks, and ends at
                # the next migration or write. It handles a stream that ends correctly.
                if not departure.end_memory():
                    domain.abortJob()
                return
            domain.migrateSetMaxSpeed(UNLIMITED_MB)
            if departure.uses_post_copy:
                domain.migrateStartPostCopy(0)
                log.info("guest %s: continues on the other host while its memory is transferred", uuid)
            else:
                domain.suspend()


class _LibvirtDeparture(Departure):
    """The sending side of one guest."""

    def __init__(
        self,
        driver: MigrationOperations,
        uuid: str,
        domain: Any,
        paths: InstancePaths,
        host_name: str,
        options: MigrationOptions,
    ) -> None:
        self._driver, self._uuid, self._domain, self._paths = driver, uuid, domain, paths
        self._host_name, self.options = host_name, options
        self._disks: list[str] = []
        self._begun = self._paused = False
        self.performing = self.aborted = False
        self._may_post_copy = options.post_copy
        self.end_memory: Callable[[], bool] = lambda: False
        self.notify_paused: Callable[[], None] = lambda: None

    @property
    def sockets(self) -> Mapping[str, Path]:
        folder = self._paths.agent_socket.parent
        return {MEMORY: folder / "send-memory.sock", DISKS: folder / "send-disks.sock"}

    def sockets_ready(self, end_memory: Callable[[], bool]) -> None:
        self.end_memory = end_memory
        for path in self.sockets.values():
            self._paths.account.change_owner(path, 0o600)

    def when_paused(self, notify: Callable[[], None]) -> None:
        self.notify_paused = notify

    @property
    def _flags(self) -> int:
        flags: int = BASIC
        if self._disks:
            flags |= LOCAL
        return flags | (POST_COPY if self._may_post_copy and not self._disks else 0)

    @property
    def uses_post_copy(self) -> bool:
        """Whether post-copy is possible: local disks exclude it, because their copy would end too late."""
        return bool(self._flags & POST_COPY)

    def offer(self) -> bytes:
        with translated("describe the guest"):
            xml = self._domain.XMLDesc(XML)
            self._paused = self._domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED
            self._disks = sized_disks(xml)
            sizes = {name: self._domain.blockInfo(name)[0] for name in self._disks}
        seed = (self._paths.real / self._paths.seed.name).read_bytes() if self._paths.seed.exists() else b""
        return msgspec.msgpack.encode(
            Offer(xml=xml, seed=seed, sizes=sizes, paused=self._paused, post_copy=self.uses_post_copy)
        )

    def begin(self, shape: bytes) -> bytes:
        decoded = msgspec.msgpack.decode(shape, type=Shape)
        self._may_post_copy = self._may_post_copy and decoded.post_copy
        parameters: dict[str, str | int | list[str]] = {libvirt.VIR_MIGRATE_PARAM_DEST_XML: decoded.xml}
        if self._disks:
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = self._disks
        try:
            cookie = five_phases.begin(self._domain, parameters, self._flags)
        except libvirt.libvirtError as error:
            if error.get_error_code() in {libvirt.VIR_ERR_CONFIG_UNSUPPORTED, libvirt.VIR_ERR_OPERATION_UNSUPPORTED}:
                raise UnsupportedError("The guest's hardware cannot be migrated.", detail=str(error)) from error
            with translated("begin the migration"):
                raise
        self._begun = True
        return _named(cookie, self._host_name)

    def perform(self, prepared: bytes) -> bytes:
        parameters: dict[str, str | int | list[str]] = {libvirt.VIR_MIGRATE_PARAM_URI: f"unix://{self.sockets[MEMORY]}"}
        if self._disks:
            parameters[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = f"unix://{self.sockets[DISKS]}"
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = self._disks
        if self.options.bandwidth_mb:
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = self.options.bandwidth_mb
        self.performing = True
        try:
            self._domain.migrateSetMaxDowntime(LAST_TRANSFER)
            cookie = five_phases.perform(self._domain, parameters, prepared, self._flags)
        except libvirt.libvirtError as error:
            if self.aborted:
                raise StoppedError("The migration was aborted.") from error
            raise MigrationFailedError("The guest could not be transferred.", detail=str(error)) from error
        finally:
            self.performing = False
        return _named(cookie, self._host_name)

    def amount(self) -> Amount:
        try:
            stats = self._domain.jobStats()
        except libvirt.libvirtError:
            return Amount(0, 0)
        names = ("data_processed", "data_total", "disk_processed", "disk_total")
        return Amount(*(stats.get(name, 0) for name in names))

    def leave(self, finished: bytes) -> None:
        self._confirm(finished, cancelled=False)
        self._driver._states.forget(self._uuid)
        self._driver._departures.pop(self._uuid, None)

    def stay(self) -> None:
        if self._begun:
            self._confirm(b"", cancelled=True)
        self._driver._departures.pop(self._uuid, None)

    def _confirm(self, cookie: bytes, *, cancelled: bool) -> None:
        self._begun = False
        parameters: dict[str, str | int | list[str]] = {libvirt.VIR_MIGRATE_PARAM_DEST_NAME: domain_name(self._uuid)}
        with translated("end the migration"):
            try:
                five_phases.confirm(self._domain, parameters, cookie, self._flags, cancelled=cancelled)
            except libvirt.libvirtError as error:
                # A failed transfer may have ended the job already; the guest then runs, or has ended.
                if not cancelled or error.get_error_code() not in _NO_JOB:
                    raise
                log.info("guest %s: %s", self._uuid, error)
            resumes = cancelled and not self._paused and self._domain.isActive()
            if resumes and self._domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
                self._domain.resume()


_NO_JOB = {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_FAILED}


class _LibvirtArrival(Arrival):
    """The receiving side of one guest."""

    def __init__(
        self, driver: MigrationOperations, spec: InstanceSpec, attempt: int, paths: InstancePaths, host_name: str
    ) -> None:
        self._driver, self._spec, self._attempt, self._paths = driver, spec, attempt, paths
        self._host_name = host_name
        self._xml = ""
        self._offer = Offer("", b"", {}, paused=False, post_copy=False)
        self._waiting = False

    @property
    def sockets(self) -> Mapping[str, Path]:
        folder = self._paths.agent_socket.parent
        return {MEMORY: folder / "receive-memory.sock", DISKS: folder / "receive-disks.sock"}

    @property
    def _flags(self) -> int:
        flags: int = BASIC
        if self._offer.sizes:
            flags |= LOCAL
        if self._offer.post_copy:
            flags |= POST_COPY
        return flags

    @property
    def _connection(self) -> Any:
        return self._driver._hypervisor.get()

    def needs_image(self) -> bool:
        return boot_volume(self._spec) is None

    def create_disks(self, base: Path | None) -> None:
        self._driver.create_disk(self._spec, base)

    def shape(self, offer: bytes) -> bytes:
        try:
            decoded = msgspec.msgpack.decode(offer, type=Offer)
        except msgspec.DecodeError as error:
            raise UnsupportedError("The other host has not sent a valid guest.", detail=str(error)) from error
        plausible = all(DISK_NAME.fullmatch(name) and 0 < size <= LARGEST_DISK for name, size in decoded.sizes.items())
        if not plausible or len(decoded.sizes) > MOST_DISKS or len(decoded.seed) > MOST_SEED:
            raise UnsupportedError("The other host has not sent a valid guest.")
        decoded.post_copy = decoded.post_copy and can_post_copy(self._paths.account, self._connection.getVersion())
        self._offer = decoded
        own = self._driver._xml(self._spec, self._attempt)
        self._xml = arriving_xml(own, decoded.xml)
        if set(decoded.sizes) != set(sized_disks(self._xml)):
            raise UnsupportedError("The guest's disks differ from its record.", detail=str(sorted(decoded.sizes)))
        return msgspec.msgpack.encode(Shape(self._xml, decoded.post_copy))

    def prepare(self, begun: bytes) -> bytes:
        if self._offer.seed:
            (self._paths.real / self._paths.seed.name).write_bytes(self._offer.seed)
        for name, size in self._offer.sizes.items():
            self._fit(*file_of(self._xml, name), size)
        self._paths.hand_over()
        for path in self.sockets.values():
            path.unlink(missing_ok=True)
        parameters: dict[str, str | int | list[str]] = {
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: self._xml,
            libvirt.VIR_MIGRATE_PARAM_URI: f"unix://{self.sockets[MEMORY]}",
        }
        if self._offer.sizes:
            parameters[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = f"unix://{self.sockets[DISKS]}"
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(self._offer.sizes)
        self._driver._power_off(self._spec.uuid)
        self._driver._undefine(self._spec.uuid)
        self._start_tpm()
        self._waiting = True
        with translated("wait for the guest"):
            cookie = five_phases.prepare(self._connection, parameters, begun, self._flags)
        return _named(cookie, self._host_name)

    def _start_tpm(self) -> None:
        """Start the guest's TPM, if it has one. Its state arrives with the memory, and is encrypted with this host's
        own key.
        """
        version = guest_hardware(self._spec).tpm_version
        if version:
            self._driver._tpm(self._spec.uuid).start(version, self._driver._paths.account)

    def _fit(self, path: str, kind: str, size: int) -> None:
        """Extend a new disk to the size of the guest's disk, to which it may have been resized."""
        file = self._paths.real / Path(path).name
        try:
            words = run_program("qemu-img", "info", "-f", kind, "--output", "json", str(file))
            has = int(msgspec.json.decode(words)["virtual-size"])
            if has < size:
                run_program("qemu-img", "resize", "-q", "-f", kind, str(file), str(size))
        except (ProgramError, OSError) as error:
            raise RetryableHostError("The host could not create the guest's disk.", detail=str(error)) from error
        if has > size:
            raise UnsupportedError("The guest's disk is smaller than its record.", detail=f"{size} < {has} bytes")

    def finish(self, performed: bytes) -> bytes:
        parameters: dict[str, str | int | list[str]] = {
            libvirt.VIR_MIGRATE_PARAM_DEST_NAME: domain_name(self._spec.uuid)
        }
        flags = self._flags | (libvirt.VIR_MIGRATE_PAUSED if self._offer.paused else 0)
        with translated("start the received guest"):
            cookie = five_phases.finish(self._connection, parameters, performed, flags, cancelled=False)
        self._define()
        return _named(cookie, self._host_name)

    def arrived(self) -> bool:
        domain = self._driver._find(self._spec.uuid)
        if domain is None:
            return False
        mark = self._driver._mark(domain)
        with translated("look at the guest"):
            if mark is None or mark.attempt != self._attempt or not domain.isActive():
                return False
            state = domain.state()
            waits = state[0] == libvirt.VIR_DOMAIN_PAUSED and state[1] != libvirt.VIR_DOMAIN_PAUSED_USER
        if waits:
            return False
        self._define()
        return True

    def _define(self) -> None:
        """Store the definition of the guest, which already runs; a failure does not end the guest."""
        domain = self._driver._domain(self._spec.uuid)
        with contextlib.suppress(libvirt.libvirtError, HostError):
            self._connection.defineXML(volume_table.settle(domain.XMLDesc(XML)))
        state = self._driver._state(domain)
        self._driver._states.know(self._spec.uuid, state)
        if state is PowerState.RUNNING:
            for path in self.sockets.values():
                path.unlink(missing_ok=True)

    def cancel(self) -> None:
        uuid = self._spec.uuid
        if not self._waiting or self._driver._find(uuid) is None:
            return
        parameters: dict[str, str | int | list[str]] = {libvirt.VIR_MIGRATE_PARAM_DEST_NAME: domain_name(uuid)}
        with contextlib.suppress(libvirt.libvirtError):
            five_phases.finish(self._connection, parameters, b"", self._flags, cancelled=True)
        self._driver._power_off(uuid)
        self._driver._undefine(uuid)


def can_post_copy(account: Account, qemu: int) -> bool:
    """Return whether QEMU may handle page faults of its memory in the kernel. ``qemu``: libvirt's number of its
    version.

    Linux allows it for processes with a capability that libvirt removes from each QEMU, whatever its account; for all,
    if the operator has set ``vm.unprivileged_userfaultfd``; and for those that may open a device, which old versions of
    QEMU do not use.
    """
    try:
        unprivileged = USERFAULTS.read_text().strip() != "0"
    except OSError:
        return True  # the kernel does not distinguish
    return unprivileged or (qemu >= USES_DEVICE and USERFAULT_DEVICE.exists() and account.may_use(USERFAULT_DEVICE))


def _named(cookie: bytes, host: str) -> bytes:
    """Name this host in a cookie by its name in the cloud.

    libvirt refuses a migration to a host with the same name or id, which hosts on one machine have.
    """
    name = b"novella-" + re.sub(r"[^A-Za-z0-9.-]", "-", host)[:64].encode()
    cookie = OWN_NAME.sub(b"<hostname>" + name + b"</hostname>", cookie)
    return OWN_UUID.sub(b"<hostuuid>" + str(uuids.uuid5(NAMESPACE, host)).encode() + b"</hostuuid>", cookie)
