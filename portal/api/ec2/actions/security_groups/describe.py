"""DescribeSecurityGroups and DescribeSecurityGroupRules."""

from collections.abc import Sequence

from django.db.models import QuerySet

from portal.api.ec2 import names
from portal.api.ec2.actions.security_groups.lookups import no_such_name
from portal.api.ec2.actions.security_groups.permissions import OfGroup, granted
from portal.api.ec2.actions.security_groups.shapes import group_shapes, rule_shapes
from portal.api.ec2.describe import Column, Described, Filter, Shape, members, under
from portal.api.ec2.registry import Call
from provisioning.ec2 import ids
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.selectors.membership import groups_and_rules, groups_with_rules
from provisioning.network.selectors.visibility import own
from provisioning.network.selectors.vpcs import default_group_ids, vpc_networks_for
from provisioning.network.services.security.security_groups import DEFAULT_NAME


def _groups(call: Call) -> QuerySet[SecurityGroup]:
    """Return the project's security groups, and the groups that other projects share with it. Raises Ec2Error.

    ``GroupNames`` are names of the project's own groups. The project's default group is created if it does not exist,
    as in the other APIs.
    """
    services.ensure_default_security_group(call.project_id)
    rows, requested = groups_and_rules(call.context), call.get("GroupNames", [])
    return names.with_names(rows.filter(own(call.context)), "name", requested, no_such_name) if requested else rows


def _group_shapes(call: Call, groups: Sequence[SecurityGroup]) -> list[Shape]:
    shapes: list[Shape] = group_shapes(groups)
    if any(each.get("Name") == VPC_ID for each in call.get("Filters", [])):
        _add_vpcs(call, shapes)
    return shapes


VPC_ID = "vpc-id"


def _add_vpcs(call: Call, shapes: Sequence[Shape]) -> None:
    """Add the VPCs that groups match in the filter ``vpc-id``. A group created without a VPC matches every VPC.

    The project's default group is an exception: it matches a VPC only if the project has no other VPC. Clients that
    change the default group of one VPC would otherwise change it for all VPCs.
    """
    networks = list(vpc_networks_for(call.context).values_list("pk", flat=True))
    every = list(ids.ids_of(names.VPC.prefix, networks).values())
    only = every if len(every) == 1 and not default_group_ids(networks) else []
    for shape in shapes:
        without = only if shape["GroupName"] == DEFAULT_NAME else every
        shape["_VpcIds"] = [shape["VpcId"]] if shape["VpcId"] else without


_OF_PERMISSIONS: dict[str, Filter] = {
    "cidr": "IpRanges[].CidrIp",
    **members("FromPort ToPort"),
    "group-id": "UserIdGroupPairs[].GroupId",
    "group-name": "UserIdGroupPairs[].GroupName",
    "ipv6-cidr": "Ipv6Ranges[].CidrIpv6",
    "prefix-list-id": "PrefixListIds[].PrefixListId",
    "protocol": "IpProtocol",
    "user-id": "UserIdGroupPairs[].UserId",
}
DESCRIBE_SECURITY_GROUPS = Described(
    action="DescribeSecurityGroups",
    rule="get_security_group",
    member="SecurityGroups",
    kind=names.GROUP,
    ids="GroupIds",
    takes="GroupNames",
    rows=_groups,
    shape=_group_shapes,
    filters={
        "description": Column("Description", "description"),
        "group-id": Column("GroupId", "pk", names.GROUP),
        "group-name": "GroupName",
        "owner-id": Column("OwnerId", "project_id"),
        **under("IpPermissions[]", _OF_PERMISSIONS, prefix="ip-permission."),
        **under("IpPermissionsEgress[]", _OF_PERMISSIONS, prefix="egress.ip-permission."),
        VPC_ID: "_VpcIds",
    },
)


def _rules(call: Call) -> QuerySet[SecurityGroupRule]:
    """Return the rules of the project's groups."""
    services.ensure_default_security_group(call.project_id)
    return selectors.security_group_rules_for(call.context)


def _rule_shapes(call: Call, rules: Sequence[SecurityGroupRule]) -> list[Shape | None]:
    """Return the permission of each rule.

    The EC2 id of a permission is that of its first rule; the other rules are hidden. In a request the id of each rule
    selects its permission, which is shown once.
    """
    by_rule = {
        rule.id: OfGroup(group, each)
        for group in groups_with_rules(call.context, {rule.group_id for rule in rules})
        for each in granted(group.rules.all())
        for rule in each.rules
    }
    shown = {
        each.granted.id: each
        for rule in rules
        if (each := by_rule.get(rule.id)) is not None
        and (each.granted.id == rule.id or call.get("SecurityGroupRuleIds"))
    }
    left = dict(zip(shown, rule_shapes(list(shown.values())), strict=True))
    return [left.pop(by_rule[rule.id].granted.id, None) if rule.id in by_rule else None for rule in rules]


DESCRIBE_SECURITY_GROUP_RULES = Described(
    action="DescribeSecurityGroupRules",
    rule="get_security_group_rule",
    member="SecurityGroupRules",
    kind=names.RULE,
    ids="SecurityGroupRuleIds",
    rows=_rules,
    shape=_rule_shapes,
    filters={
        "group-id": Column("GroupId", "group_id", names.GROUP),
        "security-group-rule-id": Column("SecurityGroupRuleId", "pk", names.RULE),
    },
)
