"""Lists of things that this cloud does not have, which clients read around resources that it has.

Terraform and Ansible stop at an error of such a list, and go on when it is empty.
"""

from collections.abc import Callable
from typing import Any

from portal.api.ec2.paging import page
from portal.api.ec2.protocol import model
from portal.api.ec2.registry import Call, action

_LISTS = {
    "DescribeDhcpOptions": ("get_network", "DhcpOptions"),
    "DescribeEgressOnlyInternetGateways": ("get_router", "EgressOnlyInternetGateways"),
    "DescribeIamInstanceProfileAssociations": ("os_compute_api:servers:index", "IamInstanceProfileAssociations"),
    "DescribeInstanceCreditSpecifications": ("os_compute_api:servers:index", "InstanceCreditSpecifications"),
    "DescribeLaunchTemplates": ("os_compute_api:servers:index", "LaunchTemplates"),
    "DescribeNatGateways": ("get_router", "NatGateways"),
    "DescribePlacementGroups": ("os_compute_api:servers:index", "PlacementGroups"),
    "DescribeSpotInstanceRequests": ("os_compute_api:servers:index", "SpotInstanceRequests"),
    "DescribeVpcClassicLink": ("get_network", "Vpcs"),
    "DescribeVpcClassicLinkDnsSupport": ("get_network", "Vpcs"),
    "DescribeVpcEndpoints": ("get_network", "VpcEndpoints"),
    "DescribeVpcPeeringConnections": ("get_network", "VpcPeeringConnections"),
}
"""Action → the rule it is asked by, and the member of its answer that is empty."""


def _reader(member: str, *, paged: bool) -> Callable[[Call], dict[str, Any]]:
    def read(call: Call) -> dict[str, Any]:
        if paged:
            page(call, list[str](), lambda item: (item, item))  # refuses a page that cannot be
        return {member: []}

    return read


for _name, (_rule, _member) in _LISTS.items():
    _shape = model.operation(_name).input_shape
    _arguments = set(model.members_of(_shape)) - {"DryRun"} if _shape is not None else set()
    action(_name, _rule, takes=" ".join(_arguments))(_reader(_member, paged="NextToken" in _arguments))


@action("GetEbsEncryptionByDefault", "volume:get_all")
def get_ebs_encryption_by_default(call: Call) -> dict[str, Any]:
    """Say that the type of a volume decides about its encryption, not the account."""
    return {"EbsEncryptionByDefault": False}
