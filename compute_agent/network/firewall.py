"""The filters of this host as one nftables ruleset: no spoofing, and what the security rules of each port allow.

``table bridge`` sees every frame a guest sends, before anything else: only its own hardware address, its own IPv4
addresses, no DHCP server, nothing but IPv4 and ARP (IPv6 is not offered to guests).  ``table inet`` sees the flows,
bridged ones by br_netfilter, with connection tracking: what no rule of the port allows is dropped, towards the guest or
from it, whether it comes from another guest, from outside or from this host.  DHCP always works.  Networks do not see
each other, and what leaves them for a blocked network (see ``reach``) is dropped, whatever the port's rules say.

A rule whose remote is a group admits the addresses of the group's ports on the same network, and only while they are on
the network's bridge: a packet from elsewhere with a member's address is none of the group's.  Members on other hosts
are not known and need not be, because a network does not span hosts.  A member without port security does not count:
nothing holds it to its address.

The whole ruleset is rendered from what is plugged and replaces the old one in one transaction; tracked flows go on.
"""

import contextlib
import ipaddress
import json
import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from compute_agent.contract.build import PortRef, SecurityRule
from compute_agent.network.dhcp import MAC
from compute_agent.network.links import interface_name
from compute_agent.network.reach import Reach
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.programs import ProgramError, run_program

log = logging.getLogger(__name__)

TABLE = "novella"
PORTED = frozenset({"tcp", "udp", "sctp", "udplite", "dccp"})
NUMBERS = {"ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "igmp": 2, "ipip": 4, "ospf": 89, "pgm": 113,
           "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112}  # fmt: skip
"""Names of protocols that the Network API knows, by number (IANA)."""

EVERYTHING = Reach()


def ruleset(ports: Sequence[PortRef], uplink: str | None, reach: Reach = EVERYTHING) -> str:
    """Render the ruleset for these ports; ``uplink`` is the interface behind which guests are hidden by NAT.

    Raises ValueError for an address or name that is none: nothing unchecked reaches nft.
    """
    bridges = sorted({interface_name(port.network.bridge) for port in ports})
    filtered = [port for port in ports if port.port_security]
    open_bridges = {port.network.bridge for port in ports if not port.port_security}
    lines = [*_replace("bridge"), *_spoofing_table(filtered), *_replace("inet")]
    lines += [f"table inet {TABLE} {{"]
    lines += _set("bridges", "ifname", [f'"{name}"' for name in bridges])
    lines += _set("closed", "ifname", [f'"{name}"' for name in bridges if name not in open_bridges])
    lines += _networks("blocked", reach.blocked) + _networks("reachable", reach.reachable)
    for bridge in bridges:
        lines += _group_sets(bridge, [port for port in filtered if port.network.bridge == bridge])
        lines += [f"  chain from-{bridge} {{", f'    oifname "{bridge}" return', "    oifname @bridges drop", "  }"]
    for direction, prefix in (("ingress", "in"), ("egress", "out")):
        for port in filtered:
            lines += [f"  chain {prefix}-{interface_name(port.tap)} {{", *_rules(port, direction), "    drop", "  }"]
        jumps = {
            f'"{port.network.bridge}" . {address}': f"jump {prefix}-{port.tap}"
            for port in filtered
            for address in addresses(port)
        }
        lines += _map(direction, "ifname . ipv4_addr", jumps)
    lines += _base_chains(bridges, uplink)
    return "\n".join([*lines, "}", ""])


def apply(text: str) -> None:
    """Put the ruleset into the kernel in one transaction; raises RetryableHostError."""
    try:
        run_program("nft", "-f", "-", stdin=text.encode())
    except ProgramError as error:
        raise RetryableHostError("The host could not set the guest's filters.", detail=str(error)) from error


def installed() -> bool:
    """Return whether both tables are there."""
    try:
        tables = run_program("nft", "list", "tables").decode().split("\n")
    except ProgramError:
        return False
    return {f"table inet {TABLE}", f"table bridge {TABLE}"} <= set(tables)


def chains() -> set[str]:
    """Return the names of the chains in both tables; empty when there are none."""
    try:
        listed = run_program("nft", "-j", "list", "chains")
    except ProgramError as error:
        raise RetryableHostError("The host could not list its filters.", detail=str(error)) from error
    rows = [entry["chain"] for entry in json.loads(listed)["nftables"] if "chain" in entry]
    return {row["name"] for row in rows if row["table"] == TABLE}


def remove() -> None:
    """Remove both tables from the calling thread's namespace."""
    apply("".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in ("inet", "bridge")))


