"""Segments connect a network's bridges on different hosts: a VXLAN device, or an interface to a physical network."""

import errno
import hashlib
import ipaddress
import logging
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError

from compute_agent.contract.build import Segment
from compute_agent.contract.network import NetworkDocument
from compute_agent.network.dhcp.dhcp_config import MAC
from compute_agent.network.kernel import links, names, namespace
from compute_agent.network.kernel.underlay import Underlay
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

VXLAN_PORT = 4789
"""IANA's port of VXLAN (RFC 7348)."""
EVERYONE = "00:00:00:00:00:00"
"""The entry for broadcasts and unknown addresses in a VXLAN device's forwarding table."""
MACHINE = "machine"
"""The physical network that is this machine itself: a pair of interfaces connects it to the machine's namespace."""


class UnreachablePeerError(RetryableHostError):
    """Some other hosts of a network cannot be reached. Traffic with the remaining hosts is not affected."""


def port_of(segment: Segment, network_id: str) -> str:
    """Return the name of the bridge's port towards other hosts or the physical network."""
    return f"vx{segment.id}" if segment.type == "vxlan" else names.interface("nvp", network_id)


def machine_end(agent: str | None, network_id: str) -> str:
    """Return the name of the port's other end in the machine's own namespace, if the port is a pair of interfaces.

    ``agent`` is the agent's own namespace: a machine may have several agents.
    """
    return names.interface("nve", agent or "", network_id)


class Segments:
    """Creates a bridge's port towards other hosts. ``links.delete`` removes it."""

    def __init__(self, underlay: Underlay, physical_networks: Mapping[str, str]) -> None:
        """``physical_networks``: name → interface or bridge of the machine's own namespace."""
        self._underlay = underlay
        self._physical = physical_networks
        self._unreachable: dict[str, list[str]] = {}
        """Unreachable peers, by network."""

    def ensure(self, network: NetworkDocument) -> None:
        """Create the segment of the network's bridge. Raises RetryableHostError with a message for operators."""
        kind = network.segment.type
        if kind == "vxlan":
            self._vxlan(network)
        elif kind in ("flat", "vlan"):
            self._physical_port(network)
        else:
            raise RetryableHostError(f"This host knows no segments of type {kind}.")

    def forward(self, network: NetworkDocument) -> None:
        """Update the forwarding table of an existing segment; only VXLAN has one. Raises RetryableHostError."""
        if network.segment.type == "vxlan":
            with links.netlink("update the network's forwarding table") as route:
                index = links.index_of(route, port_of(network.segment, network.id))
                self._unreachable[network.id] = _bring_forwarding(route, index, network, self._underlay.address())

    def check_network(self, network_id: str) -> None:
        """Raise UnreachablePeerError if other hosts of a network cannot be reached."""
        if wrong := self._unreachable.get(network_id):
            raise UnreachablePeerError(
                "The host cannot send to some other hosts of this network; it reaches the others.",
                detail="; ".join(wrong)[:500],
            )

    # --- VXLAN ------------------------------------------------------------------------------------------------------

    def _vxlan(self, network: NetworkDocument) -> None:
        name, local = port_of(network.segment, network.id), self._underlay.address()
        with links.netlink("connect the network's bridge to the bridges of other hosts") as route:
            indexes = route.link_lookup(ifname=name)
            if indexes and not _is_vxlan(route.get_links(indexes[0])[0], network.segment.id, local):
                route.link("del", index=indexes[0])
                indexes = []
            if not indexes:
                self._make_vxlan(name, network, local)
            index = _join(route, name, network)
            route.brport("set", index=index, learning=0)  # addresses come from documents
            self._unreachable[network.id] = _bring_forwarding(route, index, network, local)

    def _make_vxlan(self, name: str, network: NetworkDocument, local: str) -> None:
        """Create the device in the machine's namespace, through which its packets are sent, and move it to the agent's
        namespace.
        """
        room = self._underlay.room(local)
        if room is not None and room < network.mtu:
            log.warning("network %s: packets of %s bytes do not fit between hosts, which transfer at most %s",
                        network.id, network.mtu, room)  # fmt: skip
        facts: dict[str, Any] = {
            "ifname": name, "kind": "vxlan", "vxlan_id": network.segment.id, "vxlan_port": VXLAN_PORT,
            "vxlan_learning": False, "address": names.own_mac("vxlan", local, name),
            "vxlan_local6" if ":" in local else "vxlan_local": local,
        }  # fmt: skip
        with namespace.held() as here:
            self._underlay.inside(lambda: _add_link({**facts, "net_ns_fd": here}))

    # --- flat and VLAN ----------------------------------------------------------------------------------------------

    def _physical_port(self, network: NetworkDocument) -> None:
        name = port_of(network.segment, network.id)
        with links.netlink("join the network's bridge with its physical network") as route:
            if not route.link_lookup(ifname=name):
                with namespace.held() as here:
                    self._underlay.inside(lambda: self._make_physical(name, network, here))
            _join(route, name, network)

    def _make_physical(self, name: str, network: NetworkDocument, agent: int) -> None:
        """Create the port in the machine's namespace, and move it to the agent's namespace.

        A bridge of the machine is connected by a pair of interfaces. An interface that is not a bridge is used
        exclusively (macvlan in passthru mode).
        """
        physical = network.segment.physical_network
        configured = self._physical.get(physical, "")
        if not configured and physical != MACHINE:
            raise RetryableHostError(f"This host is not connected to the physical network {physical}.")
        with links.netlink(f"use its interface of the physical network {physical}") as route:
            indexes = route.link_lookup(ifname=configured) if configured else []
            if configured and not indexes:
                raise RetryableHostError(
                    f"This host is not connected to the physical network {physical}.",
                    detail=f"there is no {configured}",
                )
            facts: dict[str, Any] = {"ifname": name, "net_ns_fd": agent}
            if network.segment.type == "vlan":
                _add_vlan(route, {**facts, "link": indexes[0] if indexes else None, "vlan_id": network.segment.id})
            elif indexes and not _is_a(route.get_links(indexes[0])[0], "bridge"):
                route.link("set", index=indexes[0], state="up")
                route.link("add", kind="macvlan", macvlan_mode="passthru", link=indexes[0], **facts)
            else:
                outer = machine_end(self._underlay.agent, network.id)
                route.link("add", ifname=outer, kind="veth", mtu=network.mtu, peer={**facts, "mtu": network.mtu})
                index = links.index_of(route, outer)
                route.link("set", index=index, state="up", **({"master": indexes[0]} if indexes else {}))


