"""The uplink of this host's namespaces: a pair of interfaces to the machine's network, with NAT there."""

import hashlib
import ipaddress
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_agent.network.kernel import links, namespace, tracking
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes.programs import ProgramError, run_program

log = logging.getLogger(__name__)

INSIDE = "uplink"
POOL = ipaddress.IPv4Network("100.64.0.0/10")
"""Shared address space (RFC 6598), which is unlikely to be in use on the machine's networks."""
PREFIX_LENGTH = 20
"""Sufficient for the services of 4,000 networks."""
LEND = "create the uplink of the network's services"


@dataclass(frozen=True)
class Uplink:
    """The uplink of one agent. Names and addresses are derived from the name of the agent's namespace, or from
    ``names.NOBODYS`` if the agent has none.
    """

    netns: str
    volume_ports: tuple[int, int] | None = None
    """TCP ports of the machine that are forwarded to storage daemons in the namespace; None: none are forwarded."""

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.netns.encode()).hexdigest()

    @property
    def outside(self) -> str:
        """The interface in the machine's own namespace."""
        return f"nv-{self._digest[:8]}"

    @property
    def table(self) -> str:
        """The nftables table in the machine's own namespace."""
        return "novella_uplink_" + self._digest[:8]

    @property
    def outside_address(self) -> str:
        """The default gateway of the namespace."""
        return str(self._subnet[1])

    @property
    def inside_address(self) -> str:
        """The namespace's own address."""
        return str(self._subnet[2])

    @property
    def _subnet(self) -> ipaddress.IPv4Network:
        number = int(self._digest[8:16], 16) % (1 << (PREFIX_LENGTH - POOL.prefixlen))
        return ipaddress.IPv4Network((int(POOL[0]) + (number << (32 - PREFIX_LENGTH)), PREFIX_LENGTH))

    def ensure(self, original: int | None, state: Path, underlay: str = "") -> None:
        """Create the pair, routes and NAT. ``original`` is the machine's namespace, None if the agent runs in it.

        ``state`` is a file that stores whether the machine forwarded packets before. ``underlay`` is the machine's
        address for other hosts. Raises RetryableHostError.
        """
        with namespace.held() as here:
            if original is None:  # daemons listen on the machine's ports already
                self._ensure_outside(here, state, "")
            else:
                namespace.open_in(original, lambda: self._ensure_outside(here, state, underlay))
        with links.netlink("create the uplink of its networks") as route:
            index = links.index_of(route, INSIDE)
            route.link("set", index=index, state="up")
            if original is not None:
                _only_address(route, index, self.inside_address)
                route.route("replace", dst="default", gateway=self.outside_address)

    def lend(self, space: str, interface: str, number: int) -> None:
        """Connect another namespace of this host to the machine, with an interface, an address and a default route.

        ``number`` is 3 or more and unique.  These namespaces cannot reach each other.  Raises RetryableHostError.
        """
        address = str(self._subnet[number])
        with (
            namespace.held() as here,
            namespace.opened(space) as there,
            namespace.inside(space),
            links.netlink(LEND) as route,
        ):
            indexes = route.link_lookup(ifname=interface)
            if not indexes:
                namespace.open_in(here, lambda: _make_macvlan(interface, there))
            index = links.index_of(route, interface)
            if _only_address(route, index, address):
                links.silence(interface)
                route.link("set", index=index, state="up")
                route.route("replace", dst="default", gateway=self.outside_address)

    def remove(self, state: Path) -> bool:
        """Remove the objects in the machine's own namespace, which must be the caller's. Return whether any existed."""
        result = links.delete(self.outside)
        try:
            run_program("nft", "-f", "-", stdin=f"table ip {self.table}\ndelete table ip {self.table}\n".encode())
            others = b"novella_uplink_" in run_program("nft", "list", "tables")
        except ProgramError as error:
            raise RetryableHostError("The uplink's filters could not be removed.", detail=str(error)) from error
        if state.exists():
            if not others:
                links.write_sysctl("net.ipv4.ip_forward", state.read_text().strip())
            state.unlink()
        return result

    def _ensure_outside(self, inside: int, state: Path, underlay: str) -> None:
        with links.netlink("create the uplink of its networks") as route:
            indexes = route.link_lookup(ifname=self.outside)
            if not indexes:
                route.link("add", ifname=self.outside, kind="veth", peer={"ifname": INSIDE, "net_ns_fd": inside})
                indexes = route.link_lookup(ifname=self.outside)
            route.link("set", index=indexes[0], state="up")
            _only_address(route, indexes[0], self.outside_address)
        forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()
        if forwarding != "1":
            if not state.exists():
                state.write_text(forwarding)
            links.write_sysctl("net.ipv4.ip_forward", "1")
        try:
            run_program("nft", "-f", "-", stdin=self._ruleset(underlay).encode())
        except ProgramError as error:
            raise RetryableHostError("The host could not create the uplink of guests.", detail=str(error)) from error

    def _ruleset(self, underlay: str) -> str:
        interface, table = self.outside, self.table
        share = tracking.limit() // tracking.LARGEST_PART  # part of the machine's table, for each network's DNS queries
        to_volumes, from_here, volumes = self._way_to_volumes(underlay)
        return f"""\
table ip {table}
delete table ip {table}
table ip {table} {{
  set begun {{ type ipv4_addr; size 65535; flags dynamic; }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {self._subnet} oifname != "{interface}" masquerade
    {from_here}
  }}
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    {to_volumes}
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname "{interface}" ct state new add @begun {{ ip saddr ct count over {share} }} drop
    oifname "{interface}" ct state established,related accept
    {volumes}
    oifname "{interface}" drop
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname "{interface}" ct state established,related accept
    iifname "{interface}" icmp type echo-request accept
    iifname "{interface}" drop
  }}
}}
"""

    def _way_to_volumes(self, underlay: str) -> tuple[str, str, str]:
        """Return three rules. They allow other hosts and the namespace itself, but no guest, to reach the daemons of
        the namespace at ``underlay``.
        """
        if self.volume_ports is None or not underlay or ipaddress.ip_address(underlay).version != 4:
            return "", "", ""
        first, last = self.volume_ports
        ports, itself = f"tcp dport {first}-{last}", f"ip saddr {self.inside_address}"
        others = f'iifname != "{self.outside}"'
        back = f'oifname "{self.outside}" {itself} ct status dnat masquerade'
        enter = f"dnat to {self.inside_address}"
        ways = f"{others} ip daddr {underlay} {ports} {enter}\n    {itself} ip daddr {underlay} {ports} {enter}"
        return ways, back, f'oifname "{self.outside}" {ports} ct status dnat accept'


def _make_macvlan(interface: str, space: int) -> None:
    with links.netlink(LEND) as route:
        link = links.index_of(route, INSIDE)
        facts = {"kind": "macvlan", "macvlan_mode": "private", "link": link, "net_ns_fd": space}
        route.link("add", ifname=interface, **facts)


def _only_address(route: Any, index: int, address: str) -> bool:
    """Make ``address`` the interface's only IPv4 address. Return whether this changed anything."""
    have = {(row.get_attr("IFA_ADDRESS"), row["prefixlen"]) for row in route.get_addr(family=2, index=index)}
    if have == {(address, PREFIX_LENGTH)}:
        return False
    for other, length in have - {(address, PREFIX_LENGTH)}:
        route.addr("del", index=index, address=other, prefixlen=length)
    route.addr("replace", index=index, address=address, prefixlen=PREFIX_LENGTH)
    return True
