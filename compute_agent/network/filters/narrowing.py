"""Finds tracked connections that the previous plan allowed and a new plan refuses."""

import ipaddress
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compute_agent.contract.build import SecurityRule
from compute_agent.contract.network import SecurityGroupDocument
from compute_agent.network.filters import groups, ranges
from compute_agent.network.filters.connections import Flow, Judge
from compute_agent.network.filters.plan import FilteredPort, Plan, group_key

Pair = tuple[FilteredPort, FilteredPort]
"""The previous and the new version of a port."""


def refusals(before: Plan | None, after: Plan) -> Mapping[int, Judge]:
    """Return, for each zone in which guests lost rights, a function that returns whether a flow is now refused.

    The function refuses a flow of such a guest if no rule allows it any longer, and every flow of a removed guest,
    because the address may be allocated again. The flows between a guest that was migrated and a guest on this host
    continue. Without ``before`` (after a start) every flow is checked, and flows that
    belong to no guest on this host are refused.
    """
    if before is None:
        return {zone: _judge(after, bridge, [], first=True) for bridge, zone in after.zones.items()}
    by_bridge: defaultdict[str, list[Pair]] = defaultdict(list)
    for old, new in _narrowed(before, after):
        by_bridge[new.bridge].append((old, new))
    gone = _removed(before, after)
    return {
        zone: _judge(after, bridge, by_bridge[bridge], gone.get(bridge))
        for bridge, zone in after.zones.items()
        if bridge in by_bridge or bridge in gone
    }


def everything(_flow: Flow) -> bool:
    """Refuse every flow."""
    return True


@dataclass
class _RemovedAddresses:
    """Addresses of removed ports, and those among them whose guests were migrated."""

    all: set[str] = field(default_factory=set)
    migrated: set[str] = field(default_factory=set)


def _removed(before: Plan, after: Plan) -> Mapping[str, _RemovedAddresses]:
    """Return bridge → addresses of ports that were removed."""
    there = {(port.number, port.bridge) for port in after.ports}
    result: defaultdict[str, _RemovedAddresses] = defaultdict(_RemovedAddresses)
    for port in before.ports:
        if (port.number, port.bridge) not in there:
            result[port.bridge].all.update(port.own.v4, port.own.v6)
            if port.away:
                result[port.bridge].migrated.update(port.own.v4, port.own.v6)
    return result


def _judge(
    plan: Plan, bridge: str, pairs: Sequence[Pair], gone: _RemovedAddresses | None = None, *, first: bool = False
) -> Judge:
    if first:
        pairs = [(port, port) for port in plan.ports if port.bridge == bridge]
    everybodys = {address for port in plan.ports if port.bridge == bridge for address in port.own.v4 + port.own.v6}
    narrowed = {address: new for _, new in pairs for address in new.own.v4 + new.own.v6}
    more = [
        (ipaddress.ip_network(address), new)
        for old, new in pairs
        for address in {each for port in (old, new) for source in port.sources for each in source.v4 + source.v6}
        if address not in everybodys
    ]

    left = gone.all - everybodys if gone is not None else set()
    migrated = gone.migrated if gone is not None else set()

    def concerned(address: str) -> Iterator[FilteredPort]:
        if address in narrowed:
            yield narrowed[address]
        elif more and address not in everybodys:
            parsed = ipaddress.ip_address(address)
            yield from (port for network, port in more if parsed in network)

    def refuses(flow: Flow) -> bool:
        if left and (flow.source in left or flow.target in left):
            sides = {flow.source, flow.target}
            return not (sides & migrated and sides & everybodys)
        if first and not any(True for side in (flow.source, flow.target) for _ in concerned(side)):
            return True
        return any(not _allows(plan, port, flow, "egress") for port in concerned(flow.source)) or any(
            not _allows(plan, port, flow, "ingress") for port in concerned(flow.target)
        )

    return refuses


