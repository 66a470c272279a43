"""AuthorizeSecurityGroupIngress, …Egress, and their Revoke counterparts."""

from collections.abc import Sequence
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.security_groups.asked import FLAT, asked
from portal.api.ec2.actions.security_groups.lookups import Groups, chosen_rules, permissions_of
from portal.api.ec2.actions.security_groups.permissions import Asked, OfGroup
from portal.api.ec2.actions.security_groups.shapes import rule_shapes
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.network import services
from provisioning.network.models import SecurityGroup

INGRESS = f"GroupId GroupName IpPermissions {' '.join(FLAT)}"
EGRESS = "GroupId IpPermissions IpProtocol FromPort ToPort CidrIp"


@action(
    "AuthorizeSecurityGroupIngress",
    "create_security_group_rule",
    takes=f"{INGRESS} TagSpecifications",
    missing=names.GROUP.missing,
    conflict="InvalidPermission.Duplicate",
)
def authorize_ingress(call: Call) -> dict[str, Any]:
    """Add ingress rules."""
    return _authorize(call, egress=False)


@action(
    "AuthorizeSecurityGroupEgress",
    "create_security_group_rule",
    takes=f"{EGRESS} TagSpecifications",
    missing=names.GROUP.missing,
    conflict="InvalidPermission.Duplicate",
)
def authorize_egress(call: Call) -> dict[str, Any]:
    """Add egress rules."""
    return _authorize(call, egress=True)


def _authorize(call: Call, *, egress: bool) -> dict[str, Any]:
    groups = Groups(call)
    group = groups.to_change("create_security_group_rule")
    given = tags.specified(call, names.RULE)
    wanted = asked(call, groups, group, egress=egress)
    there = {each.permission: each for each in permissions_of(group)}
    missing = [rule for each in wanted for rule in _missing(each, there.get(each.permission))]
    services.create_security_group_rules(missing)
    now = {each.permission: each for each in permissions_of(group)}
    made = [now[each.permission] for each in wanted]
    tags.write(call, names.RULE, [each.granted.id for each in made], given)
    return {"Return": True, "SecurityGroupRules": rule_shapes(made)}


def _missing(wanted: Asked, there: OfGroup | None) -> Sequence[services.WantedRule]:
    """Return the rules of the request that the existing permission lacks: for IPv4, IPv6 or both. Raises Ec2Error if it
    lacks none.
    """
    have = {rule.ethertype for rule in there.granted.rules} if there is not None else set()
    missing = [rule for rule in wanted.rules if rule.flow.ethertype not in have]
    if not missing:
        permission = wanted.permission
        place = permission.cidr or (wanted.rules[0].remote_group or wanted.rules[0].remote_address_group)
        ports = (
            "ALL" if permission.ports is None else f"from port: {permission.ports[0]}, to port: {permission.ports[1]}"
        )
        words = f"peer: {place}, {permission.protocol}, {ports}, ALLOW"
        msg = f'the specified rule "{words}" already exists'
        raise Ec2Error("InvalidPermission.Duplicate", msg)
    return missing


@action(
    "RevokeSecurityGroupIngress",
    "delete_security_group_rule",
    takes=f"{INGRESS} SecurityGroupRuleIds",
    missing="InvalidPermission.NotFound",
)
def revoke_ingress(call: Call) -> dict[str, Any]:
    """Remove ingress rules."""
    return _revoke(call, egress=False)


@action(
    "RevokeSecurityGroupEgress",
    "delete_security_group_rule",
    takes=f"{EGRESS} SecurityGroupRuleIds",
    missing="InvalidPermission.NotFound",
)
def revoke_egress(call: Call) -> dict[str, Any]:
    """Remove egress rules."""
    return _revoke(call, egress=True)


def _revoke(call: Call, *, egress: bool) -> dict[str, Any]:
    groups = Groups(call)
    group = groups.to_change("delete_security_group_rule")
    there = permissions_of(group, egress=egress)
    wanted = call.get("SecurityGroupRuleIds", [])
    if wanted:
        if "IpPermissions" in call.arguments or any(name in call.arguments for name in FLAT):
            raise errors.combination("SecurityGroupRuleIds may not be used together with other permissions")
        gone = chosen_rules(wanted, there)
    else:
        gone = _named(call, groups, group, there, egress=egress)
    shapes = rule_shapes(gone, revoked=True)
    for each in gone:
        for rule in each.granted.rules:
            services.delete_security_group_rule(rule)
    return {"Return": True, "RevokedSecurityGroupRules": shapes}


def _named(
    call: Call, groups: Groups, group: SecurityGroup, there: Sequence[OfGroup], *, egress: bool
) -> list[OfGroup]:
    known = {each.permission: each for each in there}
    found = []
    for each in asked(call, groups, group, egress=egress):
        if each.permission not in known:
            msg = "The specified rule does not exist in this security group."
            raise Ec2Error("InvalidPermission.NotFound", msg)
        found.append(known[each.permission])
    return found
