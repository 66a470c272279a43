"""The physical network ``machine``: external networks that end at this machine itself.

The machine has the external network's gateway address, on a bridge in its own namespace that all its agents share. The
machine reaches floating IPs directly over this bridge, and masquerades guests' outgoing traffic; other incoming traffic
is dropped. If the settings name an external interface, traffic from that interface's network is allowed. On that
interface the machine answers for guests' and routers' addresses (proxy ARP), so that no other host needs a route.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from compute_agent.contract.network import NetworkDocument
from compute_agent.network.bridges.segments import MACHINE, machine_end
from compute_agent.network.kernel import links, names, nft
from compute_agent.network.kernel.underlay import Underlay
from compute_agent.network.routers.kernel import bring_addresses, gone
from compute_agent.network.routers.words import of_version, replaced
from compute_agent.settings import AgentSettings

FORWARDING = "net.ipv4.ip_forward"
INET = 2
NTF_PROXY = 8


class Answered(msgspec.Struct):
    """The addresses and the interface of proxy ARP, stored so that they can be removed after the setting
    has changed.
    """

    interface: str = ""
    addresses: set[str] = set()


class MachineNetworks:
    """One agent's objects in the machine's own namespace, recorded in ``folder``."""

    def __init__(self, folder: Path, settings: AgentSettings, underlay: Underlay) -> None:
        """``underlay`` gives access to the machine's own namespace."""
        self._folder = folder
        self._settings = settings
        self._underlay = underlay
        self._rulesets: dict[str, str] = {}

    def concerns(self, network: NetworkDocument) -> bool:
        """Return whether the network ends at this machine."""
        segment = network.segment
        is_configured = MACHINE in self._settings.physical_networks
        return network.external and segment.type == "flat" and segment.physical_network == MACHINE and not is_configured

    def bring(self, network: NetworkDocument, addresses: frozenset[str]) -> None:
        """Connect the machine to the network. ``addresses``: the addresses that are on this host."""
        self._underlay.inside(lambda: self._bring(network, addresses))

    def keep_only(self, networks: Mapping[str, NetworkDocument]) -> None:
        """Remove the objects of all networks except these."""
        for path in self._folder.glob("*.json"):
            network = networks.get(path.stem)
            if network is None or not self.concerns(network):
                self._underlay.inside(lambda path=path: self._drop(path))  # type: ignore[misc]

    def lost(self, networks: Mapping[str, NetworkDocument]) -> list[str]:
        """Return the networks that the machine is no longer connected to."""
        network_ids = [network.id for network in networks.values() if self.concerns(network)]
        masters = self._underlay.inside(links.masters) if network_ids else {}
        return [each for each in network_ids if masters.get(machine_end(self._settings.netns, each)) != bridge_of(each)]

    def remove(self) -> list[str]:
        """Remove all objects from the machine's own namespace, which must be the caller's. Return the ids of their
        networks.
        """
        paths = sorted(self._folder.glob("*.json"))
        for path in paths:
            self._drop(path)
        return [path.stem for path in paths]

    # --- in the machine's namespace ---------------------------------------------------------------------------------

    def _bring(self, network: NetworkDocument, addresses: frozenset[str]) -> None:
        self._forward()
        bridge, path = bridge_of(network.id), self._folder / f"{network.id}.json"
        before = _read(path)
        outer = self._settings.external_interface
        with links.netlink("join the machine with an external network") as route:
            if not route.link_lookup(ifname=bridge):
                route.link("add", ifname=bridge, kind="bridge", br_stp_state=0, br_forward_delay=0,
                           address=names.own_mac("machine", network.id))  # fmt: skip
            index = links.index_of(route, bridge)
            route.link("set", index=index, mtu=network.mtu, state="up")
            for end in route.link_lookup(ifname=machine_end(self._settings.netns, network.id)):
                if route.get_links(end)[0].get_attr("IFLA_MASTER") != index:
                    route.link("set", index=end, master=index, state="up")
            bring_addresses(route, index, set(_gateways(network)))
            indexes = route.link_lookup(ifname=outer) if outer else []
            proxied = set(of_version(4, addresses)) if indexes else set()
            stale = before.addresses - (proxied if before.interface == outer else set())
            _answer_no_more(route, before.interface, stale)
            for address in proxied:
                _answer_for(route, "replace", outer, address)
            within = _contains_network(route, indexes[0], network) if indexes else False
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(Answered(outer, proxied)))
        ruleset = _ruleset(network, outer if indexes else "", within=within)
        if self._rulesets.get(network.id) != ruleset:
            nft.apply(ruleset)
            self._rulesets[network.id] = ruleset

    def _drop(self, path: Path) -> None:
        network_id, answered = path.stem, _read(path)
        bridge, own = bridge_of(network_id), machine_end(self._settings.netns, network_id)
        with links.netlink("stop answering for floating IPs") as route:
            _answer_no_more(route, answered.interface, answered.addresses)
        if not {name for name, master in links.masters().items() if master == bridge} - {own}:
            links.delete(bridge)
            nft.apply("".join(f"{line}\n" for line in replaced("inet", _table(network_id))))
        self._rulesets.pop(network_id, None)
        path.unlink(missing_ok=True)
        before = self._folder / "ip_forward"
        if before.exists() and not list(self._folder.glob("*.json")):
            links.write_sysctl(FORWARDING, before.read_text())
            before.unlink()

    def _forward(self) -> None:
        """Enable forwarding on the machine, and store the previous setting."""
        now = Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()
        if now != "1":
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / "ip_forward").write_text(now)
            links.write_sysctl(FORWARDING, "1")


