"""DescribeSecurityGroups and DescribeSecurityGroupRules."""

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from portal.api.ec2 import names, owned, tags
from portal.api.ec2.actions.security_groups.lookups import chosen_by_name, chosen_rules
from portal.api.ec2.actions.security_groups.permissions import OfGroup, granted
from portal.api.ec2.actions.security_groups.shapes import group_shapes, rule_shapes
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import described, page
from portal.api.ec2.registry import Call, action
from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.ec2 import ids
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.selectors.membership import groups_and_rules, groups_with_rules
from provisioning.network.selectors.vpcs import default_group_ids, vpc_networks_for
from provisioning.network.services.security.security_groups import DEFAULT_NAME

Shape = dict[str, Any]
Place = tuple[str, str]


def read_groups(call: Call, keys: Collection[uuid.UUID] | None = None) -> list[SecurityGroup]:
    """Return the groups that the caller may see with related records, oldest first. With ``keys``, only these groups
    are returned.

    The project's default group is created if it does not exist, as in the other APIs.
    """
    services.ensure_default_security_group(call.project_id)
    return groups_with_rules(call.context, keys)


@action(
    "DescribeSecurityGroups",
    "get_security_group",
    takes="GroupIds GroupNames Filters MaxResults NextToken",
    missing=names.GROUP.missing,
)
def describe_security_groups(call: Call) -> dict[str, Any]:
    """List the project's security groups, and the groups that other projects share with it."""
    given, filters = call.get("GroupIds", []), _filters(call)
    if not call.get("GroupNames"):
        services.ensure_default_security_group(call.project_id)
        rows = groups_and_rules(call.context)
        shown, token = described(call, names.GROUP, given, rows, group_shapes, filters)
        return {"SecurityGroups": shown, "NextToken": token}
    groups = names.fetched(names.GROUP, given, partial(read_groups, call), lambda group: group.id)
    groups = chosen_by_name(call, groups, call.arguments["GroupNames"])
    places: dict[str, Place] = {}
    shapes = group_shapes(groups)
    for group, shape in zip(groups, shapes, strict=True):
        places[shape["GroupId"]] = (group.created_at.isoformat(), str(group.id))
    shapes = filters.passing(shapes, call.get("Filters", []))
    shown, token = page(call, shapes, lambda shape: places[shape["GroupId"]])
    return {"SecurityGroups": shown, "NextToken": token}


def _filters(call: Call) -> Filterable[Shape]:
    """Return the filters of groups. A group created without a VPC matches every VPC in the filter ``vpc-id``.

    The project's default group is an exception: it matches a VPC only if the project has no other VPC. Clients that
    change the default group of one VPC would otherwise change it for all VPCs.
    """
    networks = list(vpc_networks_for(call.context).values_list("pk", flat=True))
    every = list(ids.ids_of(names.VPC.prefix, networks).values())
    only = every if len(every) == 1 and not default_group_ids(networks) else []

    def vpcs(shape: Shape) -> object:
        return shape["VpcId"] or (only if shape["GroupName"] == DEFAULT_NAME else every)

    return replace(_GROUP_FILTERS, readers={**_GROUP_FILTERS.readers, "vpc-id": vpcs})


def _in_permissions(side: str, read: Callable[[Shape], object]) -> Callable[[Shape], object]:
    return lambda shape: [read(permission) for permission in shape[side]]


