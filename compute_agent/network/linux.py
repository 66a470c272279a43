"""The network of a real host. Its parts apply the desired state to the kernel."""

import ipaddress
import logging
import threading
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, NetworkRef, PortRef
from compute_agent.contract.messages import Leftover, Owned, Tracking
from compute_agent.contract.network import (
    FLOATING_IP,
    NETWORK,
    SECURITY_GROUP,
    FloatingIpDocument,
    NetworkDocument,
    RouterDocument,
    SecurityGroupDocument,
)
from compute_agent.network.bridges import bridges
from compute_agent.network.bridges.bridges import Bridges
from compute_agent.network.bridges.segments import Segments
from compute_agent.network.dhcp import dhcp_config
from compute_agent.network.dhcp.dhcp_config import leases_of
from compute_agent.network.dhcp.services import Listeners, Services
from compute_agent.network.filters.applying import Filters
from compute_agent.network.filters.plan import check
from compute_agent.network.guest_sockets import interface_of, open_in
from compute_agent.network.host_network import GuestInterface, HostNetwork, Leased, Target
from compute_agent.network.kernel import links, names, namespace, tracking
from compute_agent.network.kernel.names import link_local
from compute_agent.network.kernel.underlay import Underlay
from compute_agent.network.kernel.uplink import Uplink
from compute_agent.network.routers.routing import Routing
from compute_agent.network.state import leftovers
from compute_agent.network.state.desired import EVERYTHING, DesiredState, Touched
from compute_agent.network.state.documents import Document, Documents, kind_of
from compute_agent.network.state.folding import Folded
from compute_agent.network.state.parts import Part, for_each
from compute_agent.network.state.records import Records
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)


