"""The real network of a host: a bridge for each network, dnsmasq, nftables, and a way out."""

import ipaddress
import logging
import subprocess
import threading
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, NetworkRef, PortRef
from compute_agent.contract.messages import Leftover
from compute_agent.network import dhcp_user, firewall, leftovers, links, namespace
from compute_agent.network.dhcp import DhcpServer, leases_of, server_address, upstream_servers
from compute_agent.network.folding import Folded
from compute_agent.network.host_network import HostNetwork
from compute_agent.network.reach import Reach, reach_of
from compute_agent.network.records import Records
from compute_agent.network.uplink import INSIDE, Uplink
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.programs import ProgramError, run_program

log = logging.getLogger(__name__)

RESOLV_CONF = Path("/etc/resolv.conf")
BRIDGE_SETTINGS = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-arptables")


class LinuxNetwork(HostNetwork):
    """Keeps the contract of ``HostNetwork`` in the network namespace the process is in (see ``namespace.enter``).

    What is plugged is on disk under ``state_dir/network``; the kernel is brought to it, never read as the truth.
    """

    def __init__(self, settings: AgentSettings) -> None:
        """Keep the books in the state folder; call ``namespace.enter`` before when the settings name a namespace."""
        self._folder = settings.state_dir.absolute() / "network"
        self._settings = settings
        self._reach: Reach | None = None
        self._original = namespace.left()
        wanted = settings.netns is not None and settings.uplink and self._original is not None
        self._uplink = Uplink(settings.netns) if wanted and settings.netns else None
        self._dhcp_user = dhcp_user.choose(settings.dhcp_user)
        self._lock = threading.RLock()
        self._filter_all = Folded(self._filter)
        self._records = Records(self._folder / "instances")

    # --- the contract -----------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._loopback()
            links.write_sysctl("net.ipv4.ip_forward", "1")
            self._filter_bridges()
            if self._uplink is not None and self._original is not None:
                try:
                    self._uplink.ensure(self._original, self._folder / "ip_forward")
                except RetryableHostError as error:
                    log.warning("guests have no way out of this host: %s (%s)", error, error.detail)
            self._bring_up()

    def plug(self, spec: InstanceSpec) -> None:
        with self._lock:
            self._check_spec(spec)
            self._records.put(spec)
            for bridge in {port.network.bridge for port in spec.ports}:
                self._serve(bridge)

    def apply_firewall(self, spec: InstanceSpec) -> None:
        with self._lock:
            self._check_spec(spec)
            self._records.put(spec)
        self._filter_all()

    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._lock:
            if spec.uuid not in self._records.uuids():
                return
            self._check_spec(spec)
            self._records.put(spec)
            links.delete(port.tap)
            self._release(port)
            self._filter()
            self._serve(port.network.bridge)

    def unplug(self, uuid: str) -> None:
        with self._lock:
            record = self._records.remove(uuid)
            if record is None:
                return
            for port in record.ports:
                links.delete(port.tap)
                self._release(port)
            self._filter()
            for bridge in {port.network.bridge for port in record.ports}:
                self._serve(bridge)

    def restore(self, specs: list[InstanceSpec]) -> None:
        with self._lock:
            wanted = {spec.uuid for spec in specs}
            for spec in specs:
                self._check_spec(spec)
                self._records.put(spec)
            for uuid in self._records.uuids() - wanted:
                self.unplug(uuid)
            self._bring_up()

    def check(self) -> list[str]:
        """Mend what died by itself (a DHCP server, a bridge, the filters); return a line for each thing mended.

        Cheap enough for every few seconds.  Raises RetryableHostError when something cannot be mended.
        """
        with self._lock:
            mended = []
            for bridge in self._records.networks():
                if self._dhcp(bridge).running() is None and self._has_dhcp(bridge):
                    mended.append(f"DHCP of {bridge}")
                self._serve(bridge)
            if not firewall.installed():
                self._filter()
                mended.append("filters")
            elif self._reach != self._reach_now():
                self._filter()
                mended.append("networks that guests do not reach")
            return mended

    def leftovers(self, guests: set[str]) -> list[Leftover]:
        with self._lock:
            return leftovers.listed(self._records, self._folder, guests)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _dhcp(self, bridge: str) -> DhcpServer:
        return DhcpServer(self._folder / "bridges" / links.interface_name(bridge), self._dhcp_user)

    def _bring_up(self) -> None:
        """Bring the kernel to what is on record; what is right already is left alone."""
        networks = self._records.networks()
        for folder in (self._folder / "bridges").glob("*"):
            if folder.name not in networks:
                self._serve(folder.name)
        for bridge in networks:
            self._serve(bridge)
        for port in self._records.ports():
            links.join(port.network.bridge, port.tap)
        self._filter()

    def _serve(self, bridge: str) -> None:
        """Make the bridge and its DHCP server when a guest uses them, and remove them when none does."""
        network = self._records.networks().get(bridge)
        server = self._dhcp(bridge)
        if network is None:
            server.stop()
            links.delete(bridge)
            return
        address = server_address(network)
        prefix_length = ipaddress.ip_network(network.cidr).prefixlen
        server.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if links.ensure_bridge(bridge, address, prefix_length, network.mtu):
            server.end()  # one that runs listens on the bridge of before
        if self._has_dhcp(bridge):
            leases = leases_of(self._records.named_ports(bridge))
            server.ensure(network, leases, self._upstream(network))

    def _has_dhcp(self, bridge: str) -> bool:
        network = self._records.networks()[bridge]
        ports = self._records.ports(bridge)
        return server_address(network) is not None and any(ip.enable_dhcp for port in ports for ip in port.fixed_ips)

    def _upstream(self, network: NetworkRef) -> list[str]:
        """Return where the network's name server asks on."""
        if network.dns_nameservers:
            return [server for server in network.dns_nameservers if ":" not in server]
        try:
            return upstream_servers(RESOLV_CONF.read_text())
        except OSError:
            return []

    def _release(self, port: PortRef) -> None:
        address = server_address(port.network)
        if address is not None:
            for lease in leases_of([("", port)]):
                self._dhcp(port.network.bridge).release(address, lease)

    def _filter(self) -> None:
        with self._lock:
            reach = self._reach_now()
            firewall.apply(firewall.ruleset(self._records.ports(), INSIDE if self._uplink else None, reach))
            self._reach = reach

    def _reach_now(self) -> Reach:
        return reach_of(self._settings, self._original, self._records.networks())

    @staticmethod
    def _check_spec(spec: InstanceSpec) -> None:
        """Refuse what the host cannot carry before it is on record: it would spoil the filters of all others."""
        try:
            firewall.ruleset(spec.ports, None)
            leases_of([(spec.hostname, port) for port in spec.ports])
            for port in spec.ports:
                ipaddress.ip_network(port.network.cidr)
        except ValueError as error:
            raise RetryableHostError("The host cannot use the guest's network.", detail=str(error)) from error

    def _filter_bridges(self) -> None:
        """Show bridged packets to the filters; the kernel's module for it may have to be loaded."""
        if not Path("/proc/sys/net/bridge").exists():
            try:
                run_program("modprobe", "br_netfilter")
            except (ProgramError, subprocess.SubprocessError) as error:
                log.warning("br_netfilter: %s", error)
        for name in BRIDGE_SETTINGS:
            links.write_sysctl(name, "1")

    @staticmethod
    def _loopback() -> None:
        with links.netlink("start its loopback interface") as route:
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
