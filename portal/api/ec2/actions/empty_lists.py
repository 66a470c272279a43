"""Empty lists of resources that this cloud does not have, but that clients read together with other resources.

Terraform and Ansible abort if such a list is an error, and continue if it is empty.
"""

from typing import Any

from portal.api.ec2.describe import Listed
from portal.api.ec2.registry import Call, action

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
def get_ebs_encryption_by_default(call: Call) -> dict[str, Any]:
    """Return False: encryption depends on the volume type, not on the account."""
    return {"EbsEncryptionByDefault": False}
