"""Reachability of an instance for its page: by port, as text, with warnings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from portal.dashboard.instances.actions.begin import masters_locks
from portal.dashboard.instances.lists.rows import can
from portal.dashboard.network import wording
from portal.dashboard.records.views import may
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute.actions.interfaces import DetachInterface
from provisioning.compute.models import Instance
from provisioning.identity import policy
from provisioning.network.models import SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.selectors.reachability import PortReach, Source, reach_of

DETACHES = "os_compute_api:os-attach-interfaces:delete"
TCP = 6
SERVICES = {22: "SSH", 3389: "RDP", 3306: "MySQL", 5432: "PostgreSQL"}
"""TCP ports that should rarely be open to all addresses."""


@dataclass(frozen=True, slots=True)
class Line:
    """Allowed traffic: source, addresses of the source, and protocol with ports."""

    who: str
    more: str
    what: str


@dataclass(frozen=True, slots=True)
class Warn:
    """A warning; ``tone`` is the CSS class of the notice."""

    tone: str
    title: str
    text: str


def reach_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the context of the reachability section; empty if the caller may not see ports."""
    if not policy.allows(context, "get_port"):
        return {"ports": [], "seen": False}
    mine = instance.project_id == context.project_id
    own = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
    detaches = policy.allows(context, DETACHES, own) and can(
        instance, DetachInterface(), masters=masters_locks(context)
    )
    ports = [_port(context, reach, mine=mine, detaches=detaches) for reach in reach_of(instance.id)]
    return {"ports": ports, "seen": True}


def _port(context: RequestContext, reach: PortReach, *, mine: bool, detaches: bool) -> dict[str, Any]:
    port = reach.port
    addresses = [row.address for row in port.fixed_ips.all()]
    versions = {"IPv6" if ":" in address else "IPv4" for address in addresses} or {"IPv4", "IPv6"}
    sources = [source for source in reach.sources if source.version in versions]
    changes = mine and may(context, "update_port", port)
    return {
        "reach": reach,
        "port": port,
        "addresses": addresses,
        "lines": _lines(sources),
        "warnings": _warnings(reach, sources),
        "ways": _ways(reach),
        "can_detach": detaches,
        "can_change_groups": changes and reach.filtered,
        "can_associate": mine
        and not reach.floating
        and not port.network.external
        and any("." in address for address in addresses)
        and policy.allows(context, "update_floatingip"),
        "can_disassociate": mine and policy.allows(context, "update_floatingip"),
    }


def _lines(sources: Iterable[Source]) -> list[Line]:
    """Return one line for each source; equal lines of IPv4 and IPv6 are merged."""
    result: dict[tuple[str, str, str], list[str]] = {}
    for source in sources:
        who = {"anywhere": "Anywhere", "range": source.name}.get(source.kind) or (
            f"Members of {bdi(source.name)}" if source.kind == "group" else f"Addresses of {bdi(source.name)}"
        )
        flows = wording.listed(dict.fromkeys(wording.what(rule).replace("ICMPv6", "ICMP") for rule in source.rules))
        if source.everything:
            flows = "Everything"
        result.setdefault((source.kind, who, flows), []).append(_addresses(source))
    return [Line(who, ", ".join(filter(None, more)), what) for (_, who, what), more in result.items()]


def _addresses(source: Source) -> str:
    if source.kind == "anywhere":
        return source.name
    if source.kind == "range":
        return ""
    if not source.count:
        return f"no other members over {source.version}"
    left = source.count - len(source.addresses)
    return ", ".join(source.addresses) + (f" and {left} more" if left else "")


def _ways(reach: PortReach) -> list[str]:
    """Describe the paths by which packets reach the port."""
    ways = [f"from the network {bdi(reach.port.network)}"]
    if reach.neighbours:
        ways.append(f"through a router from {wording.listed(reach.neighbours)}")
    for floating in reach.floating:
        ways.append(f"from outside ({bdi(floating.network)}) at the floating IP {floating.address}")
    for row in reach.forwardings:
        first, last = row.external_port_first, row.external_port_last
        ports = str(first) if first == last else f"{first}-{last}"
        ways.append(f"from outside at {row.floating_ip.address}, {row.protocol.upper()} {ports}")
    if reach.outside:
        ways.append(f"from outside at {wording.listed(reach.outside)}")
    if len(ways) == 1 + bool(reach.neighbours):
        ways.append("not from outside: no floating IP is associated")
    return ways


def _warnings(reach: PortReach, sources: Sequence[Source]) -> list[Warn]:
    if not reach.filtered:
        text = "No security group applies to this port: all inbound traffic is allowed."
        return [Warn("warn", "Port security is off", text)]
    if not sources:
        text = (
            "No rule of its security groups allows inbound traffic. Choose other groups, or add a rule to one of them."
        )
        return [Warn("info", "No inbound traffic is allowed", text)]
    rules = [rule for source in sources if source.kind == "anywhere" for rule in source.rules]
    outside: list[str] = []
    inside: list[str] = []
    for number, name in SERVICES.items():
        if any(_lets_in(rule, number) for rule in rules):
            (outside if reach.reached_from_outside(TCP, number) else inside).append(name)
    result = []
    if outside:
        verb = "is" if len(outside) == 1 else "are"
        text = "Anyone who finds the address can try to log in. Allow only the ranges that you connect from."
        result.append(Warn("warn", f"{wording.listed(outside)} {verb} open to the world", text))
    if inside:
        verb = "is" if len(inside) == 1 else "are"
        text = "The instance has no external address now. With a floating IP, anyone could try to log in."
        result.append(Warn("info", f"{wording.listed(inside)} {verb} allowed from anywhere", text))
    return result


def _lets_in(rule: SecurityGroupRule, port: int) -> bool:
    number = flows.number_of(rule.protocol, rule.ethertype)
    if number is None:
        return True
    low, high = rule.port_range_min, rule.port_range_max
    return number == TCP and (low is None or high is None or low <= port <= high)
