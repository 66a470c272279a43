"""CreateSecurityGroup and DeleteSecurityGroup."""

from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.security_groups.lookups import Groups
from portal.api.ec2.actions.security_groups.permissions import LONGEST
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.ec2_services.vpcs import note_vpc_of_group
from provisioning.network import services
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
def create_security_group(call: Call) -> dict[str, Any]:
    """Create a group; it can be used on every network of the project, and ``VpcId`` is only shown."""
    name, description = call.arguments["GroupName"], call.arguments["Description"]
    for parameter, value in (("GroupName", name), ("Description", description)):
        if not 0 < len(value) <= LONGEST:
            raise errors.invalid_value(parameter, value, f"It must have 1 to {LONGEST} characters.")
    if name.lower() == DEFAULT_NAME:
        raise Ec2Error("InvalidGroup.Reserved", f"The security group '{name}' is reserved")
    if name.startswith(f"{names.GROUP.prefix}-"):
        raise errors.invalid_value("GroupName", name, "A group's name does not begin with 'sg-'.")
    vpc = names.one(names.VPC, call.arguments["VpcId"], vpc_networks_for(call.context)) if call.get("VpcId") else None
    specified = tags.specified(call, names.GROUP)
    duplicate = Ec2Error("InvalidGroup.Duplicate", f"The security group '{name}' already exists")
    network_id = vpc.id if vpc is not None else None
    if Groups(call).count(name, network_id):
        raise duplicate
    group = services.create_security_group(call.project_id, name, description=description)
    if vpc is not None:
        note_vpc_of_group(group, vpc)
    if Groups(call).count(name, network_id) > 1:  # checked again: the project's quota counters are locked now
        raise duplicate
    tags.write(call, names.GROUP, [group.id], specified)
    return {
        "GroupId": ids.id_of(names.GROUP.prefix, group.id),
        "Tags": tags.shape(specified.get(names.GROUP.resource_type, {})),
    }


@action(
    "DeleteSecurityGroup",
    "delete_security_group",
    takes="GroupId GroupName",
    missing=names.GROUP.missing,
    conflict="DependencyViolation",
)
def delete_security_group(call: Call) -> dict[str, Any]:
    """Delete a group that is not in use by an interface or by rules of another group."""
    group = Groups(call).to_change("delete_security_group")
    if group.name == DEFAULT_NAME or is_default_of_vpc(group):
        raise Ec2Error("CannotDelete", f"the specified group: {DEFAULT_NAME} cannot be deleted by a user")
    if is_named_by_others(group):
        raise Ec2Error("DependencyViolation", f"The security group '{group.name}' is named by rules of another group")
    ec2_id = ids.id_of(names.GROUP.prefix, group.id)
    services.delete_security_group(group)
    return {"Return": True, "GroupId": ec2_id}
