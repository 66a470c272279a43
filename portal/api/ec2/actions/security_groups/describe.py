"""DescribeSecurityGroups and DescribeSecurityGroupRules, with the representations of groups, permissions and rules."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from portal.api.ec2.actions.security_groups.lookups import ANY, Granted, OfGroup, Permission, granted, no_such_name
from portal.api.ec2.describe import Column, Described, Filter, members, under
from portal.api.ec2.frame import Call, Shape, names, tags
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.selectors.membership import groups_and_rules, groups_with_rules
from provisioning.network.selectors.visibility import own
from provisioning.network.selectors.vpcs import default_group_ids, vpc_networks_for, vpc_of_groups
from provisioning.network.services.security.security_groups import DEFAULT_NAME

Rules = Sequence[SecurityGroupRule]


@dataclass(frozen=True, slots=True)
class GroupNames:
    """The EC2 ids of groups and prefix lists, and the groups that permissions refer to."""

    ids: Mapping[uuid.UUID, str]
    prefix_lists: Mapping[uuid.UUID, str]
    named: Mapping[uuid.UUID, SecurityGroup]

    @classmethod
    def of(cls, groups: Iterable[SecurityGroup], rules: Rules) -> "GroupNames":
        named = {rule.remote_group_id: rule.remote_group for rule in rules if rule.remote_group is not None}
        lists = {rule.remote_address_group_id for rule in rules if rule.remote_address_group_id}
        every = {group.id for group in groups} | {identity for identity in named if identity}
        return cls(
            names.GROUP.ids_of(every),
            names.PREFIX_LIST.ids_of(lists),
            {identity: group for identity, group in named.items() if identity},
        )


def group_shapes(groups: Sequence[SecurityGroup]) -> list[Shape]:
    """Return groups with their permissions; their rules and the groups in them must be prefetched."""
    group_names = GroupNames.of(groups, [rule for group in groups for rule in group.rules.all()])
    tagged = tags.shapes(names.GROUP, [group.id for group in groups])
    networks = vpc_of_groups([group.id for group in groups])
    vpcs = names.VPC.ids_of(networks.values())
    own = {group: vpcs[network] for group, network in networks.items()}
    defaults = set(default_group_ids(set(networks.values())).values())
    shapes = [{"VpcId": own.get(group.id)} | _group(group, group_names, tagged[group.id]) for group in groups]
    for group, shape in zip(groups, shapes, strict=True):
        if group.id in defaults:
            shape["GroupName"] = DEFAULT_NAME
    return shapes


def _group(group: SecurityGroup, group_names: GroupNames, tagged: tags.Shapes) -> Shape:
    every = granted(group.rules.all())
    return {
        "OwnerId": group.project_id.hex,
        "GroupId": group_names.ids[group.id],
        "GroupName": group.name,
        "Description": group.description,
        "IpPermissions": permission_shapes([each for each in every if not each.permission.egress], group_names),
        "IpPermissionsEgress": permission_shapes([each for each in every if each.permission.egress], group_names),
        "Tags": tagged,
    }


def permission_shapes(every: Sequence[Granted], group_names: GroupNames) -> list[Shape]:
    """Return permissions in the format of groups, merged by protocol and port range."""
    result: dict[tuple[str, tuple[int, int] | None], Shape] = {}
    for each in every:
        permission = each.permission
        shape = result.setdefault((permission.protocol, permission.ports), _traffic(permission))
        description = {"Description": each.description} if each.description else {}
        if permission.group_id is not None:
            group = group_names.named[permission.group_id]
            pair = {"GroupId": group_names.ids[group.id], "GroupName": group.name, "UserId": group.project_id.hex}
            shape["UserIdGroupPairs"].append(pair | description)
        elif permission.prefix_list_id is not None:
            shape["PrefixListIds"].append(
                {"PrefixListId": group_names.prefix_lists[permission.prefix_list_id], **description}
            )
        elif permission.is_ipv6:
            shape["Ipv6Ranges"].append({"CidrIpv6": permission.cidr, **description})
        else:
            shape["IpRanges"].append({"CidrIp": permission.cidr, **description})
    return list(result.values())


def _traffic(permission: Permission) -> Shape:
    shape: Shape = {"IpProtocol": permission.protocol}
    if permission.ports is not None:
        shape["FromPort"], shape["ToPort"] = permission.ports
    return shape | {"IpRanges": [], "Ipv6Ranges": [], "UserIdGroupPairs": [], "PrefixListIds": []}


def rule_shapes(every: Sequence[OfGroup], *, revoked: bool = False) -> list[Shape]:
    """Return permissions in the format of rules, each with its id. With ``revoked``, return them in the format of
    RevokeSecurityGroup….
    """
    group_names = GroupNames.of(
        {each.group.id: each.group for each in every}.values(), [rule for each in every for rule in each.granted.rules]
    )
    rule_ids = [each.granted.id for each in every]
    own = names.RULE.ids_of(rule_ids)
    tagged = {} if revoked else tags.shapes(names.RULE, rule_ids)
    shapes = []
    for each in every:
        shape = _rule(each, group_names, own[each.granted.id])
        if revoked:
            group_id = each.permission.group_id
            shape |= {"ReferencedGroupId": group_names.ids[group_id]} if group_id else {}
        else:
            shape |= {"GroupOwnerId": each.group.project_id.hex, "Tags": tagged[each.granted.id]}
            shape |= _referenced(each.permission, group_names)
        shapes.append(shape)
    return shapes


def _referenced(permission: Permission, group_names: GroupNames) -> Shape:
    if permission.group_id is None:
        return {}
    group = group_names.named[permission.group_id]
    return {"ReferencedGroupInfo": {"GroupId": group_names.ids[group.id], "UserId": group.project_id.hex}}


def _rule(each: OfGroup, group_names: GroupNames, ec2_id: str) -> Shape:
    permission = each.permission
    first, last = permission.ports or (-1, -1)
    shape: Shape = {
        "SecurityGroupRuleId": ec2_id,
        "GroupId": group_names.ids[each.group.id],
        "IsEgress": permission.egress,
        "IpProtocol": permission.protocol,
    }
    if permission.ports is not None or permission.protocol == ANY:
        shape |= {"FromPort": first, "ToPort": last}
    if permission.cidr is not None:
        shape["CidrIpv6" if permission.is_ipv6 else "CidrIpv4"] = permission.cidr
    if permission.prefix_list_id is not None:
        shape["PrefixListId"] = group_names.prefix_lists[permission.prefix_list_id]
    if each.granted.description:
        shape["Description"] = each.granted.description
    return shape


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
    every = list(names.VPC.ids_of(networks).values())
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

    The EC2 id of a permission is the id of its first rule; the other rules are hidden. In a request the id of each
    rule selects its permission, which is shown once.
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
