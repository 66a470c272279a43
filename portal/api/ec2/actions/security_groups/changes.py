"""CreateSecurityGroup, DeleteSecurityGroup, AuthorizeSecurityGroupIngress, …Egress, their Revoke counterparts, and
changes of existing rules.
"""

from collections.abc import Sequence

from portal.api.ec2.actions.security_groups import lookups
from portal.api.ec2.actions.security_groups.describe import rule_shapes
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.ec2_services.vpcs import note_vpc_of_group
from provisioning.network import services
from provisioning.network.models import SecurityGroup
from provisioning.network.selectors.membership import is_named_by_others
from provisioning.network.selectors.vpcs import is_default_of_vpc, vpc_networks_for
from provisioning.network.services.security.security_groups import DEFAULT_NAME


@action(
    "CreateSecurityGroup",
    "create_security_group",
    takes="GroupName Description VpcId TagSpecifications",
    missing=names.VPC.missing,
    conflict="InvalidGroup.Duplicate",
)
def create_security_group(call: Call) -> Shape:
    """Create a group; it can be used on every network of the project, and ``VpcId`` is only shown."""
    name, description = call.arguments["GroupName"], call.arguments["Description"]
    for parameter, value in (("GroupName", name), ("Description", description)):
        if not 0 < len(value) <= lookups.LONGEST:
            raise errors.invalid_value(parameter, value, f"It must have 1 to {lookups.LONGEST} characters.")
    if name.lower() == DEFAULT_NAME:
        raise Ec2Error("InvalidGroup.Reserved", f"The security group '{name}' is reserved")
    if name.startswith(f"{names.GROUP.prefix}-"):
        raise errors.invalid_value("GroupName", name, "A group's name must not begin with 'sg-'.")
    vpc = names.one(names.VPC, call.arguments["VpcId"], vpc_networks_for(call.context)) if call.get("VpcId") else None
    specified = tags.specified(call, names.GROUP)
    duplicate = Ec2Error("InvalidGroup.Duplicate", f"The security group '{name}' already exists")
    network_id = vpc.id if vpc is not None else None
    if lookups.Groups(call).count(name, network_id):
        raise duplicate
    group = services.create_security_group(call.project_id, name, description=description)
    if vpc is not None:
        note_vpc_of_group(group, vpc)
    if lookups.Groups(call).count(name, network_id) > 1:  # checked again: the project's quota counters are locked now
        raise duplicate
    tags.write(call, names.GROUP, [group.id], specified)
    return {
        "GroupId": names.GROUP.id_of(group.id),
        "Tags": tags.shape(specified.get(names.GROUP.resource_type, {})),
    }


@action(
    "DeleteSecurityGroup",
    "delete_security_group",
    takes="GroupId GroupName",
    missing=names.GROUP.missing,
    conflict="DependencyViolation",
)
def delete_security_group(call: Call) -> Shape:
    """Delete a group that is not in use by an interface or by rules of another group."""
    group = lookups.Groups(call).to_change("delete_security_group")
    if group.name == DEFAULT_NAME or is_default_of_vpc(group):
        raise Ec2Error("CannotDelete", f"the specified group: {DEFAULT_NAME} cannot be deleted by a user")
    if is_named_by_others(group):
        raise Ec2Error("DependencyViolation", f"The security group '{group.name}' is named by rules of another group")
    ec2_id = names.GROUP.id_of(group.id)
    services.delete_security_group(group)
    return {"Return": True, "GroupId": ec2_id}


INGRESS = f"GroupId GroupName IpPermissions {' '.join(lookups.FLAT)}"
EGRESS = "GroupId IpPermissions IpProtocol FromPort ToPort CidrIp"


@action(
    "AuthorizeSecurityGroupIngress",
    "create_security_group_rule",
    takes=f"{INGRESS} TagSpecifications",
    missing=names.GROUP.missing,
    conflict="InvalidPermission.Duplicate",
)
def authorize_ingress(call: Call) -> Shape:
    """Add ingress rules."""
    return _authorize(call, egress=False)


@action(
    "AuthorizeSecurityGroupEgress",
    "create_security_group_rule",
    takes=f"{EGRESS} TagSpecifications",
    missing=names.GROUP.missing,
    conflict="InvalidPermission.Duplicate",
)
def authorize_egress(call: Call) -> Shape:
    """Add egress rules."""
    return _authorize(call, egress=True)


def _authorize(call: Call, *, egress: bool) -> Shape:
    groups = lookups.Groups(call)
    group = groups.to_change("create_security_group_rule")
    specified = tags.specified(call, names.RULE)
    requested = lookups.requested_permissions(call, groups, group, egress=egress)
    there = {each.permission: each for each in lookups.permissions_of(group)}
    missing = [rule for each in requested for rule in _missing(each, there.get(each.permission))]
    services.create_security_group_rules(missing)
    now = {each.permission: each for each in lookups.permissions_of(group)}
    made = [now[each.permission] for each in requested]
    tags.write(call, names.RULE, [each.granted.id for each in made], specified)
    return {"Return": True, "SecurityGroupRules": rule_shapes(made)}


def _missing(requested: lookups.RequestedPermission, there: lookups.OfGroup | None) -> Sequence[services.RequestedRule]:
    """Return the rules of the request that the existing permission lacks: for IPv4, IPv6 or both. Raises Ec2Error if it
    lacks none.
    """
    have = {rule.ethertype for rule in there.granted.rules} if there is not None else set()
    missing = [rule for rule in requested.rules if rule.flow.ethertype not in have]
    if not missing:
        permission = requested.permission
        place = permission.cidr or (requested.rules[0].remote_group or requested.rules[0].remote_address_group)
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
def revoke_ingress(call: Call) -> Shape:
    """Remove ingress rules."""
    return _revoke(call, egress=False)