def _narrowed(before: Plan, after: Plan) -> Iterator[Pair]:
    known = {port.number: port for port in before.ports}
    then, now = _Rights(before), _Rights(after)
    changed = _changed(before, after)
    for port in after.ports:
        old = known.get(port.number)
        if old is None or (old == port and not changed.intersection(port.groups)):
            continue
        if set(then.of(old)) - set(now.of(port)):
            yield old, port


def _changed(before: Plan, after: Plan) -> set[str]:
    """Return the keys of groups whose rules have changed, or the members of groups that their rules refer to."""
    members = _differing(before.members, after.members)
    result = _differing(before.groups, after.groups)
    for key, group in after.groups.items() if members else ():
        remotes = {rule.remote_group_id for rule in group.rules if rule.remote_group_id}
        if members.intersection(map(_key, remotes)):
            result.add(key)
    return result


def _key(group_id: str) -> str:
    try:
        return group_key(group_id)
    except ValueError:  # no group has such an id
        return ""


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> set[str]:
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def _allows(plan: Plan, port: FilteredPort, flow: Flow, direction: str) -> bool:
    """Return whether a guest's port may still begin such a flow (``egress``), or receive it (``ingress``)."""
    if not port.secured or not port.enabled:
        return port.enabled
    own, other = (flow.source, flow.target) if direction == "egress" else (flow.target, flow.source)
    if not any(_is_in(own, each) for source in port.sources for each in source.v4 + source.v6):
        return False
    documents = [plan.groups[key] for key in port.groups if key in plan.groups]
    return any(
        rule.direction == direction
        and groups.covers(rule, flow)
        and (not rule.remote_ip_prefix or _is_in(other, rule.remote_ip_prefix))
        and (not rule.remote_group_id or (port.bridge, other) in plan.members.get(_key(rule.remote_group_id), ()))
        and (not rule.remote_address_group_id or _is_among(other, document, rule))
        for document in documents
        for rule in document.rules
    )


def _is_among(address: str, document: SecurityGroupDocument, rule: SecurityRule) -> bool:
    address_group = ranges.of(document).get(rule.remote_address_group_id or "")
    return address_group is not None and address_group.holds(address)


def _is_in(address: str, network: str) -> bool:
    return address == network or ("/" in network and ipaddress.ip_address(address) in ipaddress.ip_network(network))


class _Rights:
    """The rights of the ports in a plan, in parts that can be compared with those of another plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._of_groups: dict[tuple[str, str], frozenset[object]] = {}

    def of(self, port: FilteredPort) -> Collection[object]:
        if not port.enabled:
            return frozenset()
        if not port.secured:
            return {"everything"} | {(key, rule) for key, group in self._plan.groups.items() for rule in group.rules}
        return frozenset(port.sources).union(*(self._of_group(key, port.bridge) for key in port.groups))

    def _of_group(self, key: str, bridge: str) -> frozenset[object]:
        if (key, bridge) not in self._of_groups:
            group = self._plan.groups.get(key)
            rights = self._of_document(group, bridge) if group is not None else ()
            self._of_groups[key, bridge] = frozenset(rights)
        return self._of_groups[key, bridge]

    def _of_document(self, document: SecurityGroupDocument, bridge: str) -> Iterator[object]:
        for rule in document.rules:
            yield from self._by(document, rule, bridge)

    def _by(self, document: SecurityGroupDocument, rule: SecurityRule, bridge: str) -> Iterator[object]:
        key = (rule.direction, rule.ethertype, rule.protocol, rule.port_range_min, rule.port_range_max)
        if rule.remote_address_group_id:
            among = ranges.of(document).get(rule.remote_address_group_id)
            yield from ((*key, each) for each in (among.of(4 if rule.ethertype == "IPv4" else 6) if among else ()))
            return
        if not rule.remote_group_id:
            yield (*key, rule.remote_ip_prefix)
            return
        for pair in self._plan.members.get(_key(rule.remote_group_id), ()):
            if pair[0] == bridge:
                yield (*key, pair)
