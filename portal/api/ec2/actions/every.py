"""All actions of EC2, and empty lists of resources that this cloud does not have, but that clients read together with
other resources.

Terraform and Ansible abort if such a list is an error, and continue if it is empty.
"""

from portal.api.ec2.actions import key_pairs, placement_groups, places, tags
from portal.api.ec2.actions.images import changes as images_changes
from portal.api.ec2.actions.images import describe as images_describe
from portal.api.ec2.actions.instances import attributes as instances_attributes
from portal.api.ec2.actions.instances import describe as instances_describe
from portal.api.ec2.actions.instances import power, run
from portal.api.ec2.actions.interfaces import addresses, create
from portal.api.ec2.actions.interfaces import attributes as interfaces_attributes
from portal.api.ec2.actions.interfaces import describe as interfaces_describe
from portal.api.ec2.actions.security_groups import changes as security_groups_changes
from portal.api.ec2.actions.security_groups import describe as security_groups_describe
from portal.api.ec2.actions.volumes import changes as volumes_changes
from portal.api.ec2.actions.volumes import modifications, snapshots
from portal.api.ec2.actions.vpcs import route_tables, routes, subnets, vpcs
from portal.api.ec2.describe import Listed, Table
from portal.api.ec2.frame import Action, Call, Shape, action
from provisioning.common.wired import by_name

_SERVERS, _NETWORKS, _ROUTERS = "os_compute_api:servers:index", "get_network", "get_router"
_PAGED = "MaxResults NextToken"
_LISTS = {
    "DescribeDhcpOptions": (_NETWORKS, "DhcpOptions", f"DhcpOptionsIds Filters {_PAGED}"),
    "DescribeEgressOnlyInternetGateways": (
        _ROUTERS, "EgressOnlyInternetGateways", f"EgressOnlyInternetGatewayIds Filters {_PAGED}"
    ),
    "DescribeIamInstanceProfileAssociations": (
        _SERVERS, "IamInstanceProfileAssociations", f"AssociationIds Filters {_PAGED}"
    ),
    "DescribeInstanceCreditSpecifications": (_SERVERS, "InstanceCreditSpecifications", f"Filters InstanceIds {_PAGED}"),
    "DescribeLaunchTemplates": (
        _SERVERS, "LaunchTemplates", f"Filters IncludeManagedResources LaunchTemplateIds LaunchTemplateNames {_PAGED}"
    ),
    "DescribeNatGateways": (_ROUTERS, "NatGateways", f"Filter NatGatewayIds {_PAGED}"),
    "DescribeSpotInstanceRequests": (_SERVERS, "SpotInstanceRequests", f"Filters SpotInstanceRequestIds {_PAGED}"),
    "DescribeVpcClassicLink": (_NETWORKS, "Vpcs", "Filters VpcIds"),
    "DescribeVpcClassicLinkDnsSupport": (_NETWORKS, "Vpcs", f"VpcIds {_PAGED}"),
    "DescribeVpcEndpoints": (_NETWORKS, "VpcEndpoints", f"Filters VpcEndpointIds {_PAGED}"),
    "DescribeVpcPeeringConnections": (_NETWORKS, "VpcPeeringConnections", f"Filters VpcPeeringConnectionIds {_PAGED}"),
}  # fmt: skip
"""Action → its policy rule, the member of its response that is empty, and all arguments of the model.

The arguments are listed here because reading them from the model would load botocore into every web process.
"""
LISTS = tuple(
    Listed(
        action=name,
        rule=rule,
        member=member,
        takes=takes.removesuffix(_PAGED),
        paged=takes.endswith(_PAGED),
        items=lambda call: [],
    )
    for name, (rule, member, takes) in _LISTS.items()
)


@action("GetEbsEncryptionByDefault", "volume:get_all")
def get_ebs_encryption_by_default(call: Call) -> Shape:
    """Return False: encryption depends on the volume type, not on the account."""
    return {"EbsEncryptionByDefault": False}


