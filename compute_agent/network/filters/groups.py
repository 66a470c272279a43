"""The table of security groups: connections in networks' zones, and the traffic that groups allow."""

import functools
import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence

from compute_agent.contract.build import SecurityRule
from compute_agent.network.filters import ranges
from compute_agent.network.filters.connections import Flow
from compute_agent.network.filters.identity import METADATA_V4, METADATA_V6, TABLE, q, reassembled
from compute_agent.network.filters.plan import FilteredPort, Plan, group_key
from compute_agent.network.filters.ranges import Ranges
from compute_agent.network.filters.tables import Chain, Elements, Table

PORTED = {6: "tcp", 17: "udp", 33: "dccp", 132: "sctp", 136: "udplite"}
NUMBERS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "icmp": 1, "icmpv6": 58, "igmp": 2, "ipip": 4,
    "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "ipv6-route": 43,
    "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112,
}  # fmt: skip
"""Protocol names of the Networking API and their numbers (IANA)."""
ICMP, ICMPV6 = 1, 58
WAYS = ("out", "in")
"""The two directions: from a guest, and to a guest."""
DIRECTIONS = {"egress": "out", "ingress": "in"}
NEIGHBOURS = "{ nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report, mld-listener-report }"
"""Messages that are always allowed, because a guest's network depends on them."""


def table(plan: Plan) -> Table:
    """Return the table.  A rule that cannot be expressed in nft's syntax allows nothing (``unsayable``)."""
    sets = {"bridges": Elements("ifname", dict.fromkeys(map(q, plan.zones), ""))}
    for key, members in plan.members.items():
        sets |= _member_sets(key, members)
    chains = {}
    for key in {key for port in plan.ports if port.secured for key in port.groups}:
        for each in ranges.of(plan.groups[key]).values() if key in plan.groups else ():
            sets |= each.sets()
        for way, rules in _rules(plan, key).items():
            chains[f"group-{key}-{way}"] = Chain(rules)
    secured = [port for port in plan.ports if port.secured and port.enabled]
    chains |= {f"self-{port.number}": Chain(reassembled(port)) for port in secured}
    sets["self"] = Elements("mark : verdict", {str(port.number): f"jump self-{port.number}" for port in secured})
    for way in WAYS if plan.share else ():
        # A separate chain for each, because rewriting a chain resets its counters.
        counted = Chain((f"ct count over {plan.share} drop",))
        chains |= {f"share-{way}-{port.number}": counted for port in plan.ports}
        jumps = {str(port.number): f"jump share-{way}-{port.number}" for port in plan.ports}
        sets[f"shares-{way}"] = Elements("mark : verdict", jumps)
    filtered = [port for port in plan.ports if port.secured or not port.enabled]
    for way in WAYS:
        chains |= {f"{way}-{port.number}": Chain(_port(port, way)) for port in filtered}
        jumps = {str(port.number): f"jump {way}-{port.number}" for port in filtered}
        sets[way] = Elements("mark : verdict", jumps)
    return Table("inet", TABLE, sets, chains | _base(plan))


def unsayable(plan: Plan, key: str) -> list[str]:
    """Return the errors of those rules of a group that cannot be expressed in nft's syntax."""
    errors: list[str] = []
    _rules(plan, key, errors)
    return errors


def covers(rule: SecurityRule, flow: Flow) -> bool:
    """Return whether a rule matches a flow's IP version, protocol, port, and ICMP type and code."""
    try:
        number = _number(rule, flow.version)
    except ValueError:
        return False
    low, high = rule.port_range_min, rule.port_range_max
    if rule.ethertype != f"IPv{flow.version}" or number not in {None, flow.protocol}:
        return False
    if low is None or number is None:
        return True
    if number in {ICMP, ICMPV6}:
        return flow.icmp is not None and flow.icmp[0] == low and (high is None or flow.icmp[1] == high)
    return number not in PORTED or (flow.port is not None and low <= flow.port <= (low if high is None else high))


