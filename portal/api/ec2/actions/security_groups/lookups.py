"""Security groups and rules that a request specifies: by id or name, as ``IpPermissions`` or in the older flat form;
conversion of EC2 permissions into rules.

A permission for a group or a prefix list has one rule for IPv4 and one for IPv6.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from portal.api.ec2.frame import Arguments, Call, Ec2Error, errors, names
from provisioning.network import addressing, selectors
from provisioning.network.models import AddressGroup, SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.selectors.membership import rules_of
from provisioning.network.selectors.vpcs import vpc_of_groups
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
class RequestedPermission:
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

    def with_range(self, cidr: str, version: int, description: str | None) -> RequestedPermission:
        """Return the permission for a range of this IP version."""
        return self._permission([self._rule(f"IPv{version}", cidr=cidr)], description)

    def with_group(self, remote: SecurityGroup, description: str | None) -> RequestedPermission:
        return self._permission([self._rule(each, remote=remote) for each in self._versions()], description)

    def with_prefix_list(self, remote: AddressGroup, description: str | None) -> RequestedPermission:
        return self._permission([self._rule(each, addresses=remote) for each in self._versions()], description)

    def _permission(self, rules: Sequence[RequestedRule], description: str | None) -> RequestedPermission:
        if description is not None and len(description) > LONGEST:
            raise errors.invalid_value("Description", description, f"It has more than {LONGEST} characters.")
        requested = tuple(
            RequestedRule(each.group, each.flow, each.remote_group, each.remote_address_group, description or "")
            for each in rules
        )
        return RequestedPermission(permission_of(requested[0].row()), requested, description)

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


class Groups:
    """Security groups and address groups that the caller may see; each kind is read once, on first use."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @cached_property
    def _every(self) -> dict[uuid.UUID, SecurityGroup]:
        rows = selectors.security_groups_for(self._call.context).prefetch_related(None)
        return {group.id: group for group in rows.order_by("created_at", "id")}

    @cached_property
    def _address_groups(self) -> dict[uuid.UUID, AddressGroup]:
        return {group.id: group for group in selectors.address_groups_for(self._call.context)}

    def by_id(self, ec2_id: str) -> SecurityGroup:
        """Return a group that the caller may see. Raises Ec2Error."""
        group = self._every.get(names.resource(names.GROUP, ec2_id))
        if group is None:
            raise names.not_found(names.GROUP, [ec2_id])
        return group

    def count(self, name: str, network_id: uuid.UUID | None) -> int:
        """Return the number of the project's groups with this name in a VPC. With ``network_id=None``, count the groups
        without a VPC.
        """
        own = [group.id for group in self._own(name)]
        networks = vpc_of_groups(own) if own else {}
        return sum(networks.get(group) == network_id for group in own)

    def _own(self, name: str) -> list[SecurityGroup]:
        project = self._call.project_id
        return [each for each in self._every.values() if each.project_id == project and each.name == name]

    def by_name(self, name: str) -> SecurityGroup:
        """Return the project's group with this name. Raises Ec2Error if no group or more than one has it."""
        own = self._own(name)
        if not own:
            raise no_such_name(name)
        if len(own) > 1:
            msg = f"Several security groups are named '{name[:255]}'. Specify one by its id."
            raise Ec2Error("InvalidParameterValue", msg)
        return own[0]

    def prefix_list(self, ec2_id: str) -> AddressGroup:
        """Return the address group of a prefix list. Raises Ec2Error."""
        group = self._address_groups.get(names.resource(names.PREFIX_LIST, ec2_id))
        if group is None:
            raise names.not_found(names.PREFIX_LIST, [ec2_id])
        return group

    def source(self, pair: Arguments) -> SecurityGroup:
        """Return the group of a ``UserIdGroupPairs``. Raises Ec2Error."""
        if pair.get("VpcPeeringConnectionId"):
            raise errors.unsupported("There are no peering connections between VPCs in this cloud")
        if pair.get("GroupId"):
            group = self.by_id(pair["GroupId"])
        elif pair.get("GroupName"):
            group = self.by_name(pair["GroupName"])
        else:
            raise errors.missing_parameter("IpPermissions.Groups.GroupId")
        owner = pair.get("UserId")
        if owner and owner.replace("-", "") != group.project_id.hex:
            raise names.not_found(names.GROUP, [pair.get("GroupId") or pair["GroupName"]])
        return group

    def named(self) -> SecurityGroup:
        """Return the group with the id in ``GroupId``, or the project's own group with the name in ``GroupName``."""
        group_id, name = self._call.get("GroupId"), self._call.get("GroupName")
        if group_id and name:
            raise errors.combination("The parameters GroupId and GroupName may not be used together")
        if not group_id and not name:
            raise errors.missing_parameter("GroupId")
        return self.by_id(group_id) if group_id else self.by_name(name)

    def to_change(self, *rules: str) -> SecurityGroup:
        """Return the group of the request if the policy allows the caller to change it. A group shared by another
        project belongs to that project.
        """
        group = self.named()
        self._call.enforce(*rules, target={"project_id": group.project_id})
        return group


def chosen_rules(specified: Sequence[str], every: Sequence[OfGroup]) -> list[OfGroup]:
    """Return the permissions with these ids, without duplicates, or all permissions without ids. The id of each of its
    rules selects a permission.

    Raises Ec2Error with the unknown ids.
    """
    if not specified:
        return list(every)
    requested = names.resources(names.RULE, specified)
    by_rule = {rule.id: each for each in every for rule in each.granted.rules}
    missing = [each for each in dict.fromkeys(specified) if requested[each] not in by_rule]
    if missing:
        raise names.not_found(names.RULE, missing)
    permissions = {by_rule[requested[each]].granted.id: by_rule[requested[each]] for each in specified}
    return list(permissions.values())