class LinuxNetwork(HostNetwork):
    """Implements ``HostNetwork`` in the process's network namespace (see ``namespace.enter``).

    Plugged instances and received documents are stored under ``state_dir/network``. The parts apply them to the kernel,
    whose state is never used as the source of truth.
    """

    def __init__(self, settings: AgentSettings, metadata: Listeners | None = None) -> None:
        """Store state in the state folder. If the settings specify a namespace, call ``namespace.enter`` before.

        ``metadata`` answers guests' metadata requests.
        """
        self._folder = settings.state_dir.absolute() / "network"
        self._settings = settings
        self._original = namespace.left()
        self._uplink = Uplink(settings.netns or names.NOBODYS, settings.volume_ports) if settings.uplink else None
        self._lock = threading.RLock()
        self._filter_all = Folded(self._filter)
        self._filters = Filters(self._folder / "filters")
        self._records = Records(self._folder / "instances")
        self._documents = Documents(self._folder / "documents")
        self._tracked: Tracking | None = None
        """The last measurement of connection tracking."""
        self._lacking: list[str] = []
        """Sentences about requirements of all networks that the host does not meet. While the list is not empty, no
        network is applied.
        """
        self._failing = ""
        """The last failure to apply the desired state."""
        self._unfinished = False
        """Whether the kernel is not in the desired state after a failure; ``check`` retries."""
        self._underlay = Underlay(settings, self._original)
        self._segments = Segments(self._underlay, settings.physical_networks)
        networks = self._folder / "networks"
        user = dhcp_config.choose(settings.dhcp_user)
        self._services = Services(networks, settings.netns, user, self._uplink, metadata)
        self._routing = Routing(settings, self._underlay)
        self._parts: list[Part] = [Bridges(networks, self._segments), self._services, self._routing]

    # --- the contract -----------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._loopback()
            if self._uplink is not None:
                try:
                    self._uplink.ensure(self._original, self._folder / "ip_forward", self.reached_at())
                except RetryableHostError as error:
                    log.warning("guests have no external access from this host: %s (%s)", error, error.detail)
            self._lacking = bridges.lacks()
            for part in self._parts:
                part.prepare()
            self._bring_all()
            # The filters have loaded connection tracking by now.
            self._underlay.inside(tracking.prepare_machine)
            tracking.prepare_namespace()

    def reached_at(self) -> str:
        """Return the address at which other hosts reach this host; empty while it is unknown."""
        try:
            return self._underlay.address()
        except RetryableHostError as error:
            log.warning("other hosts cannot reach this host's volumes: %s (%s)", error, error.detail)
            return ""

    def warnings(self) -> list[str]:
        return [*self._lacking, *([self._failing] if self._failing else []), *tracking.warnings(self._tracked)]

    def tracking(self) -> Tracking | None:
        self._tracked = self._filters.tracking()
        return self._tracked

    def plug(self, spec: InstanceSpec, *, away: bool = False) -> None:
        with self._lock:
            self._check_spec(spec)
            self._records.put(spec, away=away)
            self._bring(_networks_of(spec.ports), servers_begun=True)

    def switch(self, uuid: str, *, here: bool) -> None:
        with self._lock:
            ports = self._records.move(uuid, away=not here)
            if not ports:
                return
            moving = {port.id for port in ports}
            documents = self._documents.of(FloatingIpDocument).values()
            floating = {each.id for each in documents if each.port_id in moving}
            networks = _networks_of(ports).subjects
            self._bring(Touched(networks | {(FLOATING_IP, each) for each in floating}), servers_begun=True)
            if here:
                self._routing.announce(floating)
                bridges.announce(ports)
        self._filter_all()

    def flows(self, uuid: str) -> bytes:
        return self._filters.flows({port.id for port in self._records.ports_of(uuid)})

    def adopt(self, uuid: str, flows: bytes) -> None:
        self._filters.adopt({port.id for port in self._records.ports_of(uuid)}, flows)

    def apply_firewall(self, spec: InstanceSpec) -> None:
        with self._lock:
            self._check_spec(spec)
            self._records.put(spec)
        self._filter_all()
        with self._lock:
            self._services.started()

    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._lock:
            if spec.uuid in self._records.uuids():
                self._check_spec(spec)
                self._records.put(spec)
                self._unplug_ports([port])

    def unplug(self, uuid: str) -> None:
        with self._lock:
            record = self._records.remove(uuid)
            if record is not None:
                self._unplug_ports(record.ports)

    def restore(self, specs: list[InstanceSpec]) -> None:
        with self._lock:
            uuids = {spec.uuid for spec in specs}
            for spec in specs:
                self._check_spec(spec)
                self._records.put(spec)
            for uuid in self._records.uuids() - uuids:
                self.unplug(uuid)
            self._bring_all()

    def interface_at(self, network_id: str, address: str) -> GuestInterface | None:
        for each in self._records.local_ports():
            if each.port.network.id == network_id and address in (*each.addresses, link_local(each.port.mac_address)):
                return GuestInterface(each.instance_id, each.port.id, self._floating(network_id, each.addresses))
        return None

    def guest_socket(self, instance_id: str, port_id: str, address: str, port: int) -> Target:
        interface = interface_of(self._records.ports_of(instance_id), port_id, address)
        space = names.namespace_name(self._settings.netns, names.SERVICE, interface.network.id)
        return open_in(space, address, port)

    def check(self) -> list[str]:
        """Repair failures (a DHCP server, a bridge, the filters), and return a line for each repair.

        Cheap enough to run every few seconds. Raises RetryableHostError if a repair fails.
        """
        with self._lock:
            repaired: list[str] = []
            if self._lacking:
                self._lacking = bridges.lacks()
                if self._lacking:
                    return []
                self._filter()
                self._bring(EVERYTHING)
                repaired.append("forwarding and bridge filtering")
            if not self._filters.intact() or self._filters.unfinished:
                self._filter()
                repaired.append("filters")
            if self._unfinished:
                self._bring(EVERYTHING)
                repaired.append("previous failures")
            desired = self._desired()
            for_each(self._parts, lambda part: repaired.extend(part.check(desired)))
            return repaired

    def leases(self) -> list[Leased]:
        with self._lock:
            return self._services.leases(self._desired())

    def leftovers(self, guests: set[str]) -> list[Leftover]:
        with self._lock:
            return leftovers.listed(self._records, self._folder, guests)

    def apply(self, document: Document, generation: int, digest: str = "") -> None:
        with self._lock:
            self._documents.put(document, generation, digest)
            self._bring(Touched(frozenset({(kind_of(document), document.id)})))
        self._filter_all.patiently()
        if kind_of(document) == SECURITY_GROUP:
            self._filters.check_group(document.id)
        if kind_of(document) == NETWORK:
            self._segments.check_network(document.id)
        if kind_of(document) == FLOATING_IP:
            self._routing.check_floating_ip(document.id)

    def forget(self, kind: str, subject_id: str) -> None:
        with self._lock:
            if not self._documents.remove(kind, subject_id):
                return
            self._bring(Touched(frozenset({(kind, subject_id)})))
        self._filter_all.patiently()

    def documents(self) -> list[Owned]:
        with self._lock:
            return self._documents.listed(each.port for each in self._records.local_ports())

    def forget_outdated(self, outdated: Collection[Owned]) -> None:
        with self._lock:
            gone = [each for each in outdated if self._documents.holds(each)]
            for each in gone:
                self._documents.remove(each.subject_kind, each.subject_id)
            if gone:
                self._bring(EVERYTHING)
        if gone:
            self._filter_all()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _desired(self) -> DesiredState:
        networks = self._documents.of(NetworkDocument)
        ports = self._records.local_ports()
        here = {each.port.id for each in ports if not each.away}
        undocumented = {each.port.network.id: _document(each.port.network) for each in ports}
        floating = self._documents.of(FloatingIpDocument)
        return DesiredState(
            ports=tuple(ports),
            networks={**undocumented, **{key: _without(each, here) for key, each in networks.items()}},
            routers=self._documents.of(RouterDocument),
            floating_ips={
                key: replace(each, port_id="")
                for key, each in floating.items()
                if not each.port_id or each.port_id in here
            },
            security_groups=self._documents.of(SecurityGroupDocument),
            undocumented=frozenset(undocumented.keys() - networks.keys()),
        )

    def _bring(self, touched: Touched, *, servers_begun: bool = False) -> None:
        """Apply the desired state to the kernel. Unchanged parts are left unchanged.

        When this returns, DHCP servers answer. With ``servers_begun`` they may still be starting, and the caller must
        call ``Services.started``.
        """
        desired, unfinished = self._desired(), self._unfinished
        if self._lacking:
            for_each(reversed(self._parts), lambda part: part.drop(desired))
            if touched.networks(desired):
                raise RetryableHostError(self._lacking[0])
            return
        self._unfinished = True
        try:
            for_each(self._parts, lambda part: part.bring(desired, touched))
            for_each(reversed(self._parts), lambda part: part.drop(desired))
            if not servers_begun:
                self._services.started()
        except RetryableHostError as error:
            self._failing = f"{error.message} {error.detail}".strip()
            raise
        self._unfinished = unfinished and not touched.everything
        if not self._unfinished:
            self._failing = ""

    def _bring_all(self) -> None:
        """Apply the whole desired state, the filters first. ``check`` retries failures.

        Failures of a network or router do not delay others.
        """
        if self._lacking:
            return
        self._filter()
        try:
            self._bring(EVERYTHING)
        except RetryableHostError as error:
            log.warning("the host's network is not complete: %s (%s)", error, error.detail)

    def _unplug_ports(self, ports: list[PortRef]) -> None:
        """Remove interfaces that are no longer recorded."""
        for port in ports:
            links.delete(port.tap)
            self._release(port)
        self._filter()
        self._bring(_networks_of(ports))

    def _floating(self, network_id: str, addresses: list[str]) -> str:
        """Return the floating IP of the first of these addresses on a network; empty if it has none."""
        routers = self._documents.of(RouterDocument)
        for floating in self._documents.of(FloatingIpDocument).values():
            router = routers.get(floating.router_id)
            joined = router is not None and any(leg.network_id == network_id for leg in router.interfaces)
            if joined and floating.fixed_address in addresses[:1]:
                return floating.address
        return ""

    def _release(self, port: PortRef) -> None:
        network = self._documents.of(NetworkDocument).get(port.network.id)
        if network is not None:
            self._services.release(network, port)

    def _filter(self) -> None:
        with self._lock:
            self._filters.apply(self._desired())

    @staticmethod
    def _check_spec(spec: InstanceSpec) -> None:
        """Reject interfaces that the host cannot apply, before they are recorded: they would disrupt other interfaces'
        networks.
        """
        try:
            leases_of([(spec.hostname, port) for port in spec.ports])
            for port in spec.ports:
                check(port)
                ipaddress.ip_network(port.network.cidr)
        except ValueError as error:
            raise RetryableHostError("The host cannot use the guest's network.", detail=str(error)) from error

    @staticmethod
    def _loopback() -> None:
        with links.netlink("start its loopback interface") as route:
            route.link("set", index=links.LOOPBACK, state="up")


def _networks_of(ports: Iterable[PortRef]) -> Touched:
    return Touched(frozenset((NETWORK, port.network.id) for port in ports))


def _without(network: NetworkDocument, here: Collection[str]) -> NetworkDocument:
    """Return the network without the remote ports that are here: the guest of such a port has just been migrated, or
    the document is older than the guest.
    """
    kept = [each for each in network.remote_ports if each.id not in here]
    return network if len(kept) == len(network.remote_ports) else replace(network, remote_ports=kept)


def _document(ref: NetworkRef) -> NetworkDocument:
    """Return a document of a network with the data of an interface on it. The document suffices for the bridge and the
    segment.
    """
    return NetworkDocument(
        id=ref.id, name=ref.name, bridge=ref.bridge, mtu=ref.mtu, segment=ref.segment, subnets=ref.subnets,
        dns_domain=ref.dns_domain,
    )  # fmt: skip
