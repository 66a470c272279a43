"""Conversion of EC2 permissions into rules.

A permission for a group or a prefix list has one rule for IPv4 and one for IPv6.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from provisioning.network import addressing
from provisioning.network.models import AddressGroup, SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.services import RequestedRule

ANY = "-1"
TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
NAMES = {TCP: "tcp", UDP: "udp", ICMP: "icmp", ICMPV6: "icmpv6"}
"""Protocols that have a name in EC2; any other protocol is a number."""
EVERY_PORT = (0, 65535)
EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
LONGEST = 255
"""Maximum number of characters of a description."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Allowed traffic. EC2 treats two permissions with the same fields as equal, even if their descriptions differ."""

    egress: bool
    protocol: str
    """``tcp``, ``udp``, ``icmp``, ``icmpv6``, a number, or ``-1``."""
    ports: tuple[int, int] | None
    """First and last port, or ICMP type and code with -1 for all; None if the protocol has none."""
    cidr: str | None = None
    group_id: uuid.UUID | None = None
    prefix_list_id: uuid.UUID | None = None

    @property
    def is_ipv6(self) -> bool:
        return self.cidr is not None and ":" in self.cidr


@dataclass(frozen=True, slots=True)
class Asked:
    """A permission of a request: its rules and its description."""

    permission: Permission
    rules: tuple[RequestedRule, ...]
    description: str | None = None


@dataclass(slots=True)
class Granted:
    """A permission of a group with its rules, oldest first; the id of the first rule is the EC2 id."""

    permission: Permission
    rules: list[SecurityGroupRule] = field(default_factory=list)

    @property
    def id(self) -> uuid.UUID:
        return self.rules[0].id

    @property
    def description(self) -> str:
        return next((rule.description for rule in self.rules if rule.description), "")


@dataclass(frozen=True, slots=True)
class OfGroup:
    """A permission and its group."""

    group: SecurityGroup
    granted: Granted

    @property
    def permission(self) -> Permission:
        return self.granted.permission


def granted(rules: Iterable[SecurityGroupRule]) -> list[Granted]:
    """Return the permissions of a group's rules, oldest first."""
    result: dict[Permission, Granted] = {}
    for rule in sorted(rules, key=lambda rule: (rule.created_at, rule.ethertype, rule.id)):
        permission = permission_of(rule)
        result.setdefault(permission, Granted(permission)).rules.append(rule)
    return list(result.values())


def permission_of(rule: SecurityGroupRule) -> Permission:
    number = flows.number_of(rule.protocol, rule.ethertype)
    named = rule.remote_group_id or rule.remote_address_group_id
    return Permission(
        egress=rule.direction == "egress",
        protocol=ANY if number is None else NAMES.get(number, str(number)),
        ports=_ports_of(number, rule.port_range_min, rule.port_range_max),
        cidr=None if named else _range_of(rule),
        group_id=rule.remote_group_id,
        prefix_list_id=rule.remote_address_group_id,
    )


def _range_of(rule: SecurityGroupRule) -> str:
    return addressing.network_of(rule.remote_ip_prefix) if rule.remote_ip_prefix else EVERYWHERE[rule.ethertype]


def _ports_of(number: int | None, low: int | None, high: int | None) -> tuple[int, int] | None:
    if number in {ICMP, ICMPV6}:
        return (-1 if low is None else low, -1 if high is None else high)
    if number in {TCP, UDP} and (low, high) in {(None, None), (1, EVERY_PORT[1])}:
        return EVERY_PORT
    return None if low is None or high is None else (low, high)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Protocol and ports of a request, for rules of one group in one direction."""

    group: SecurityGroup
    egress: bool
    protocol: str
    first: int | None = None
    last: int | None = None

    def with_range(self, cidr: str, version: int, description: str | None) -> Asked:
        """Return the permission for a range of this IP version."""
        return self._asked([self._rule(f"IPv{version}", cidr=cidr)], description)

    def with_group(self, remote: SecurityGroup, description: str | None) -> Asked:
        return self._asked([self._rule(each, remote=remote) for each in self._versions()], description)

    def with_prefix_list(self, remote: AddressGroup, description: str | None) -> Asked:
        return self._asked([self._rule(each, addresses=remote) for each in self._versions()], description)

    def _asked(self, rules: Sequence[RequestedRule], description: str | None) -> Asked:
        if description is not None and len(description) > LONGEST:
            raise errors.invalid_value("Description", description, f"It has more than {LONGEST} characters.")
        requested = tuple(
            RequestedRule(each.group, each.flow, each.remote_group, each.remote_address_group, description or "")
            for each in rules
        )
        return Asked(permission_of(requested[0].row()), requested, description)

    def _rule(
        self,
        ethertype: str,
        *,
        cidr: str | None = None,
        remote: SecurityGroup | None = None,
        addresses: AddressGroup | None = None,
    ) -> RequestedRule:
        protocol = flows.protocol_of(self.protocol)
        low, high = self._ports(flows.number_of(protocol, ethertype))
        flow = flows.checked("egress" if self.egress else "ingress", ethertype, protocol, low, high, cidr)
        return RequestedRule(self.group, flow, remote, addresses)

    def _versions(self) -> tuple[str, ...]:
        """Return the IP versions of the rules of a permission for a group or a prefix list."""
        number = flows.number_of(flows.protocol_of(self.protocol), "IPv4")
        return {ICMP: ("IPv4",), ICMPV6: ("IPv6",)}.get(number or 0, ("IPv4", "IPv6"))

    def _ports(self, number: int | None) -> tuple[int | None, int | None]:
        """Return the ports in the format of rules. As in EC2, ports are ignored for protocols that have no ports."""
        first, last = (None if each == -1 else each for each in (self.first, self.last))
        if number in {ICMP, ICMPV6}:
            return first, last
        if number in {TCP, UDP}:
            if first is None or last is None:
                msg = "Invalid value for portRange. Must specify both from and to ports with TCP/UDP."
                raise Ec2Error("InvalidParameterValue", msg)
            return (None, None) if (first, last) == EVERY_PORT else (first or 1 if last else first, last)
        return (first, last) if number in flows.PORTED else (None, None)