def permissions_of(group: SecurityGroup, *, egress: bool | None = None) -> list[OfGroup]:
    """Return the current permissions of a group: of the direction ``egress``, or of both directions if it is None."""
    every = granted(rules_of(group))
    return [OfGroup(group, each) for each in every if egress is None or each.permission.egress == egress]


def no_such_name(name: str) -> Ec2Error:
    return Ec2Error(names.GROUP.missing, f"The security group '{name[:255]}' does not exist")


FLAT = ("IpProtocol", "FromPort", "ToPort", "CidrIp", "SourceSecurityGroupName", "SourceSecurityGroupOwnerId")
MOST = 200
"""Maximum number of permissions in one request."""


def requested_permissions(
    call: Call, groups: Groups, group: SecurityGroup, *, egress: bool
) -> list[RequestedPermission]:
    """Return the permissions of a request for a group, without duplicates. Raises Ec2Error if there are none."""
    listed, flat = call.get("IpPermissions", []), [name for name in FLAT if name in call.arguments]
    if listed and flat:
        raise errors.combination(f"The parameters IpPermissions and {flat[0]} may not be used together")
    if not listed and not flat:
        raise errors.missing_parameter("IpPermissions")
    result: dict[object, RequestedPermission] = {}
    for entry in listed or _from_flat(call.arguments):
        for each in _of_entry(groups, group, entry, egress=egress):
            if each.permission in result:
                raise Ec2Error("InvalidParameterValue", "The same permission must not appear multiple times")
            result[each.permission] = each
    if len(result) > MOST:
        raise Ec2Error("InvalidParameterValue", f"A request may name {MOST} permissions at most")
    return list(result.values())


def _from_flat(arguments: Arguments) -> list[Arguments]:
    """Convert flat parameters into permissions. A source group without a protocol allows all of TCP, UDP and ICMP."""
    cidr, name = arguments.get("CidrIp"), arguments.get("SourceSecurityGroupName")
    if cidr and name:
        raise errors.combination("The parameters CidrIp and SourceSecurityGroupName may not be used together")
    traffic = {key: arguments[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in arguments}
    if name:
        pair = {"GroupName": name, "UserId": arguments.get("SourceSecurityGroupOwnerId")}
        return [{**each, "UserIdGroupPairs": [pair]} for each in ([traffic] if traffic else _everything())]
    if not cidr:
        raise errors.missing_parameter("CidrIp")
    return [{**traffic, "IpRanges": [{"CidrIp": cidr}]}]


def _everything() -> list[Arguments]:
    first, last = EVERY_PORT
    ported = [{"IpProtocol": protocol, "FromPort": first, "ToPort": last} for protocol in ("tcp", "udp")]
    return [*ported, {"IpProtocol": "icmp", "FromPort": -1, "ToPort": -1}]


def _of_entry(groups: Groups, group: SecurityGroup, entry: Arguments, *, egress: bool) -> Iterator[RequestedPermission]:
    protocol = entry.get("IpProtocol")
    if not protocol:
        raise errors.missing_parameter("IpPermissions.IpProtocol")
    traffic = Traffic(group, egress, protocol, entry.get("FromPort"), entry.get("ToPort"))
    places = [entry.get(name, []) for name in ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")]
    if not any(places):
        raise errors.missing_parameter("IpPermissions.IpRanges")
    ranges, ranges6, pairs, lists = places
    for each in _having(ranges, "CidrIp"):
        yield traffic.with_range(each["CidrIp"], 4, each.get("Description"))
    for each in _having(ranges6, "CidrIpv6"):
        yield traffic.with_range(each["CidrIpv6"], 6, each.get("Description"))
    for each in pairs:
        yield traffic.with_group(groups.source(each), each.get("Description"))
    for each in _having(lists, "PrefixListId"):
        yield traffic.with_prefix_list(groups.prefix_list(each["PrefixListId"]), each.get("Description"))


def _having(entries: Sequence[Arguments], name: str) -> Sequence[Arguments]:
    if not all(each.get(name) for each in entries):
        raise errors.missing_parameter(f"IpPermissions.{name}")
    return entries


def of_rule(groups: Groups, group: SecurityGroup, values: Arguments, *, egress: bool) -> RequestedPermission:
    """Return the permission of a ``SecurityGroupRule`` in ModifySecurityGroupRules. Raises Ec2Error."""
    traffic = Traffic(group, egress, values.get("IpProtocol") or ANY, values.get("FromPort"), values.get("ToPort"))
    places = [name for name in ("CidrIpv4", "CidrIpv6", "PrefixListId", "ReferencedGroupId") if values.get(name)]
    if len(places) != 1:
        what = "exactly one of CidrIpv4, CidrIpv6, PrefixListId and ReferencedGroupId"
        raise Ec2Error("InvalidParameterValue", f"A security group rule has {what}")
    place, description = values[places[0]], values.get("Description")
    if places[0] == "ReferencedGroupId":
        return traffic.with_group(groups.by_id(place), description)
    if places[0] == "PrefixListId":
        return traffic.with_prefix_list(groups.prefix_list(place), description)
    return traffic.with_range(place, 4 if places[0] == "CidrIpv4" else 6, description)
