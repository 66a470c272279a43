"""A service namespace for each network of guests on this host, in which the host serves DHCP, DNS and metadata.

The namespace has the MAC and the addresses of the DHCP port, which are the same on every host, and forwards no packets.
The namespace's name server forwards queries through the uplink, independently of the network's routers.
"""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from compute_agent.contract.build import PortRef
from compute_agent.contract.network import NetworkDocument
from compute_agent.network.dhcp.dhcp import DhcpServer, machine_servers
from compute_agent.network.dhcp.dhcp_config import METADATA, DhcpUser, Name, Served, leases_of, served_name
from compute_agent.network.host_network import Leased
from compute_agent.network.kernel import links, names, namespace
from compute_agent.network.kernel.addresses import ensure_addresses
from compute_agent.network.kernel.uplink import Uplink
from compute_agent.network.state.desired import DesiredState, Touched
from compute_agent.network.state.parts import Part, for_each
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

METADATA_V6 = "fe80::a9fe:a9fe"
LEAST_MTU_OF_IPV6 = 1280
"""Bytes (RFC 8200): the kernel disables IPv6 below it.  ``METADATA_V6`` is OpenStack's address of metadata."""
METADATA_PORT = 80
UPSTREAM = "upstream"
"""The service namespace's interface towards the machine."""
SEALED = (
    ("net.ipv4.ip_forward", "0"),
    ("net.ipv4.conf.all.rp_filter", "1"),
    ("net.ipv4.conf.all.arp_ignore", "1"),
    ("net.ipv6.conf.all.forwarding", "0"),
)
"""Settings of a namespace that answers but does not forward."""


class Listeners(Protocol):
    """Server of guests' metadata requests."""

    def opened(self, network_id: str, listening: Sequence[socket.socket]) -> None:
        """Use these listening sockets of a network instead of older ones."""

    def closed(self, network_id: str) -> None:
        """Stop listening on the network."""


