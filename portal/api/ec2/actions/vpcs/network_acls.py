"""Network ACLs. Each VPC has only its default ACL, which allows everything and is read-only; security groups filter
traffic.
"""

import uuid
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from portal.api.ec2 import names, owned, tags
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import described
from portal.api.ec2.registry import Call, action
from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.ec2 import ids
from provisioning.ec2 import tags as tag_records
from provisioning.network.models import Network
from provisioning.network.selectors.vpcs import vpc_networks_for

Shape = dict[str, Any]
ENTRIES = [
    {"RuleNumber": number, "RuleAction": verdict, "Protocol": "-1", "Egress": egress, place: everywhere}
    for egress in (True, False)
    for number, verdict, place, everywhere in (
        (100, "allow", "CidrBlock", "0.0.0.0/0"),
        (101, "allow", "Ipv6CidrBlock", "::/0"),
        (32767, "deny", "CidrBlock", "0.0.0.0/0"),
        (32768, "deny", "Ipv6CidrBlock", "::/0"),
    )
]


@action(
    "DescribeNetworkAcls",
    "get_network",
    takes="NetworkAclIds Filters MaxResults NextToken",
    missing=names.ACL.missing,
)
def describe_network_acls(call: Call) -> dict[str, Any]:
    """List the default ACL of each VPC that the caller may see."""
    rows = vpc_networks_for(call.context).prefetch_related("subnets")
    shown, token = described(call, names.ACL, call.get("NetworkAclIds", []), rows, partial(_shapes, call), _FILTERS)
    return {"NetworkAcls": shown, "NextToken": token}


def _shapes(call: Call, every: Sequence[Network]) -> list[Shape]:
    keys = [network.id for network in every]
    subnets = [subnet.id for network in every for subnet in network.subnets.all()]
    wanted = {names.ACL.prefix: keys, names.VPC.prefix: keys, names.SUBNET.prefix: subnets}
    known, tagged = ids.ids_of_all(wanted), tag_records.tags_of(names.ACL.prefix, keys)
    own, vpcs, of_subnets = (known[kind.prefix] for kind in (names.ACL, names.VPC, names.SUBNET))
    return [
        {
            "NetworkAclId": own[network.id],
            "VpcId": vpcs[network.id],
            "OwnerId": network.project_id.hex,
            "IsDefault": True,
            "Entries": ENTRIES,
            "Associations": [
                {
                    "NetworkAclAssociationId": f"aclassoc-{of_subnets[subnet.id].partition('-')[2]}",
                    "NetworkAclId": own[network.id],
                    "SubnetId": of_subnets[subnet.id],
                }
                for subnet in network.subnets.all()
            ],
            "Tags": tags.shape(tagged.get(network.id, {})),
        }
        for network in every
    ]


def _associated(name: str) -> Any:
    return lambda shape: [each[name] for each in shape["Associations"]]


def _entry(name: str) -> Any:
    return lambda shape: [each.get(name) for each in shape["Entries"]]


_FILTERS: Filterable[Shape] = Filterable(
    {
        "association.association-id": _associated("NetworkAclAssociationId"),
        "association.network-acl-id": _associated("NetworkAclId"),
        "association.subnet-id": _associated("SubnetId"),
        "default": lambda shape: shape["IsDefault"],
        "entry.cidr": _entry("CidrBlock"),
        "entry.egress": _entry("Egress"),
        "entry.icmp.code": lambda shape: [],
        "entry.icmp.type": lambda shape: [],
        "entry.ipv6-cidr": _entry("Ipv6CidrBlock"),
        "entry.port-range.from": lambda shape: [],
        "entry.port-range.to": lambda shape: [],
        "entry.protocol": _entry("Protocol"),
        "entry.rule-action": _entry("RuleAction"),
        "entry.rule-number": _entry("RuleNumber"),
        "network-acl-id": lambda shape: shape["NetworkAclId"],
        "owner-id": lambda shape: shape["OwnerId"],
        "vpc-id": lambda shape: shape["VpcId"],
    },
    tags=tags.of_shape,
)


def _owned(context: RequestContext, wanted: Collection[uuid.UUID]) -> list[uuid.UUID]:
    rows = vpc_networks_for(context).filter(pk__in=wanted, project_id=context.project_id or NOBODY)
    return list(rows.values_list("pk", flat=True))


owned.register(names.ACL, _owned)
