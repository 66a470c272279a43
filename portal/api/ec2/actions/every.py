"""All actions of EC2."""

from portal.api.ec2.actions import addresses, empty_lists, key_pairs, placement_groups, places, prefix_lists, tags
from portal.api.ec2.actions.images import attributes as images_attributes
from portal.api.ec2.actions.images import changes as images_changes
from portal.api.ec2.actions.images import describe as images_describe
from portal.api.ec2.actions.instances import attributes as instances_attributes
from portal.api.ec2.actions.instances import describe as instances_describe
from portal.api.ec2.actions.instances import metadata, power, run
from portal.api.ec2.actions.interfaces import attributes as interfaces_attributes
from portal.api.ec2.actions.interfaces import create
from portal.api.ec2.actions.interfaces import describe as interfaces_describe
from portal.api.ec2.actions.security_groups import describe as security_groups_describe
from portal.api.ec2.actions.security_groups import groups, rules
from portal.api.ec2.actions.volumes import attachments, modifications, snapshots
from portal.api.ec2.actions.volumes import changes as volumes_changes
from portal.api.ec2.actions.vpcs import internet_gateways, network_acls, route_tables, routes, subnets, vpcs
from portal.api.ec2.describe import Table
from portal.api.ec2.registry import Action
from provisioning.common.wired import by_name

_ALL: tuple[Action | Table, ...] = (
    addresses.allocate_address,
    addresses.associate_address,
    addresses.disassociate_address,
    addresses.release_address,
    addresses.DESCRIBE_ADDRESSES,
    addresses.DESCRIBE_ADDRESSES_ATTRIBUTE,
    *empty_lists.LISTS,
    empty_lists.get_ebs_encryption_by_default,
    images_attributes.describe_attribute,
    images_attributes.modify_attribute,
    images_attributes.reset_attribute,
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
    metadata.DESCRIBE_INSTANCE_IMAGE_METADATA,
    metadata.modify_instance_metadata_options,
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
    prefix_lists.DESCRIBE_PREFIX_LISTS,
    prefix_lists.DESCRIBE_MANAGED_PREFIX_LISTS,
    prefix_lists.get_managed_prefix_list_entries,
    security_groups_describe.DESCRIBE_SECURITY_GROUPS,
    security_groups_describe.DESCRIBE_SECURITY_GROUP_RULES,
    groups.create_security_group,
    groups.delete_security_group,
    rules.authorize_ingress,
    rules.authorize_egress,
    rules.revoke_ingress,
    rules.revoke_egress,
    rules.modify_security_group_rules,
    rules.update_ingress_descriptions,
    rules.update_egress_descriptions,
    tags.create_tags,
    tags.delete_tags,
    tags.DESCRIBE_TAGS,
    attachments.attach,
    attachments.detach,
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
    internet_gateways.create_internet_gateway,
    internet_gateways.attach_internet_gateway,
    internet_gateways.detach_internet_gateway,
    internet_gateways.delete_internet_gateway,
    internet_gateways.DESCRIBE_INTERNET_GATEWAYS,
    network_acls.DESCRIBE_NETWORK_ACLS,
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