def addresses(port: PortRef) -> list[str]:
    """Return the port's IPv4 addresses; raises ValueError for what is no address."""
    parsed = [ipaddress.ip_address(fixed.address) for fixed in port.fixed_ips]
    return [str(address) for address in parsed if address.version == 4]


def _replace(family: str) -> list[str]:
    # The first line makes the second one work when there is no table yet.
    return [f"table {family} {TABLE}", f"delete table {family} {TABLE}"]


def _set(name: str, kind: str, elements: Iterable[str]) -> list[str]:
    listed = sorted(set(elements))
    body = f"; elements = {{ {', '.join(listed)} }}" if listed else ""
    return [f"  set {name} {{ type {kind}{body}; }}"]


def _networks(name: str, networks: Sequence[str]) -> list[str]:
    listed = ", ".join(str(ipaddress.IPv4Network(network)) for network in networks)
    return [f"  set {name} {{ type ipv4_addr; flags interval; {f'elements = {{ {listed} }}; ' if listed else ''}}}"]


def _group_sets(bridge: str, ports: Sequence[PortRef]) -> list[str]:
    """Render, for each group that a rule on the bridge names, the set of its members; it may be empty."""
    members: dict[str, list[str]] = {}
    for port in ports:
        for group in port.security_group_ids:
            members.setdefault(_group_set(bridge, group), []).extend(addresses(port))
    wanted = set()
    for port in ports:
        for rule in port.security_rules:
            if rule.remote_group_id is not None:
                with contextlib.suppress(ValueError):  # said where the rule is rendered
                    wanted.add(_group_set(bridge, rule.remote_group_id))
    return [line for name in sorted(wanted) for line in _set(name, "ipv4_addr", members.get(name, ()))]


def _group_set(bridge: str, group: str) -> str:
    return f"group-{bridge}-{UUID(group).hex}"


def _map(name: str, kind: str, elements: dict[str, str]) -> list[str]:
    body = ", ".join(f"{key} : {verdict}" for key, verdict in sorted(elements.items()))
    return [f"  map {name} {{ type {kind} : verdict" + (f"; elements = {{ {body} }}" if body else "") + "; }"]


def _spoofing_table(ports: Sequence[PortRef]) -> list[str]:
    lines = [f"table bridge {TABLE} {{"]
    for port in ports:
        if not MAC.fullmatch(port.mac_address):
            raise ValueError(f"not a hardware address: {port.mac_address!r}")
        own = ", ".join(addresses(port))
        lines += [
            f"  chain from-{interface_name(port.tap)} {{",
            f"    ether saddr != {port.mac_address} drop",
            "    ether type != { arp, ip } drop",
            f"    ether type arp arp saddr ether != {port.mac_address} drop",
            f"    ether type arp arp saddr ip {{ 0.0.0.0{', ' if own else ''}{own} }} accept",
            "    ether type arp drop",
            "    ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
            "    udp sport 67 drop",
            f"    ip saddr {{ {own} }} accept" if own else "    drop",
            "    drop",
            "  }",
        ]
    jumps = {f'"{port.tap}"': f"jump from-{port.tap}" for port in ports}
    lines += _map("interfaces", "ifname", jumps)
    lines += ["  chain prerouting {", "    type filter hook prerouting priority -300; policy accept;"]
    return [*lines, "    iifname vmap @interfaces", "  }", "}"]


