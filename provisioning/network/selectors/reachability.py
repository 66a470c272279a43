"""Reachability of a guest: for each port the sources that its security groups allow, and the routes to it."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from provisioning.network import addressing
from provisioning.network.models import (
    FixedIP,
    FloatingIP,
    Network,
    Port,
    PortForwarding,
    Router,
    SecurityGroup,
    SecurityGroupRule,
)
from provisioning.network.records.owners import COMPUTE, ROUTER_INTERFACE

EVERYWHERE = frozenset({None, "", "0.0.0.0/0", "::/0"})
MOST_ADDRESSES = 20
"""Limit of the addresses that are listed for a source."""


class Member(NamedTuple):
    """An address of a port that is in a security group."""

    port_id: uuid.UUID
    network_id: uuid.UUID
    address: str


@dataclass(slots=True)
class Source:
    """An allowed source and its rules; ``addresses`` are the first ones of a group, ``count`` is their total number.

    ``kind``: ``anywhere``, ``range``, ``group`` or ``address_group``; ``name`` is the range or the group's name.
    """

    kind: str
    name: str
    version: str
    group_id: uuid.UUID | None = None
    addresses: Sequence[str] = ()
    count: int = 0
    rules: list[SecurityGroupRule] = field(default_factory=list)

    @property
    def everything(self) -> bool:
        """Whether every protocol is allowed."""
        return any(rule.protocol is None for rule in self.rules)


@dataclass(frozen=True, slots=True)
class PortReach:
    """One port: the sources that it allows, and from where it can be reached.

    ``neighbours``: names of networks that routers connect to its own.  ``outside``: its addresses that are reachable
    from outside without a floating IP: all on an external network, global IPv6 addresses behind a router with an
    external gateway.  ``routers``: the routers with an external gateway.
    """

    port: Port
    groups: Sequence[SecurityGroup]
    sources: Sequence[Source]
    floating: Sequence[FloatingIP]
    forwardings: Sequence[PortForwarding]
    neighbours: Sequence[str]
    routers: Sequence[Router]
    outside: Sequence[str]

    @property
    def filtered(self) -> bool:
        """Whether security groups apply; without port security all traffic is allowed."""
        return self.port.port_security_enabled

    def reached_from_outside(self, number: int, first: int) -> bool:
        """Whether a port of a protocol has a route from outside, regardless of security groups."""
        if self.floating or self.outside:
            return True
        name = {6: "tcp", 17: "udp"}.get(number)
        return any(
            row.protocol == name and row.internal_port_first <= first <= row.internal_port_last
            for row in self.forwardings
        )


def reach_of(instance_id: uuid.UUID) -> list[PortReach]:
    """Return the ports of an instance in order; a fixed number of queries.  The caller may see the instance."""
    rows = Port.objects.filter(device_id=instance_id, device_owner__startswith=COMPUTE).select_related("network")
    ports = list(rows.prefetch_related("fixed_ips__subnet", "security_groups").order_by("device_index", "id"))
    if not ports:
        return []
    groups = {group.id for port in ports for group in port.security_groups.all()}
    rules = _rules_by_group(groups)
    members = _members({rule.remote_group_id for each in rules.values() for rule in each if rule.remote_group_id})
    floating, forwardings = _floating(ports), _forwardings(ports)
    legs, routers = _routers(ports)
    return [
        PortReach(
            port=port,
            groups=_groups(port),
            sources=_sources(
                (rule for group in _groups(port) for rule in rules[group.id]),
                {key: _near(port, every, legs, routers) for key, every in members.items()},
            ),
            floating=floating[port.id],
            forwardings=forwardings[port.id],
            neighbours=_neighbours(port, legs, routers),
            routers=[router for router in routers.get(port.network_id, []) if router.gateway_port_id],
            outside=_outside(port, routers.get(port.network_id, [])),
        )
        for port in ports
    ]


def _groups(port: Port) -> list[SecurityGroup]:
    return sorted(port.security_groups.all(), key=lambda group: (group.name, str(group.id)))


def _rules_by_group(groups: Iterable[uuid.UUID]) -> defaultdict[uuid.UUID, list[SecurityGroupRule]]:
    rows = SecurityGroupRule.objects.filter(group__in=list(groups), direction="ingress")
    result: defaultdict[uuid.UUID, list[SecurityGroupRule]] = defaultdict(list)
    for rule in rows.select_related("remote_group", "remote_address_group").order_by("created_at", "id"):
        result[rule.group_id].append(rule)
    return result


def _sources(
    rules: Iterable[SecurityGroupRule], members: Mapping[tuple[uuid.UUID, str], Sequence[str]]
) -> list[Source]:
    """Group rules by the source that they allow. ``members`` maps group and IP version to the addresses that the rules
    match.
    """
    result: dict[tuple[object, ...], Source] = {}
    for rule in rules:
        kind, name, key = _source(rule)
        source = result.setdefault((kind, key, rule.ethertype), Source(kind, name, rule.ethertype))
        source.rules.append(rule)
        if rule.remote_group_id:
            source.group_id = rule.remote_group_id
        elif rule.remote_address_group is not None:
            mark = ":" if rule.ethertype == "IPv6" else "."
            source.addresses = [each for each in rule.remote_address_group.addresses if mark in each]
            source.count = len(source.addresses)
    for source in result.values():
        if source.group_id:
            every = members.get((source.group_id, source.version), ())
            source.addresses, source.count = every[:MOST_ADDRESSES], len(every)
    return sorted(result.values(), key=lambda source: (source.kind != "anywhere", source.kind, source.name))


def _source(rule: SecurityGroupRule) -> tuple[str, str, object]:
    if rule.remote_group is not None:
        return "group", str(rule.remote_group), rule.remote_group_id
    if rule.remote_address_group is not None:
        return "address_group", str(rule.remote_address_group), rule.remote_address_group_id
    if not rule.remote_ip_prefix or addressing.network_of(rule.remote_ip_prefix) in EVERYWHERE:
        return "anywhere", "::/0" if rule.ethertype == "IPv6" else "0.0.0.0/0", None
    return "range", str(rule.remote_ip_prefix), rule.remote_ip_prefix


def _members(groups: Iterable[uuid.UUID]) -> dict[tuple[uuid.UUID, str], list[Member]]:
    """Return the members of each group by IP version."""
    result: defaultdict[tuple[uuid.UUID, str], list[Member]] = defaultdict(list)
    keys = list(groups)
    if not keys:
        return result
    rows = FixedIP.objects.filter(port__security_groups__in=keys, port__port_security_enabled=True)
    rows = rows.filter(port__device_owner__startswith=COMPUTE).order_by("id")
    columns = ("port__security_groups", "subnet__ip_version", "port_id", "port__network_id", "address")
    for group, version, *member in rows.values_list(*columns):
        result[group, f"IPv{version}"].append(Member(*member))
    return result


def _near(
    port: Port, members: Iterable[Member], legs: Sequence[Port], routers: dict[uuid.UUID, list[Router]]
) -> list[str]:
    """Return the addresses of members that rules of this port match: on its network, or on a network that a router
    connects to it.

    On any other network, an equal address belongs to a different guest.
    """
    own = {router.id for router in routers.get(port.network_id, [])}
    joined = {leg.network_id for leg in legs if leg.device_id in own} | {port.network_id}
    return [each.address for each in members if each.port_id != port.id and each.network_id in joined]


def _floating(ports: Sequence[Port]) -> defaultdict[uuid.UUID, list[FloatingIP]]:
    result: defaultdict[uuid.UUID, list[FloatingIP]] = defaultdict(list)
    for row in FloatingIP.objects.filter(fixed_port__in=ports).select_related("network").order_by("created_at", "id"):
        if row.fixed_port_id:
            result[row.fixed_port_id].append(row)
    return result


def _forwardings(ports: Sequence[Port]) -> defaultdict[uuid.UUID, list[PortForwarding]]:
    result: defaultdict[uuid.UUID, list[PortForwarding]] = defaultdict(list)
    rows = PortForwarding.objects.filter(internal_port__in=ports).select_related("floating_ip")
    for row in rows.order_by("created_at", "id"):
        result[row.internal_port_id].append(row)
    return result


def _routers(ports: Sequence[Port]) -> tuple[list[Port], dict[uuid.UUID, list[Router]]]:
    """Return the interfaces of the routers on the ports' networks, and network → its routers."""
    networks = {port.network_id for port in ports}
    here = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=networks)
    routers = {row.id: row for row in Router.objects.filter(id__in=here.values("device_id"), admin_state_up=True)}
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=list(routers)).select_related("network")
    every = list(legs.order_by("network__name", "id"))
    result: defaultdict[uuid.UUID, list[Router]] = defaultdict(list)
    for leg in every:
        router = routers.get(leg.device_id or uuid.UUID(int=0))
        if router is not None and router not in result[leg.network_id]:
            result[leg.network_id].append(router)
    return every, dict(result)


def _neighbours(port: Port, legs: Sequence[Port], routers: dict[uuid.UUID, list[Router]]) -> list[str]:
    own = {router.id for router in routers.get(port.network_id, [])}
    names = {leg.network_id: str(leg.network) for leg in legs if leg.device_id in own}
    return sorted(name for key, name in names.items() if key != port.network_id)


def _outside(port: Port, routers: Sequence[Router]) -> list[str]:
    """Return the addresses that are reachable from outside without a floating IP."""
    network: Network = port.network
    addresses = [row.address for row in port.fixed_ips.all()]
    if network.external:
        return addresses
    routed = any(router.gateway_port_id for router in routers)
    return (
        [address for address in addresses if ":" in address and not address.startswith(("fd", "fe80"))]
        if routed
        else []
    )