def _join(route: Any, name: str, network: NetworkDocument) -> int:
    """Attach the interface to the network's bridge and bring it up. Return its index."""
    index, bridge = links.index_of(route, name), links.index_of(route, network.bridge)
    link = route.get_links(index)[0]
    if link.get_attr("IFLA_MASTER") != bridge or link.get_attr("IFLA_MTU") != network.mtu:
        links.silence(name)
        route.link("set", index=index, master=bridge, mtu=network.mtu, state="up")
    return int(index)


def _add_vlan(route: Any, facts: dict[str, Any]) -> None:
    if facts["link"] is None:
        raise RetryableHostError("There are no VLANs between this host and its guests: use a flat network.")
    try:
        route.link("add", kind="vlan", **facts)
    except NetlinkError as error:
        if error.code != errno.EOPNOTSUPP:
            raise
        raise RetryableHostError(
            "This host's kernel has no VLANs: load its module 8021q, or use VXLAN.", detail=str(error)
        ) from error


def _add_link(facts: dict[str, Any]) -> None:
    with links.netlink("create the network's interface towards other hosts") as route:
        route.link("add", **facts)


def _is_a(link: Any, kind: str) -> bool:
    info = link.get_attr("IFLA_LINKINFO")
    return bool(info is not None and info.get_attr("IFLA_INFO_KIND") == kind)


def _is_vxlan(link: Any, number: int | None, local: str) -> bool:
    if not _is_a(link, "vxlan"):
        return False
    data = link.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA")
    have = data.get_attr("IFLA_VXLAN_LOCAL6" if ":" in local else "IFLA_VXLAN_LOCAL")
    return bool(data.get_attr("IFLA_VXLAN_ID") == number and have == local)


def _bring_forwarding(route: Any, index: int, network: NetworkDocument, local: str) -> list[str]:
    """Set the device's forwarding table to exactly the peers and the remote ports.

    Peers that cannot be reached from ``local`` are omitted. Returns the reasons.
    """
    entries = {(EVERYONE, peer) for peer in network.peers}
    entries |= {(port.mac_address, port.underlay) for port in network.remote_ports if port.underlay}
    entries |= set(aliases(network))
    desired = {(mac, peer) for mac, peer in entries if _is_reached(peer, local) and MAC.fullmatch(mac)}
    wrong = {f"{mac} at {peer}": "it is not reached from here" for mac, peer in entries - desired}
    here = {mac for mac, _ in desired} - {EVERYONE}
    have, known = set(), set()
    for row in route.fdb("dump", ifindex=index):
        mac, target = row.get_attr("NDA_LLADDR"), row.get_attr("NDA_DST")
        if target is not None:
            have.add((mac, target))
        elif row["state"] & links.NUD_NOARP:
            known.add(mac)
    for mac, target in have - desired:
        route.fdb("del", ifindex=index, lladdr=mac, dst=target, flags=links.NTF_SELF)
    for mac, target in desired - have:
        try:
            route.fdb("append", ifindex=index, lladdr=mac, dst=target, flags=links.NTF_SELF, state=links.NUD_PERMANENT)
        except (NetlinkError, OSError) as error:
            wrong[f"{mac} at {target}"] = str(error)
    for mac in known - here:
        route.fdb("del", ifindex=index, lladdr=mac, flags=links.NTF_MASTER)
    for mac in here - known:
        route.fdb("replace", ifindex=index, lladdr=mac, flags=links.NTF_MASTER, state=links.NUD_NOARP)
    for peer, why in sorted(wrong.items()):
        log.warning("network %s: hardware address %s is left out: %s", network.id, peer, why)
    return [f"{peer}: {why}" for peer, why in sorted(wrong.items())]


def _is_reached(peer: str, local: str) -> bool:
    """Return whether a peer is reachable from ``local``: it has the same IP version, and both or neither
    are loopback.
    """
    try:
        here, there = ipaddress.ip_address(local), ipaddress.ip_address(peer)
    except ValueError:
        return False
    several = there.is_multicast or there.is_unspecified or str(there) == "255.255.255.255"
    return not several and here.version == there.version and here.is_loopback == there.is_loopback


def alias(mac: str, underlay: str) -> str:
    """Return the alias of the shared address ``mac`` between hosts, for the host with this underlay address.

    The alias is locally administered, and outside the range of ports (``fa:16:3e``).

    A router has the same MAC address on each host, so that guests reach it on any host. Between hosts, the same address
    would belong to several hosts; ``routers.gateways`` translates the address in frames that leave or reach the host.
    """
    digest = hashlib.sha256(f"{underlay} {mac}".encode()).digest()
    return "fa:3f:" + ":".join(f"{byte:02x}" for byte in digest[:4])


def aliases(network: NetworkDocument) -> list[tuple[str, str]]:
    """Return the alias and the underlay address for each shared MAC address on each other host of the network."""
    return [(alias(mac, peer), peer) for peer in network.peers for mac in network.shared_macs]