def bridge_of(network_id: str) -> str:
    """Return the machine's bridge of a network, the same for all agents of the machine."""
    return names.interface("nvm", network_id)


def _table(network_id: str) -> str:
    return f"novella_{bridge_of(network_id)}"


def _read(path: Path) -> Answered:
    return msgspec.json.decode(path.read_bytes(), type=Answered) if path.exists() else Answered()


def _gateways(network: NetworkDocument) -> Iterator[str]:
    for subnet in network.subnets:
        whole = ipaddress.ip_network(subnet.cidr)
        if subnet.gateway is not None and ipaddress.ip_address(subnet.gateway) in whole:
            yield f"{ipaddress.ip_address(subnet.gateway)}/{whole.prefixlen}"


def _answer_for(route: Any, action: str, interface: str, address: str) -> None:
    for index in route.link_lookup(ifname=interface):
        route.neigh(action, family=INET, ifindex=index, dst=address, flags=NTF_PROXY)


def _answer_no_more(route: Any, interface: str, addresses: Iterable[str]) -> None:
    for address in addresses if interface else ():
        with gone():
            _answer_for(route, "del", interface, address)


def _contains_network(route: Any, index: int, network: NetworkDocument) -> bool:
    """Return whether the interface's ranges contain the network's IPv4 ranges. Then no route is needed there."""
    own = [
        ipaddress.IPv4Network((row.get_attr("IFA_ADDRESS"), row["prefixlen"]), strict=False)
        for row in route.get_addr(family=INET, index=index)
    ]
    ranges = [ipaddress.IPv4Network(cidr) for cidr in of_version(4, [subnet.cidr for subnet in network.subnets])]
    return all(any(each.subnet_of(around) for around in own) for each in ranges)


def _ruleset(network: NetworkDocument, outer: str, *, within: bool) -> str:
    table, bridge = _table(network.id), bridge_of(network.id)
    ranges = ", ".join(of_version(4, [str(ipaddress.ip_network(subnet.cidr)) for subnet in network.subnets]))
    beside = f', "{links.interface_name(outer)}"' if outer and within else ""
    masquerade = f'ip saddr {{ {ranges} }} oifname != {{ "{bridge}"{beside} }} masquerade' if ranges else ""
    let_in = f'iifname "{links.interface_name(outer)}" oifname "{bridge}" accept' if outer else ""
    return "\n".join(
        [
            *replaced("inet", table),
            f"table inet {table} {{",
            "  chain postrouting {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            f"    {masquerade}",
            "  }",
            "  chain forward {",
            "    type filter hook forward priority filter; policy accept;",
            f'    iifname "{bridge}" oifname "{bridge}" accept',
            f'    oifname "{bridge}" ct state established,related accept',
            f"    {let_in}",
            f'    oifname "{bridge}" drop',
            "  }",
            "  chain input {",
            "    type filter hook input priority filter; policy accept;",
            f'    iifname != "{bridge}" accept',
            "    ct state established,related accept",
            "    icmp type echo-request accept",
            "    meta l4proto ipv6-icmp accept",
            "    drop",
            "  }",
            "}",
            "",
        ]
    )