def _base(plan: Plan) -> dict[str, Chain]:
    zones = ", ".join(f"{q(bridge)} : {zone}" for bridge, zone in sorted(plan.zones.items()))
    stateless = {f"{q(port.bridge)} . {port.mac}" for port in plan.ports if _is_stateless(port, plan)}
    services = ", ".join(plan.service_macs)
    zoned = [f"ct zone set iifname map {{ {zones} }}"] if zones else []
    untracked = []
    if stateless:
        listed = ", ".join(sorted(stateless))
        sides = [f"iifname . ether {side} {{ {listed} }}" for side in ("saddr", "daddr")]
        untracked = [f"{side} notrack" for side in sides]
        # Packets with a zone are tracked, so only fragments get one, which separates those of two networks.
        whole = ("ip frag-off & 0x3fff == 0", "exthdr frag missing")
        zoned = [*(f"{side} {each} accept" for side in sides for each in whole), *zoned]
    guests = ("iifname != @bridges accept", "meta mark 0 accept")
    passes = ("ct state established,related accept", "ct state invalid drop")
    shares = {way: [f"ct state new meta mark vmap @shares-{way}"] if plan.share else [] for way in WAYS}
    served = [f"ether saddr {{ {services} }} accept"] if services else []
    return {
        # Before reassembly (-400): fragments of two networks with equal ranges must not be mixed.
        "zones": Chain(zoned, hook="type filter hook prerouting priority -450; policy accept;"),
        "untracked": Chain(untracked, hook="type filter hook prerouting priority -300; policy accept;"),
        "out-of-guests": Chain(
            (*guests, "meta mark vmap @self", *passes, *shares["out"], "meta mark vmap @out"),
            hook="type filter hook prerouting priority -150; policy accept;",
        ),
        "into-guests": Chain(
            (*guests, *passes, *shares["in"], *served, "meta mark vmap @in"),
            hook="type filter hook forward priority filter; policy accept;",
        ),
    }


def _is_stateless(port: FilteredPort, plan: Plan) -> bool:
    known = [plan.groups[key] for key in port.groups if key in plan.groups]
    return port.secured and bool(known) and not any(group.stateful for group in known)


def _port(port: FilteredPort, way: str) -> list[str]:
    if not port.enabled:
        return ["drop"]
    always = (
        [
            "udp sport 68 udp dport 67 accept",
            "udp sport 546 udp dport 547 accept",
            f"icmpv6 type {NEIGHBOURS} accept",
            f"ip daddr {METADATA_V4} tcp dport 80 accept",
            f"ip6 daddr {METADATA_V6} tcp dport 80 accept",
        ]
        if way == "out"
        else [
            "udp sport 67 udp dport 68 accept",
            "udp sport 547 udp dport 546 accept",
            f"icmpv6 type {NEIGHBOURS} accept",
            "icmpv6 type { nd-router-advert, mld-listener-query } accept",
        ]
    )
    return [*always, *(f"jump {key}-{way}" for key in (f"group-{each}" for each in port.groups)), "drop"]


def _member_sets(key: str, members: Iterable[tuple[str, str]]) -> dict[str, Elements]:
    pairs = [(f"{q(bridge)} . {address}", 6 if ":" in address else 4) for bridge, address in members]
    return {
        f"members{version}-{key}": Elements(f"ifname . {kind}", {pair: "" for pair, which in pairs if which == version})
        for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr"))
    }


def _rules(plan: Plan, key: str, wrong: list[str] | None = None) -> Mapping[str, Sequence[str]]:
    """Return a group's rules by direction; errors of invalid rules are appended to ``wrong``."""
    document = plan.groups.get(key)
    rules = tuple(document.rules) if document is not None else ()
    remotes = {rule.remote_group_id for rule in rules if rule.remote_group_id is not None}
    known = frozenset(each for each in remotes if _is_known(each, plan))
    result, errors = _rendered(rules, known, tuple(ranges.of(document).items()) if document is not None else ())
    if wrong is not None:
        wrong += errors
    return result


