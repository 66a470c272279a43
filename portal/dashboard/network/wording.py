"""Labels of security group rules, of ports and their devices, and of statuses."""

from collections.abc import Iterable, Mapping

from portal.dashboard.words.names import bdi
from provisioning.network.models import SecurityGroupRule
from provisioning.network.models.security_groups import Flow
from provisioning.network.records import flows, owners

EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
UPPER = {"tcp", "udp", "icmp", "sctp", "dccp", "gre", "esp", "ah", "igmp", "ospf", "vrrp", "egp", "pgm", "rsvp"}
NAMES = {number: name for name, number in flows.PROTOCOLS.items() if name not in {"icmpv6"}}
"""Protocol → its name in the API."""
ICMP_TYPES: Mapping[str, Mapping[int, str]] = {
    "IPv4": {0: "echo reply", 3: "destination unreachable", 8: "echo request", 11: "time exceeded"},
    "IPv6": {1: "destination unreachable", 2: "packet too big", 128: "echo request", 129: "echo reply"},
}
KINDS = frozenset({"instance", "network"})
"""Kinds of events that change the pages of networking."""
OWNERS = {
    owners.DHCP: "DHCP and DNS",
    owners.ROUTER_INTERFACE: "Router interface",
    owners.ROUTER_GATEWAY: "Router gateway",
    owners.FLOATING_IP: "Floating IP",
    owners.AGENT_GATEWAY: "Host's address",
}


def protocol_of(flow: Flow) -> str:
    """Format a protocol: ``TCP``, ``ICMPv6``, ``protocol 200``; empty for any."""
    number = flows.number_of(flow.protocol, flow.ethertype)
    if number is None:
        return ""
    if number == flows.PROTOCOLS["ipv6-icmp"]:
        return "ICMPv6"
    name = NAMES.get(number, "")
    return (name.upper() if name in UPPER else name) or f"protocol {number}"


def what(flow: Flow) -> str:
    """Format the traffic of a rule: ``TCP 22``, ``UDP 8000-8010``, ``ICMP echo request``, ``Everything``."""
    protocol, low, high = protocol_of(flow), flow.port_range_min, flow.port_range_max
    if not protocol:
        return "Everything"
    if protocol in {"ICMP", "ICMPv6"}:
        if low is None:
            return protocol
        kind = ICMP_TYPES[flow.ethertype].get(low, f"type {low}")
        return f"{protocol} {kind}" + (f", code {high}" if high is not None else "")
    if low is None or (low, high) == (1, flows.HIGHEST_PORT):
        return f"{protocol}, all ports" if flows.number_of(flow.protocol, flow.ethertype) in (6, 17) else protocol
    return f"{protocol} {low}" if low == high else f"{protocol} {low}-{high}"


def remote(rule: SecurityGroupRule) -> str:
    """Format the remote of a rule: ``anywhere (0.0.0.0/0)``, ``10.0.0.0/8``, ``members of web (IPv4)``."""
    if rule.remote_group is not None:
        return f"members of {bdi(rule.remote_group)} ({rule.ethertype})"
    if rule.remote_address_group is not None:
        return f"the addresses of {bdi(rule.remote_address_group)} ({rule.ethertype})"
    prefix = rule.remote_ip_prefix or EVERYWHERE[rule.ethertype]
    return f"anywhere ({prefix})" if prefix == EVERYWHERE[rule.ethertype] else prefix


def sentence(rule: SecurityGroupRule) -> str:
    """Format a rule: ``TCP 22 from anywhere (0.0.0.0/0)``."""
    return f"{what(rule)} {'from' if rule.direction == 'ingress' else 'to'} {remote(rule)}"


def listed(words: Iterable[str]) -> str:
    """Join words as in a sentence: ``a, b and c``."""
    *first, last = [bdi(each) for each in words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
