"""ModifySecurityGroupRules and UpdateSecurityGroupRuleDescriptions…."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.security_groups.asked import asked, of_rule
from portal.api.ec2.actions.security_groups.lookups import Groups, chosen_rules, permissions_of
from portal.api.ec2.actions.security_groups.permissions import LONGEST, Asked, Granted
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.network import services

BOTH = ("create_security_group_rule", "delete_security_group_rule")


@action(
    "ModifySecurityGroupRules",
    *BOTH,
    takes="GroupId SecurityGroupRules",
    missing=names.RULE.missing,
    conflict="InvalidPermission.Duplicate",
)
def modify_security_group_rules(call: Call) -> dict[str, Any]:
    """Replace the permissions of rules, keeping their ids and directions."""
    groups = Groups(call)
    group = groups.to_change(*BOTH)
    for each in call.arguments["SecurityGroupRules"]:
        if not each.get("SecurityGroupRuleId"):
            raise errors.missing_parameter("SecurityGroupRule.SecurityGroupRuleId")
        there = permissions_of(group)
        (before,) = chosen_rules([each["SecurityGroupRuleId"]], there)
        wanted = of_rule(groups, group, each.get("SecurityGroupRule", {}), egress=before.permission.egress)
        same = next((rule for rule in there if rule.permission == wanted.permission), None)
        if same is not None and same is not before:
            raise Ec2Error("InvalidPermission.Duplicate", "Another rule of this security group allows the same")
        _change(before.granted, wanted)
    return {"Return": True}


def _change(before: Granted, wanted: Asked) -> None:
    """Replace a permission; the first of its rules keeps its id."""
    for rule in before.rules[1:]:
        services.delete_security_group_rule(rule)
    services.change_security_group_rule(before.rules[0], wanted.rules[0])
    services.create_security_group_rules(wanted.rules[1:])


@action(
    "UpdateSecurityGroupRuleDescriptionsIngress",
    *BOTH,
    takes="GroupId GroupName IpPermissions SecurityGroupRuleDescriptions",
    missing=names.GROUP.missing,
)
def update_ingress_descriptions(call: Call) -> dict[str, Any]:
    """Update the descriptions of ingress rules."""
    return _describe(call, egress=False)


@action(
    "UpdateSecurityGroupRuleDescriptionsEgress",
    *BOTH,
    takes="GroupId GroupName IpPermissions SecurityGroupRuleDescriptions",
    missing=names.GROUP.missing,
)
def update_egress_descriptions(call: Call) -> dict[str, Any]:
    """Update the descriptions of egress rules."""
    return _describe(call, egress=True)


def _describe(call: Call, *, egress: bool) -> dict[str, Any]:
    groups = Groups(call)
    group = groups.to_change(*BOTH)
    there = permissions_of(group, egress=egress)
    listed = call.get("SecurityGroupRuleDescriptions", [])
    if listed and "IpPermissions" in call.arguments:
        raise errors.combination("IpPermissions and SecurityGroupRuleDescriptions may not be used together")
    for each in listed:
        text = each.get("Description", "")
        if len(text) > LONGEST:
            raise errors.invalid_value("Description", text, f"It has more than {LONGEST} characters.")
        if not each.get("SecurityGroupRuleId"):
            raise errors.missing_parameter("SecurityGroupRuleDescription.SecurityGroupRuleId")
        (chosen,) = chosen_rules([each["SecurityGroupRuleId"]], there)
        services.describe_security_group_rules(chosen.granted.rules, text)
    if not listed:
        known = {each.permission: each for each in there}
        for wanted in asked(call, groups, group, egress=egress):
            if wanted.permission not in known:
                msg = "The specified rule does not exist in this security group."
                raise Ec2Error("InvalidPermission.NotFound", msg)
            services.describe_security_group_rules(known[wanted.permission].granted.rules, wanted.description or "")
    return {"Return": True}
