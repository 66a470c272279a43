"""Network ACLs: there are none, as security groups alone filter."""

from typing import Any

from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action

_FIELDS = (
    *("association.association-id", "association.network-acl-id", "association.subnet-id", "default", "entry.cidr"),
    *("entry.icmp.code", "entry.icmp.type", "entry.ipv6-cidr", "entry.port-range.from", "entry.port-range.to"),
    *("entry.protocol", "entry.rule-action", "entry.egress", "entry.rule-number", "network-acl-id", "owner-id"),
    "vpc-id",
)


@action("DescribeNetworkAcls", "get_network", takes="NetworkAclIds Filters MaxResults NextToken")
def describe_network_acls(call: Call) -> dict[str, Any]:
    """List nothing: clients that look whether a VPC has an ACL learn that it has none."""
    for ec2_id in call.get("NetworkAclIds", []):
        raise errors.not_found("InvalidNetworkAclID.NotFound", ec2_id)
    _FILTERS.conditions(call.get("Filters", []))
    return {"NetworkAcls": []}


_FILTERS: Filterable[Any] = Filterable({name: lambda each: None for name in _FIELDS}, tags=lambda each: {})
