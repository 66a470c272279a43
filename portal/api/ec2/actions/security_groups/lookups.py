"""Security groups and rules that a request specifies: by id or name, as ``IpPermissions`` or in the older flat form."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.security_groups.permissions import ANY, EVERY_PORT, Asked, OfGroup, Traffic, granted
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from provisioning.identity import policy
from provisioning.network import selectors
from provisioning.network.models import AddressGroup, SecurityGroup
from provisioning.network.selectors.membership import rules_of
from provisioning.network.selectors.vpcs import vpc_of_groups


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
        found = self._every.get(names.resource(names.GROUP, ec2_id))
        if found is None:
            raise names.not_found(names.GROUP, [ec2_id])
        return found

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
            msg = f"Several security groups are named '{name[:255]}'. Name one by its id."
            raise Ec2Error("InvalidParameterValue", msg)
        return own[0]

    def prefix_list(self, ec2_id: str) -> AddressGroup:
        """Return the address group of a prefix list. Raises Ec2Error."""
        found = self._address_groups.get(names.resource(names.PREFIX_LIST, ec2_id))
        if found is None:
            raise names.not_found(names.PREFIX_LIST, [ec2_id])
        return found

    def source(self, pair: Mapping[str, Any]) -> SecurityGroup:
        """Return the group of a ``UserIdGroupPairs``. Raises Ec2Error."""
        if pair.get("VpcPeeringConnectionId"):
            raise errors.unsupported("There are no peering connections between VPCs in this cloud")
        if pair.get("GroupId"):
            found = self.by_id(pair["GroupId"])
        elif pair.get("GroupName"):
            found = self.by_name(pair["GroupName"])
        else:
            raise errors.missing_parameter("IpPermissions.Groups.GroupId")
        owner = pair.get("UserId")
        if owner and owner.replace("-", "") != found.project_id.hex:
            raise names.not_found(names.GROUP, [pair.get("GroupId") or pair["GroupName"]])
        return found

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
        for rule in rules:
            policy.enforce(self._call.context, rule, {"project_id": group.project_id})
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
    found = {by_rule[requested[each]].granted.id: by_rule[requested[each]] for each in specified}
    return list(found.values())


def permissions_of(group: SecurityGroup, *, egress: bool | None = None) -> list[OfGroup]:
    """Return the current permissions of a group: of the direction ``egress``, or of both directions if it is None."""
    every = granted(rules_of(group))
    return [OfGroup(group, each) for each in every if egress is None or each.permission.egress == egress]


def no_such_name(name: str) -> Ec2Error:
    return Ec2Error(names.GROUP.missing, f"The security group '{name[:255]}' does not exist")


FLAT = ("IpProtocol", "FromPort", "ToPort", "CidrIp", "SourceSecurityGroupName", "SourceSecurityGroupOwnerId")
MOST = 200
"""Maximum number of permissions in one request."""


def asked(call: Call, groups: Groups, group: SecurityGroup, *, egress: bool) -> list[Asked]:
    """Return the permissions of a request for a group, without duplicates. Raises Ec2Error if there are none."""
    listed, flat = call.get("IpPermissions", []), [name for name in FLAT if name in call.arguments]
    if listed and flat:
        raise errors.combination(f"The parameters IpPermissions and {flat[0]} may not be used together")
    if not listed and not flat:
        raise errors.missing_parameter("IpPermissions")
    result: dict[object, Asked] = {}
    for entry in listed or _from_flat(call.arguments):
        for each in _of_entry(groups, group, entry, egress=egress):
            if each.permission in result:
                raise Ec2Error("InvalidParameterValue", "The same permission must not appear multiple times")
            result[each.permission] = each
    if len(result) > MOST:
        raise Ec2Error("InvalidParameterValue", f"A request may name {MOST} permissions at most")
    return list(result.values())


def _from_flat(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
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


def _everything() -> list[dict[str, Any]]:
    first, last = EVERY_PORT
    ported = [{"IpProtocol": protocol, "FromPort": first, "ToPort": last} for protocol in ("tcp", "udp")]
    return [*ported, {"IpProtocol": "icmp", "FromPort": -1, "ToPort": -1}]


def _of_entry(groups: Groups, group: SecurityGroup, entry: Mapping[str, Any], *, egress: bool) -> Iterator[Asked]:
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


def _having(entries: Sequence[Mapping[str, Any]], name: str) -> Sequence[Mapping[str, Any]]:
    if not all(each.get(name) for each in entries):
        raise errors.missing_parameter(f"IpPermissions.{name}")
    return entries


def of_rule(groups: Groups, group: SecurityGroup, values: Mapping[str, Any], *, egress: bool) -> Asked:
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
