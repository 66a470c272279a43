"""A rack with an outside: a network that all hosts are on, and a small control plane that knows all."""

from __future__ import annotations

import ipaddress
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from compute_agent.contract.build import FixedAddress, InstanceSpec, NetworkRef, SecurityRule, Segment, SubnetRef
from compute_agent.contract.network import (
    ExternalGateway,
    FloatingIpDocument,
    GroupMember,
    NetworkDocument,
    PortForward,
    RemotePort,
    Route,
    RouterDocument,
    RouterInterface,
    SecurityGroupDocument,
    ServicePort,
)
from compute_agent.network.kernel import namespace
from tests.host.cast import Wish
from tests.host.lab import Interface, Space, links
from tests.host.layer2.rack import MTU, Machine, Rack, document
from up.places import EXTERNAL

WORLD = "198.51.100.1"
"""A machine beyond the external network's gateway."""
WORLD_SIX = "2001:db8:ff::1"
OUTSIDE, OUTSIDE_SIX = "172.24.4.1", "2001:db8:4::1"
"""The external network's gateways, both on the machine that the world is on too."""

RANGE = ipaddress.IPv4Network("172.24.4.0/24")


def uuid_of(kind: int, number: int) -> str:
    return f"{kind:04d}{number:04d}-{number:04x}-4000-8{kind:03d}-000000000000"


def inner(number: int, *, octet: int | None = None, six: bool = False, **changes: Any) -> NetworkDocument:
    """The network 10.``octet``.0.0/24, with ``six`` 2001:db8:``octet``::/64 too; the gateway is at .1."""
    octet = octet or number
    subnets = [SubnetRef(id=uuid_of(1, number), cidr=f"10.{octet}.0.0/24", gateway=f"10.{octet}.0.1", routed=True)]
    if six:
        subnets.append(
            SubnetRef(
                id=uuid_of(2, number),
                cidr=f"2001:db8:{octet}::/64",
                gateway=f"2001:db8:{octet}::1",
                routed=True,
                ipv6_ra_mode="slaac",
                ipv6_address_mode="slaac",
            )
        )
    return document(number, subnets=subnets, service=None, **changes)


@dataclass
class RouterWish:
    """A router as its project wants it."""

    number: int
    networks: list[NetworkDocument]
    gateway: bool = True
    home: int | None = None
    """The host that bears the router's own address."""
    enable_snat: bool = True
    enabled: bool = True
    routes: list[Route] = field(default_factory=list)
    visits: dict[str, list[str]] = field(default_factory=dict)
    """Networks' ids → its addresses there with prefix length; elsewhere it has the gateways'."""
    outside: ipaddress.IPv4Network = RANGE

    @property
    def id(self) -> str:
        return uuid_of(3, self.number)

    @property
    def address(self) -> str:
        """Its own address outside."""
        return str(self.outside[20 + self.number])

    def mac(self, network: NetworkDocument) -> str:
        return f"fa:16:3e:f0:{self.number:02x}:{network.segment.id or 0:02x}"

    def document(self, host: int, external: NetworkDocument) -> RouterDocument:
        legs = [
            RouterInterface(
                port_id=uuid_of(4, self.number * 100 + (network.segment.id or 0)),
                network_id=network.id,
                mac_address=self.mac(network),
                addresses=self.visits.get(
                    network.id,
                    [f"{subnet.gateway}/{subnet.cidr.rpartition('/')[2]}" for subnet in network.subnets],
                ),
            )
            for network in self.networks
        ]
        here = self.home == host
        way = ExternalGateway(
            network_id=external.id,
            next_hops=[str(subnet.gateway) for subnet in external.subnets],
            enable_snat=self.enable_snat,
            port_id=uuid_of(5, self.number),
            mac_address=f"fa:16:3e:f1:00:{self.number:02x}",
            addresses=[f"{self.address}/{self.outside.prefixlen}", f"2001:db8:4::{100 + self.number}/64"],
            here=here,
        )
        return RouterDocument(
            id=self.id, name=f"router-{self.number}", enabled=self.enabled, interfaces=legs, routes=self.routes,
            external=way if self.gateway else None,
        )  # fmt: skip


@dataclass
class FloatingWish:
    """A floating IP: of a guest, or with port forwardings."""

    number: int
    router: RouterWish
    guest: Interface | None = None
    forwards: list[PortForward] = field(default_factory=list)
    virtual: str | None = None
    """An address that no port here has, and that any guest may take."""

    @property
    def address(self) -> str:
        return str(self.router.outside[40 + self.number])

    def document(self, external: NetworkDocument, bearer: str = "") -> FloatingIpDocument:
        return FloatingIpDocument(
            id=uuid_of(6, self.number), address=self.address, network_id=external.id, router_id=self.router.id,
            fixed_address=self.guest.address if self.guest else self.virtual, forwards=self.forwards, bearer=bearer,
        )  # fmt: skip


