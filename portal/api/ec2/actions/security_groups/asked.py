"""The permissions of a request, as ``IpPermissions`` or in the older flat form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from portal.api.ec2.actions.security_groups.lookups import Groups
from portal.api.ec2.actions.security_groups.permissions import ANY, EVERY_PORT, Asked, Traffic
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from provisioning.network.models import SecurityGroup

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
    found: dict[object, Asked] = {}
    for entry in listed or _from_flat(call.arguments):
        for each in _of_entry(groups, group, entry, egress=egress):
            if each.permission in found:
                raise Ec2Error("InvalidParameterValue", "The same permission must not appear multiple times")
            found[each.permission] = each
    if len(found) > MOST:
        raise Ec2Error("InvalidParameterValue", f"A request may name {MOST} permissions at most")
    return list(found.values())


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