_ALL: tuple[Action | Table, ...] = (
    addresses.allocate_address,
    addresses.associate_address,
    addresses.disassociate_address,
    addresses.release_address,
    addresses.DESCRIBE_ADDRESSES,
    addresses.DESCRIBE_ADDRESSES_ATTRIBUTE,
    *LISTS,
    get_ebs_encryption_by_default,
    images_changes.describe_attribute,
    images_changes.modify_attribute,
    images_changes.reset_attribute,
    images_changes.create,
    images_changes.register,
    images_changes.deregister,
    images_changes.disable,
    images_changes.enable,
    images_changes.protect,
    images_changes.unprotect,
    images_describe.DESCRIBE_IMAGES,
    instances_attributes.describe_instance_attribute,
    instances_attributes.modify_instance_attribute,
    instances_describe.DESCRIBE_INSTANCES,
    instances_describe.DESCRIBE_INSTANCE_STATUS,
    instances_attributes.DESCRIBE_INSTANCE_IMAGE_METADATA,
    instances_attributes.modify_instance_metadata_options,
    power.start_instances,
    power.stop_instances,
    power.reboot_instances,
    power.terminate_instances,
    power.get_console_output,
    power.get_password_data,
    run.run_instances,
    interfaces_attributes.modify_network_interface_attribute,
    interfaces_attributes.reset_network_interface_attribute,
    interfaces_attributes.describe_network_interface_attribute,
    interfaces_attributes.assign_private_ip_addresses,
    interfaces_attributes.assign_ipv6_addresses,
    interfaces_attributes.unassign_private_ip_addresses,
    interfaces_attributes.unassign_ipv6_addresses,
    create.create_network_interface,
    create.delete_network_interface,
    create.attach_network_interface,
    create.detach_network_interface,
    interfaces_describe.DESCRIBE_NETWORK_INTERFACES,
    key_pairs.create,
    key_pairs.import_,
    key_pairs.DESCRIBE_KEY_PAIRS,
    key_pairs.delete,
    placement_groups.create,
    placement_groups.DESCRIBE_PLACEMENT_GROUPS,
    placement_groups.delete,
    places.DESCRIBE_REGIONS,
    places.DESCRIBE_AVAILABILITY_ZONES,
    places.DESCRIBE_INSTANCE_TYPES,
    places.DESCRIBE_INSTANCE_TYPE_OFFERINGS,
    places.describe_account_attributes,
    places.DESCRIBE_PREFIX_LISTS,
    places.DESCRIBE_MANAGED_PREFIX_LISTS,
    places.get_managed_prefix_list_entries,
    security_groups_describe.DESCRIBE_SECURITY_GROUPS,
    security_groups_describe.DESCRIBE_SECURITY_GROUP_RULES,
    security_groups_changes.create_security_group,
    security_groups_changes.delete_security_group,
    security_groups_changes.authorize_ingress,
    security_groups_changes.authorize_egress,
    security_groups_changes.revoke_ingress,
    security_groups_changes.revoke_egress,
    security_groups_changes.modify_security_group_rules,
    security_groups_changes.update_ingress_descriptions,
    security_groups_changes.update_egress_descriptions,
    tags.create_tags,
    tags.delete_tags,
    tags.DESCRIBE_TAGS,
    modifications.attach,
    modifications.detach,
    volumes_changes.create_volume,
    volumes_changes.delete_volume,
    volumes_changes.DESCRIBE_VOLUMES,
    volumes_changes.describe_volume_attribute,
    volumes_changes.modify_volume_attribute,
    modifications.modify_volume,
    modifications.DESCRIBE_VOLUMES_MODIFICATIONS,
    modifications.DESCRIBE_VOLUME_STATUS,
    snapshots.create_snapshot,
    snapshots.delete_snapshot,
    snapshots.DESCRIBE_SNAPSHOTS,
    snapshots.describe_snapshot_attribute,
    subnets.create_internet_gateway,
    subnets.attach_internet_gateway,
    subnets.detach_internet_gateway,
    subnets.delete_internet_gateway,
    subnets.DESCRIBE_INTERNET_GATEWAYS,
    vpcs.DESCRIBE_NETWORK_ACLS,
    route_tables.DESCRIBE_ROUTE_TABLES,
    route_tables.associate_route_table,
    route_tables.disassociate_route_table,
    routes.create_route,
    routes.replace_route,
    routes.delete_route,
    subnets.create_subnet,
    subnets.delete_subnet,
    subnets.DESCRIBE_SUBNETS,
    subnets.modify_subnet_attribute,
    vpcs.create_vpc,
    vpcs.delete_vpc,
    vpcs.DESCRIBE_VPCS,
    vpcs.describe_vpc_attribute,
    vpcs.modify_vpc_attribute,
)
ACTIONS = by_name("The actions of EC2", *(each.as_action() if isinstance(each, Table) else each for each in _ALL))
"""Name → action."""
TABLES = {each.action: each for each in _ALL if isinstance(each, Table)}
"""Name of a Describe action → its table."""