class Town(Rack):
    """Hosts, their outside, and a control plane that tells each what it must know."""

    wishes: ClassVar[dict[str, Any]] = {"physical_networks": {"lan": EXTERNAL}}
    switch = partial(Rack.switch, outside=(f"{OUTSIDE}/24", f"{OUTSIDE_SIX}/64"))

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.outside = Space(self._switch.world)
        self.outside.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for address in (f"{WORLD}/32", f"{WORLD_SIX}/128"):
            self.outside.run("ip", "addr", "add", address, "dev", "lo")
        self.range = RANGE
        self.networks: list[NetworkDocument] = []
        self.routers: list[RouterWish] = []
        self.floating: list[FloatingWish] = []
        self.groups: dict[str, list[SecurityRule]] = {}
        """What each security group allows."""
        self.targets: dict[str, Machine] = {}
        """Ports of guests that are being migrated, and where to."""
        self.notified: list[dict[tuple[str, str], object]] = [{} for _ in self.hosts]
        self.external = document(
            99,
            external=True,
            service=None,
            mtu=1500,
            segment=Segment(type="flat", physical_network="lan"),
            subnets=[SubnetRef(id=uuid_of(1, 99), cidr="172.24.4.0/24", gateway=OUTSIDE),
                     SubnetRef(id=uuid_of(2, 99), cidr="2001:db8:4::/64", gateway=OUTSIDE_SIX)],
        )  # fmt: skip

    # --- what there is ----------------------------------------------------------------------------------------------

    def guest(self, host: int, network: NetworkDocument, number: int, *groups: str) -> Interface:
        """Start a guest without the guest, that has its addresses and its gateway already; with ``groups`` it is
        filtered.
        """
        interface = self.plugged(host, network, number, *groups)
        interface.configure()
        for fixed in interface.port.fixed_ips:
            if ":" in fixed.address:
                interface.space.ip(
                    f"addr replace {fixed.address}/64 dev eth0 nodad",
                    f"route replace default via {fixed.gateway} dev eth0",
                )
        self.sync()
        return interface

    def plugged(self, host: int, network: NetworkDocument, number: int, *groups: str) -> Interface:
        """Plug a guest's interface, without addresses."""
        ref = NetworkRef(
            id=network.id, name=network.name, bridge=network.bridge, cidr=network.subnets[0].cidr,
            gateway=network.subnets[0].gateway, mtu=network.mtu, segment=network.segment, subnets=network.subnets,
        )  # fmt: skip
        wish = Wish(number, network=ref, port_security=bool(groups), groups=groups)
        port = wish.port()
        mac = f"fa:16:3e:{network.segment.id or 0:02x}:00:{number:02x}"
        fixed = list(port.fixed_ips)
        for subnet in (each for each in network.subnets if ":" in each.cidr):
            prefix, gateway = subnet.cidr.partition("/")[0], subnet.gateway
            six = str(ipaddress.ip_address(f"{prefix}f816:3eff:fe00:{number:x}"))
            fixed.append(FixedAddress(address=six, prefix_length=64, gateway=gateway))
            mac = f"fa:16:3e:00:00:{number:02x}"
        spec = replace(wish.spec(), ports=[replace(port, mac_address=mac, fixed_ips=fixed)])
        machine = self.hosts[host]
        if network not in self.networks:
            self.networks.append(network)
        machine.process.network.plug(spec)
        machine.process.network.apply_firewall(spec)
        interface = Interface(machine.inside, spec.ports[0], f"{self._name}-g{network.segment.id}-{number}")
        interface.space.run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=0")
        # An announcement that came first has given the same address, still to be proven unique.
        interface.space.ip("addr flush dev eth0 scope global", f"link set eth0 mtu {MTU}")
        machine.guests.append((spec, interface))
        self.sync()
        return interface

    def allow(self, group: str, *rules: SecurityRule) -> None:
        """Let a security group allow exactly these."""
        self.groups[group] = [*rules]
        self.sync()

    def router(self, number: int, *networks: NetworkDocument, **wishes: Any) -> RouterWish:
        """Make a router that every host has."""
        self.networks += [network for network in networks if network not in self.networks]
        wish = RouterWish(number, list(networks), outside=self.range, **wishes)
        self.routers.append(wish)
        self.sync()
        return wish

    def float(self, number: int, router: RouterWish, guest: Interface | None = None, **wishes: Any) -> FloatingWish:
        """Give a guest a floating IP."""
        wish = FloatingWish(number, router, guest, **wishes)
        self.floating.append(wish)
        self.sync()
        return wish

    # --- migrations -------------------------------------------------------------------------------------------------

    def prepare(self, guest: Interface, source: Machine, target: Machine) -> InstanceSpec:
        """Prepare the target of a guest that is being migrated, and tell both hosts."""
        (spec,) = (spec for spec, each in source.guests if each is guest)
        target.process.network.plug(spec, away=True)
        target.process.network.apply_firewall(spec)
        self.targets[guest.port.id] = target
        self.sync()
        return spec

    def move(self, guest: Interface, source: Machine, target: Machine) -> None:
        """Let the guest stop on the source, and run on the target, which the hosts notice without the control plane."""
        source.inside.ip(f"link del {guest.port.tap}")
        (spec,) = (spec for spec, each in source.guests if each is guest)
        flows = source.process.network.flows(spec.uuid)
        target.process.network.switch(spec.uuid, here=True)
        target.process.network.adopt(spec.uuid, flows)
        guest.connect(target.inside)
        guest.configure()
        source.process.network.switch(spec.uuid, here=False)

    def settle(self, guest: Interface, source: Machine, target: Machine) -> None:
        """Tell the hosts where the guest is, and unplug it on the source."""
        moved = next(each for each in source.guests if each[1] is guest)
        source.guests.remove(moved)
        target.guests.append(moved)
        self.targets.clear()
        self.sync()
        source.process.network.unplug(moved[0].uuid)

    # --- the control plane ------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Tell each host what has changed for it, all at a time."""
        self._generation += 1
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._tell, range(len(self.hosts))))

    def _tell(self, number: int) -> None:
        network, sent, now = self.hosts[number].process.network, self.notified[number], self._documents(number)
        for key in sent.keys() - now.keys():
            network.forget(*key)
        for key, requested in now.items():
            if sent.get(key) != requested:
                network.apply(requested, self._generation)
        self.notified[number] = now

    def _documents(self, number: int) -> dict[tuple[str, str], Any]:
        """What a host is to know, by kind and id."""
        host = self.hosts[number]
        now: dict[tuple[str, str], Any] = {("network", each.id): self._network(each, host) for each in self.networks}
        if any(each.gateway for each in self.routers):
            port = ServicePort(
                id=uuid_of(7, number), mac_address=f"fa:16:3e:f2:00:{number:02x}",
                addresses=[f"{self.range[10 + number]}/{self.range.prefixlen}"],
            )  # fmt: skip
            now["network", self.external.id] = replace(
                self.external,
                gateway_port=port,
                peers=[each.underlay for each in self.hosts if each is not host],
                remote_ports=self._gateways(number),
            )
        now |= {("router", each.id): each.document(number, self.external) for each in self.routers}
        now |= {("security_group", key): self._group(key, rules) for key, rules in self.groups.items()}
        for each in self.floating:
            bearer = self._bearer(each)
            if each.guest is not None and (target := self.targets.get(each.guest.port.id)) is not None:
                if host in (bearer, target):
                    result = replace(each.document(self.external), port_id=each.guest.port.id)
                    now["floating_ip", result.id] = result
            elif bearer is host or each.virtual or self._forwards_to(each, host):
                result = each.document(self.external, "" if bearer is host else bearer.underlay)
                now["floating_ip", result.id] = result
        return now

    def _group(self, group: str, rules: list[SecurityRule]) -> SecurityGroupDocument:
        ports = [port for host in self.hosts for spec, _ in host.guests for port in spec.ports]
        members = [
            GroupMember(network_id=port.network.id, address=fixed.address)
            for port in ports
            if group in port.security_group_ids
            for fixed in port.fixed_ips
        ]
        return SecurityGroupDocument(id=group, rules=rules, members=members)

    def _gateways(self, here: int) -> list[RemotePort]:
        """The gateways of other hosts, and of routers that have theirs there."""
        values = []
        for number, host in enumerate(self.hosts):
            macs = [f"fa:16:3e:f2:00:{number:02x}"]
            macs += [f"fa:16:3e:f1:00:{each.number:02x}" for each in self.routers if each.home == number]
            if number != here:
                values += [RemotePort(id=mac, mac_address=mac, addresses=[], underlay=host.underlay) for mac in macs]
        return values

    def _bearer(self, wish: FloatingWish) -> Machine:
        if wish.guest is None:
            return self.hosts[wish.router.home or 0]
        return next(host for host in self.hosts if any(each is wish.guest for _, each in host.guests))

    @staticmethod
    def _forwards_to(wish: FloatingWish, host: Machine) -> bool:
        inside = {each.address for _, each in host.guests}
        return any(forward.internal_address in inside for forward in wish.forwards)

    def _network(self, network: NetworkDocument, host: Machine) -> NetworkDocument:
        others = [each for each in self.hosts if each is not host]
        remote = [
            RemotePort(id=port.id, mac_address=port.mac_address, addresses=[fixed.address for fixed in port.fixed_ips],
                       underlay=where.underlay)
            for each in self.hosts
            for spec, _ in each.guests
            for port in spec.ports
            if port.network.id == network.id
            and (where := each if each is not host else self.targets.get(port.id)) is not None
        ]  # fmt: skip
        macs = [each.mac(network) for each in self.routers if network in each.networks]
        return replace(network, peers=[each.underlay for each in others], remote_ports=remote, shared_macs=macs)

    # --- the end ----------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Take everything away: guests, floating IPs, routers, networks."""
        super().clear()
        for listed in (self.floating, self.routers, self.networks, self.groups, self.targets):
            listed.clear()
        self.sync()

    def left(self) -> dict[str, list[str]]:
        """What is left on the hosts of networks and routers."""
        result = {}
        for host in self.hosts:
            name = host.inside.path.name
            left = list(namespace.listed(f"{name}-"))
            left += sorted(links(host.inside) - {"uplink"})
            left += [line for line in host.inside.run("nft", "list", "tables").splitlines() if "gateways" in line]
            if left:
                result[name] = left
        return result
