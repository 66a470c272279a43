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


_MODULES = (
    images_changes,
    images_describe,
    instances_attributes,
    instances_describe,
    power,
    run,
    addresses,
    interfaces_attributes,
    create,
    interfaces_describe,
    key_pairs,
    placement_groups,
    places,
    security_groups_changes,
    security_groups_describe,
    tags,
    volumes_changes,
    modifications,
    snapshots,
    route_tables,
    routes,
    subnets,
    vpcs,
)
"""The modules that declare the actions and tables of this API."""
_ALL: tuple[Action | Table, ...] = (
    *LISTS,
    get_ebs_encryption_by_default,
    *(each for module in _MODULES for each in vars(module).values() if isinstance(each, Action | Table)),
)
ACTIONS = by_name("The actions of EC2", *(each.as_action() if isinstance(each, Table) else each for each in _ALL))
"""Name → action."""
TABLES = {each.action: each for each in _ALL if isinstance(each, Table)}
"""Name of a Describe action → its table."""