def _base_chains(bridges: Sequence[str], uplink: str | None) -> list[str]:
    between = ", ".join(f'"{bridge}" : jump from-{bridge}' for bridge in bridges)
    lines = [
        "  chain forward {",
        "    type filter hook forward priority filter; policy accept;",
        "    ct state established,related accept",
        "    ct state invalid drop",
        "    iifname @bridges oifname != @bridges ip daddr != @reachable ip daddr @blocked drop",
        "    iifname . ip saddr vmap @egress",
        *([f"    iifname vmap {{ {between} }}"] if between else []),
        "    oifname . ip daddr vmap @ingress",
        "    oifname @closed drop",
        "  }",
        "  chain input {",
        "    type filter hook input priority filter; policy accept;",
        "    iifname != @bridges accept",
        "    ct state established,related accept",
        "    udp sport 68 udp dport 67 accept",
        "    iifname . ip saddr vmap @egress",
        "    meta l4proto { tcp, udp } th dport 53 accept",
        "    icmp type echo-request accept",
        "    drop",
        "  }",
        "  chain output {",
        "    type filter hook output priority filter; policy accept;",
        "    oifname != @bridges accept",
        "    ct state established,related accept",
        "    udp sport 67 udp dport 68 accept",
        "    oifname . ip daddr vmap @ingress",
        "  }",
    ]
    if uplink:
        lines += [
            "  chain postrouting {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            f'    oifname "{interface_name(uplink)}" masquerade',
            "  }",
        ]
    return lines


def _rules(port: PortRef, direction: str) -> list[str]:
    # An allowed flow out of a guest still has to be allowed into the next one: return, not accept.
    verdict = "accept" if direction == "ingress" else "return"
    found = []
    for rule in port.security_rules:
        if rule.direction != direction or rule.ethertype != "IPv4":
            continue
        try:
            match = _match(port, rule)
        except ValueError as error:
            log.warning("a security rule of port %s allows nothing: %s", port.id, error)
            continue
        found.append(f"    {match} {verdict}".rstrip())
    return found


def _match(port: PortRef, rule: SecurityRule) -> str:
    side, interface = ("saddr", "iifname") if rule.direction == "ingress" else ("daddr", "oifname")
    parts = []
    if rule.remote_group_id is not None:
        bridge = port.network.bridge
        parts.append(f'{interface} "{bridge}" ip {side} @{_group_set(bridge, rule.remote_group_id)}')
    if rule.remote_ip_prefix:
        prefix = ipaddress.IPv4Network(rule.remote_ip_prefix, strict=False)
        if prefix.prefixlen:
            parts.append(f"ip {side} {prefix}")
    return " ".join(parts + _protocol(rule))


def _protocol(rule: SecurityRule) -> list[str]:
    """Match the protocol with its ports or ICMP type and code; raises ValueError for one that IPv4 does not have."""
    name = (rule.protocol or "any").lower()
    low, high = rule.port_range_min, rule.port_range_max
    if name in ("any", "0"):
        return []
    if name in ("icmp", "1"):
        code = [f"icmp code {int(high)}"] if low is not None and high is not None else []
        return ["meta l4proto icmp", *([f"icmp type {int(low)}"] if low is not None else []), *code]
    if name in ("17", "6", "132"):
        name = {"17": "udp", "6": "tcp", "132": "sctp"}[name]
    if name in PORTED and low is not None:
        return [f"{name} dport {int(low)}-{int(high if high is not None else low)}"]
    number = int(name) if name.isdecimal() else NUMBERS.get(name)
    if number is None or not 0 < number < 256:
        raise ValueError(f"unknown protocol {rule.protocol!r}")
    return [f"meta l4proto {number}"]