_OF_PERMISSIONS: dict[str, Callable[[Shape], object]] = {
    "cidr": lambda permission: [each["CidrIp"] for each in permission["IpRanges"]],
    "from-port": lambda permission: permission.get("FromPort"),
    "group-id": lambda permission: [each["GroupId"] for each in permission["UserIdGroupPairs"]],
    "group-name": lambda permission: [each["GroupName"] for each in permission["UserIdGroupPairs"]],
    "ipv6-cidr": lambda permission: [each["CidrIpv6"] for each in permission["Ipv6Ranges"]],
    "prefix-list-id": lambda permission: [each["PrefixListId"] for each in permission["PrefixListIds"]],
    "protocol": lambda permission: permission["IpProtocol"],
    "to-port": lambda permission: permission.get("ToPort"),
    "user-id": lambda permission: [each["UserId"] for each in permission["UserIdGroupPairs"]],
}
_GROUP_FILTERS: Filterable[Shape] = Filterable(
    {
        "description": lambda shape: shape["Description"],
        "group-id": lambda shape: shape["GroupId"],
        "group-name": lambda shape: shape["GroupName"],
        "owner-id": lambda shape: shape["OwnerId"],
        **{f"ip-permission.{name}": _in_permissions("IpPermissions", read) for name, read in _OF_PERMISSIONS.items()},
        **{
            f"egress.ip-permission.{name}": _in_permissions("IpPermissionsEgress", read)
            for name, read in _OF_PERMISSIONS.items()
        },
    },
    tags=tags.of_shape,
)


@action(
    "DescribeSecurityGroupRules",
    "get_security_group_rule",
    takes="SecurityGroupRuleIds Filters MaxResults NextToken",
    missing=names.RULE.missing,
)
def describe_security_group_rules(call: Call) -> dict[str, Any]:
    """List the rules of the groups that the caller may see."""
    given = call.get("SecurityGroupRuleIds", [])
    if not given:
        services.ensure_default_security_group(call.project_id)
        rows = selectors.security_group_rules_for(call.context)
        shown, token = described(call, names.RULE, (), rows, partial(_rules_shaped, call), _RULE_FILTERS)
        return {"SecurityGroupRules": shown, "NextToken": token}
    named = selectors.security_group_rules_for(call.context).filter(pk__in=names.resources(names.RULE, given).values())
    every = chosen_rules(given, _permissions_in(call, set(named.values_list("group_id", flat=True))))
    shapes = rule_shapes(every)
    places = {
        shape["SecurityGroupRuleId"]: (each.granted.rules[0].created_at.isoformat(), str(each.granted.id))
        for each, shape in zip(every, shapes, strict=True)
    }
    shapes = _RULE_FILTERS.passing(shapes, call.get("Filters", []))
    shown, token = page(call, shapes, lambda shape: places[shape["SecurityGroupRuleId"]])
    return {"SecurityGroupRules": shown, "NextToken": token}


def _permissions_in(call: Call, groups: Collection[uuid.UUID]) -> list[OfGroup]:
    return [
        OfGroup(group, each) for group in groups_with_rules(call.context, groups) for each in granted(group.rules.all())
    ]


def _rules_shaped(call: Call, rules: Sequence[SecurityGroupRule]) -> list[Shape | None]:
    """Return for each rule the permission whose EC2 id it has. Only the first rule of a permission has its id; for all
    other rules the entry is None.
    """
    every = _permissions_in(call, {rule.group_id for rule in rules})
    wanted = {rule.id for rule in rules}
    every = [each for each in every if each.granted.id in wanted]
    known = {each.granted.id: shape for each, shape in zip(every, rule_shapes(every), strict=True)}
    return [known.get(rule.id) for rule in rules]


_RULE_FILTERS: Filterable[Shape] = Filterable(
    {
        "group-id": lambda shape: shape["GroupId"],
        "security-group-rule-id": lambda shape: shape["SecurityGroupRuleId"],
    },
    tags=tags.of_shape,
)


def _own_groups(context: RequestContext, wanted: Collection[uuid.UUID]) -> list[uuid.UUID]:
    rows = selectors.security_groups_for(context).prefetch_related(None).filter(id__in=wanted)
    return list(rows.filter(project_id=context.project_id or NOBODY).values_list("id", flat=True))


def _own_rules(context: RequestContext, wanted: Collection[uuid.UUID]) -> list[uuid.UUID]:
    return list(selectors.security_group_rules_for(context).filter(id__in=wanted).values_list("id", flat=True))


owned.register(names.GROUP, _own_groups)
owned.register(names.RULE, _own_rules)