class Services(Part):
    """Maintains the service namespaces of this host."""

    def __init__(
        self, folder: Path, agent: str | None, user: DhcpUser, uplink: Uplink | None, metadata: Listeners | None
    ) -> None:
        """``folder`` contains a folder for each network. ``agent`` is the agent's own namespace. Without ``uplink``,
        external names are not resolved; without ``metadata``, no metadata is served.
        """
        self._folder = folder
        self._agent = agent
        self._user = user
        self._uplink = uplink
        self._metadata = metadata
        self._listening: set[str] = set()
        self._brought: dict[str, NetworkDocument] = {}
        """The documents of networks that this process has applied, by id, without other hosts."""
        self._heard: dict[str, int] = {}
        """Network id → offset in the lease events of the DHCP server, up to which they have been read."""
        self._servers: dict[str, DhcpServer] = {}
        """Network id → DHCP server."""

    def prepare(self) -> None:
        """Do nothing: networks share no objects."""

    def bring(self, desired: DesiredState, touched: Touched) -> None:
        served = [network for network in touched.networks(desired) if _is_served(network, desired)]
        for_each(served, lambda network: self._bring(network, desired, again=touched.everything))

    def drop(self, desired: DesiredState) -> None:
        there = namespace.listed(names.namespace_prefix(self._agent, names.SERVICE))
        kept = {self.space(network.id) for network in desired.networks.values() if _is_served(network, desired)}
        for_each([name for name in there if name not in kept], self._drop)

    def check(self, desired: DesiredState) -> list[str]:
        masters, repaired = links.masters(), []
        there = namespace.listed(names.namespace_prefix(self._agent, names.SERVICE))
        for network in desired.networks.values():
            if not _is_served(network, desired):
                continue
            connected = masters.get(names.service_end(network.id)) == network.bridge
            if not connected or self.space(network.id) not in there:
                repaired.append(f"services of network {network.id}")
            elif network.service is not None and self._dhcp(network.id).running() is None:
                repaired.append(f"DHCP of network {network.id}")
            else:
                continue
            self._bring(network, desired, again=True)
        return repaired

    def started(self) -> None:
        """Wait until all starting DHCP servers answer. Raises RetryableHostError."""
        for_each(list(self._servers.values()), DhcpServer.started)

    def leases(self, desired: DesiredState) -> list[Leased]:
        """Return lease events of this host's guests since the last call."""
        result: dict[tuple[str, str], Leased] = {}
        for network in desired.networks.values():
            if network.service is None or not _is_served(network, desired):
                continue
            events, self._heard[network.id] = self._dhcp(network.id).events(self._heard.get(network.id, 0))
            ports = desired.ports_on(network.id) if events else []
            for each in events:
                for local in ports:
                    if each.address in local.addresses:
                        leased = Leased(local.instance_id, local.port.id, each.address, each.held)
                        result[local.port.id, each.address] = leased
        return list(result.values())

    def space(self, network_id: str) -> str:
        """Return the name of the network's namespace."""
        return names.namespace_name(self._agent, names.SERVICE, network_id)

    def release(self, network: NetworkDocument, port: PortRef) -> None:
        """Release the interface's address at the DHCP server, if the network has one."""
        for lease in leases_of([("", port)]):
            for server in network.service.addresses if network.service is not None else ():
                if ":" not in server:
                    self._dhcp(network.id).release(server, lease, self.space(network.id))

    # --- inside -----------------------------------------------------------------------------------------------------

    def _dhcp(self, network_id: str) -> DhcpServer:
        if network_id not in self._servers:
            self._servers[network_id] = DhcpServer(self._folder / network_id / "dhcp", self._user)
        return self._servers[network_id]

    def _bring(self, network: NetworkDocument, desired: DesiredState, *, again: bool) -> None:
        name, placed = self.space(network.id), replace(network, peers=[], remote_ports=[])
        if again or self._brought.get(network.id) != placed:
            self._brought.pop(network.id, None)
            self._make(name, network)
            self._brought[network.id] = placed
        self._serve(name, network, desired)

    def _make(self, name: str, network: NetworkDocument) -> None:
        """Create the namespace with its interfaces and addresses, and listen for metadata requests."""
        try:
            made = namespace.ensure(name)
            if made:  # a server in a previous namespace is unusable
                self._dhcp(network.id).end()
            self._connect(name, network, made=made)
            with namespace.inside(name):
                self._configure(network, made=made)
        except OSError as error:
            raise RetryableHostError("The host could not create the network's services.", detail=str(error)) from error
        if self._metadata is not None and (made or network.id not in self._listening):
            with namespace.inside(name):
                listening = _metadata_sockets()
            self._metadata.opened(network.id, listening)
            self._listening.add(network.id)

    def _connect(self, name: str, network: NetworkDocument, *, made: bool) -> None:
        """Connect the namespace to the network's bridge and to the machine."""
        outer, mac = names.service_end(network.id), names.service_mac(network)
        with links.netlink("connect the network's services") as route:
            indexes = route.link_lookup(ifname=outer)
            if indexes and made:  # its other end is in a namespace that has lost its name
                route.link("del", index=indexes[0])
            if made or not indexes:
                with namespace.opened(name) as there:
                    peer = {"ifname": names.INSIDE, "net_ns_fd": there, "address": mac, "mtu": network.mtu}
                    route.link("add", ifname=outer, kind="veth", mtu=network.mtu, peer=peer)
            links.attach(route, outer, network.bridge, mac, network.mtu)
        if self._uplink is not None:
            self._uplink.lend(name, UPSTREAM, self._number(network.id))

    def _configure(self, network: NetworkDocument, *, made: bool) -> None:
        """Assign the addresses, in the calling thread's namespace."""
        if made:
            for setting, value in SEALED:
                with contextlib.suppress(RetryableHostError):  # without IPv6
                    links.write_sysctl(setting, value)
        own = [ipaddress.ip_address(each) for each in network.service.addresses] if network.service else []
        subnets = [ipaddress.ip_network(subnet.cidr) for subnet in network.subnets]
        lengths = {address: subnet.prefixlen for subnet in subnets for address in own if address in subnet}
        desired = {f"{address}/{length}" for address, length in lengths.items()} | {f"{METADATA}/32"}
        desired |= {f"{METADATA_V6}/64", f"{names.link_local(names.service_mac(network))}/64"}
        if network.mtu < LEAST_MTU_OF_IPV6:
            desired = {each for each in desired if ":" not in each}
        routes = [str(each) for each in subnets]
        ensure_addresses(names.INSIDE, names.service_mac(network), network.mtu, desired, routes, new=made)

    def _serve(self, name: str, network: NetworkDocument, desired: DesiredState) -> None:
        server = self._dhcp(network.id)
        if network.service is None:
            server.stop()
            return
        ports = desired.ports_on(network.id)
        try:
            leases = leases_of([(each.hostname, each.port) for each in ports], network.subnets)
        except ValueError as error:
            raise RetryableHostError("The host could not start DHCP.", detail=str(error)) from error
        known = [Name(each.hostname, tuple(each.addresses), each.port.dns_domain) for each in ports]
        here = {each.port.id for each in ports}  # a guest that is being migrated has a remote port as well
        remote = [each for each in network.remote_ports if each.id not in here]
        known += [Name(each.hostname, tuple(each.addresses), each.dns_domain) for each in remote]
        server.ensure(
            Served(
                interface=names.INSIDE,
                addresses=tuple(network.service.addresses),
                mtu=network.mtu,
                domain=network.dns_domain,
                subnets=network.subnets,
                leases=leases,
                names=[each for each in known if served_name(each.hostname)],
                upstream=self._upstream(network),
                namespace=name,
            )
        )

    def _upstream(self, network: NetworkDocument) -> tuple[str, ...]:
        """Return the servers for forwarded queries: the subnets' name servers, or else the machine's."""
        if self._uplink is None:
            return ()
        configured = [ipaddress.ip_address(each) for subnet in network.subnets for each in subnet.dns_nameservers]
        usable = dict.fromkeys(str(each) for each in configured if each.version == 4 and not each.is_unspecified)
        return tuple(usable) or machine_servers()

    def _drop(self, name: str) -> None:
        network_id = name.removeprefix(names.namespace_prefix(self._agent, names.SERVICE))
        if self._metadata is not None:
            self._metadata.closed(network_id)
        self._listening.discard(network_id)
        self._brought.pop(network_id, None)
        self._heard.pop(network_id, None)
        self._dhcp(network_id).stop()
        self._servers.pop(network_id)
        links.delete(names.service_end(network_id))
        namespace.remove(name)
        (self._folder / network_id / UPSTREAM).unlink(missing_ok=True)

    def _number(self, network_id: str) -> int:
        """Return the number of the network's address on the uplink. The number is stored while the namespace exists."""
        path = self._folder / network_id / UPSTREAM
        if path.exists():
            return int(path.read_text())
        taken = {int(other.read_text()) for other in self._folder.glob(f"*/{UPSTREAM}")}
        number = next(number for number in range(3, len(taken) + 4) if number not in taken)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(str(number))
        return number


def _is_served(network: NetworkDocument, desired: DesiredState) -> bool:
    """Return whether guests of this host use the network and the document of the network has been received."""
    return network.id not in desired.undocumented and bool(desired.ports_on(network.id))


def _metadata_sockets() -> list[socket.socket]:
    """Open the listening sockets for metadata, in the calling thread's namespace."""
    sockets = [socket.create_server((METADATA, METADATA_PORT))]
    with contextlib.suppress(OSError):  # without IPv6
        listening = socket.socket(socket.AF_INET6)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((METADATA_V6, METADATA_PORT, 0, socket.if_nametoindex(names.INSIDE)))
        listening.listen()
        sockets.append(listening)
    return sockets