@functools.lru_cache(maxsize=1 << 12)
def _rendered(
    rules: tuple[SecurityRule, ...], known: frozenset[str], address_groups: tuple[tuple[str, Ranges], ...]
) -> tuple[Mapping[str, Sequence[str]], Sequence[str]]:
    """Return rules by direction, and the errors of invalid ones; ``known``: the remote groups that have a set."""
    by_id = dict(address_groups)
    rendered: dict[str, list[str]] = {way: [] for way in WAYS}
    wrong = []
    for rule in rules:
        try:
            match = _match(rule, _remote(rule, known), _ranges(rule, by_id))
            rendered[DIRECTIONS[rule.direction]].append(f"{match} accept")
        except ValueError as error:
            wrong.append(str(error))
    return rendered, wrong


def _is_known(group_id: str, plan: Plan) -> bool:
    try:
        return group_key(group_id) in plan.members
    except ValueError:  # no group has such an id
        return False


def _remote(rule: SecurityRule, known: Collection[str]) -> str:
    """Return the key of the rule's remote group, empty if it has none; raises ValueError if the group is unknown."""
    if rule.remote_group_id is None:
        return ""
    if rule.remote_group_id not in known:
        raise ValueError(f"unknown group {rule.remote_group_id!r}")
    return group_key(rule.remote_group_id)


def _ranges(rule: SecurityRule, known: Mapping[str, Ranges]) -> Ranges | None:
    """Return the rule's remote ranges, if any; raises ValueError for an address group without valid ranges."""
    if rule.remote_address_group_id is None:
        return None
    if rule.remote_address_group_id not in known:
        raise ValueError(f"unknown or unreadable address group {rule.remote_address_group_id!r}")
    return known[rule.remote_address_group_id]


@functools.lru_cache(maxsize=1 << 14)
def _match(rule: SecurityRule, remote: str, among: Ranges | None) -> str:
    if rule.direction not in DIRECTIONS:
        raise ValueError(f"unknown direction {rule.direction!r}")
    version = {"IPv4": 4, "IPv6": 6}.get(rule.ethertype)
    if version is None:
        raise ValueError(f"unknown ethertype {rule.ethertype!r}")
    family = "ip" if version == 4 else "ip6"
    side = "saddr" if rule.direction == "ingress" else "daddr"
    parts = [f"meta nfproto ipv{version}"]
    if remote:
        parts.append(f"iifname . {family} {side} @members{version}-{remote}")
    if among is not None:
        parts += among.match(version, side)
    if rule.remote_ip_prefix:
        prefix = ipaddress.ip_network(rule.remote_ip_prefix, strict=False)
        if prefix.version != version:
            raise ValueError(f"a range of another IP version: {prefix}")
        if prefix.prefixlen:
            parts.append(f"{family} {side} {prefix}")
    return " ".join(parts + _protocol(rule, version))


def _protocol(rule: SecurityRule, version: int) -> list[str]:
    """Match the protocol with its ports or ICMP type and code; raises ValueError for invalid ones."""
    number = _number(rule, version)
    if number is None:
        return []
    low, high = rule.port_range_min, rule.port_range_max
    if number in {ICMP, ICMPV6}:
        word = "icmpv6" if version == 6 else "icmp"
        _check_numbers(255, low, high)
        code = [f"{word} code {int(high)}"] if low is not None and high is not None else []
        return [f"meta l4proto {number}", *([f"{word} type {int(low)}"] if low is not None else []), *code]
    if number in PORTED and low is not None:
        _check_numbers(65535, low, high)
        return [f"{PORTED[number]} dport {int(low)}-{int(high if high is not None else low)}"]
    return [f"meta l4proto {number}"]


def _number(rule: SecurityRule, version: int) -> int | None:
    """Return the number of the rule's protocol, None for any; raises ValueError for an unknown protocol.

    Every name of ICMP means the ICMP of the IP ``version``.
    """
    name = (rule.protocol or "any").lower()
    if name == "any":
        return None
    number = NUMBERS.get(name, int(name) if name.isascii() and name.isdecimal() else None)
    if number is None or not 0 <= number <= 255:
        raise ValueError(f"unknown protocol {rule.protocol!r}")
    if number in {ICMP, ICMPV6}:
        return ICMPV6 if version == 6 else ICMP
    return number


def _check_numbers(most: int, *numbers: int | None) -> None:
    for number in numbers:
        if number is not None and not 0 <= number <= most:
            raise ValueError(f"not a valid port or type: {number}")