@action(
    "RevokeSecurityGroupEgress",
    "delete_security_group_rule",
    takes=f"{EGRESS} SecurityGroupRuleIds",
    missing="InvalidPermission.NotFound",
)
def revoke_egress(call: Call) -> Shape:
    """Remove egress rules."""
    return _revoke(call, egress=True)


def _revoke(call: Call, *, egress: bool) -> Shape:
    groups = lookups.Groups(call)
    group = groups.to_change("delete_security_group_rule")
    there = lookups.permissions_of(group, egress=egress)
    requested = call.get("SecurityGroupRuleIds", [])
    if requested:
        if "IpPermissions" in call.arguments or any(name in call.arguments for name in lookups.FLAT):
            raise errors.combination("SecurityGroupRuleIds may not be used together with other permissions")
        gone = lookups.chosen_rules(requested, there)
    else:
        gone = _named(call, groups, group, there, egress=egress)
    shapes = rule_shapes(gone, revoked=True)
    for each in gone:
        for rule in each.granted.rules:
            services.delete_security_group_rule(rule)
    return {"Return": True, "RevokedSecurityGroupRules": shapes}


def _named(
    call: Call, groups: lookups.Groups, group: SecurityGroup, there: Sequence[lookups.OfGroup], *, egress: bool
) -> list[lookups.OfGroup]:
    by_permission = {each.permission: each for each in there}
    result = []
    for each in lookups.requested_permissions(call, groups, group, egress=egress):
        if each.permission not in by_permission:
            msg = "The specified rule does not exist in this security group."
            raise Ec2Error("InvalidPermission.NotFound", msg)
        result.append(by_permission[each.permission])
    return result


BOTH = ("create_security_group_rule", "delete_security_group_rule")


@action(
    "ModifySecurityGroupRules",
    *BOTH,
    takes="GroupId SecurityGroupRules",
    missing=names.RULE.missing,
    conflict="InvalidPermission.Duplicate",
)
def modify_security_group_rules(call: Call) -> Shape:
    """Replace the permissions of rules, keeping their ids and directions."""
    groups = lookups.Groups(call)
    group = groups.to_change(*BOTH)
    for each in call.arguments["SecurityGroupRules"]:
        if not each.get("SecurityGroupRuleId"):
            raise errors.missing_parameter("SecurityGroupRule.SecurityGroupRuleId")
        there = lookups.permissions_of(group)
        (before,) = lookups.chosen_rules([each["SecurityGroupRuleId"]], there)
        requested = lookups.of_rule(groups, group, each.get("SecurityGroupRule", {}), egress=before.permission.egress)
        same = next((rule for rule in there if rule.permission == requested.permission), None)
        if same is not None and same is not before:
            raise Ec2Error("InvalidPermission.Duplicate", "Another rule of this security group allows the same")
        _change(before.granted, requested)
    return {"Return": True}


def _change(before: lookups.Granted, requested: lookups.RequestedPermission) -> None:
    """Replace a permission; the first of its rules keeps its id."""
    for rule in before.rules[1:]:
        services.delete_security_group_rule(rule)
    services.change_security_group_rule(before.rules[0], requested.rules[0])
    services.create_security_group_rules(requested.rules[1:])


@action(
    "UpdateSecurityGroupRuleDescriptionsIngress",
    *BOTH,
    takes="GroupId GroupName IpPermissions SecurityGroupRuleDescriptions",
    missing=names.GROUP.missing,
)
def update_ingress_descriptions(call: Call) -> Shape:
    """Update the descriptions of ingress rules."""
    return _describe(call, egress=False)


@action(
    "UpdateSecurityGroupRuleDescriptionsEgress",
    *BOTH,
    takes="GroupId GroupName IpPermissions SecurityGroupRuleDescriptions",
    missing=names.GROUP.missing,
)
def update_egress_descriptions(call: Call) -> Shape:
    """Update the descriptions of egress rules."""
    return _describe(call, egress=True)


def _describe(call: Call, *, egress: bool) -> Shape:
    groups = lookups.Groups(call)
    group = groups.to_change(*BOTH)
    there = lookups.permissions_of(group, egress=egress)
    listed = call.get("SecurityGroupRuleDescriptions", [])
    if listed and "IpPermissions" in call.arguments:
        raise errors.combination("IpPermissions and SecurityGroupRuleDescriptions may not be used together")
    for each in listed:
        text = each.get("Description", "")
        if len(text) > lookups.LONGEST:
            raise errors.invalid_value("Description", text, f"It has more than {lookups.LONGEST} characters.")
        if not each.get("SecurityGroupRuleId"):
            raise errors.missing_parameter("SecurityGroupRuleDescription.SecurityGroupRuleId")
        (chosen,) = lookups.chosen_rules([each["SecurityGroupRuleId"]], there)
        services.describe_security_group_rules(chosen.granted.rules, text)
    if not listed:
        by_permission = {each.permission: each for each in there}
        for requested in lookups.requested_permissions(call, groups, group, egress=egress):
            if requested.permission not in by_permission:
                msg = "The specified rule does not exist in this security group."
                raise Ec2Error("InvalidPermission.NotFound", msg)
            services.describe_security_group_rules(
                by_permission[requested.permission].granted.rules, requested.description or ""
            )
    return {"Return": True}
