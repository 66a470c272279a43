"""Network ACLs. Each VPC has only its default ACL, which allows everything and is read-only; security groups filter
traffic.
"""

from collections.abc import Sequence

from portal.api.ec2 import names, tags
from portal.api.ec2.describe import Column, Described, Shape, members, nothing, under
from portal.api.ec2.registry import Call
from provisioning.network.models import Network
from provisioning.network.selectors.vpcs import vpc_networks_for

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


def _shapes(call: Call, every: Sequence[Network]) -> list[Shape]:
    keys = [network.id for network in every]
    subnets = [subnet.id for network in every for subnet in network.subnets.all()]
    known = names.known({names.ACL: keys, names.VPC: keys, names.SUBNET: subnets})
    tagged = tags.shapes(names.ACL, keys)
    own, vpcs, of_subnets = (known[kind] for kind in (names.ACL, names.VPC, names.SUBNET))
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
            "Tags": tagged[network.id],
        }
        for network in every
    ]


DESCRIBE_NETWORK_ACLS = Described(
    action="DescribeNetworkAcls",
    rule="get_network",
    member="NetworkAcls",
    kind=names.ACL,
    ids="NetworkAclIds",
    rows=lambda call: vpc_networks_for(call.context).prefetch_related("subnets"),
    shape=_shapes,
    filters={
        **under(
            "Associations[]",
            {
                "association-id": "NetworkAclAssociationId",
                "network-acl-id": "NetworkAclId",
                "subnet-id": Column("SubnetId", "subnets__pk", names.SUBNET),
            },
            prefix="association.",
        ),
        "default": "IsDefault",
        **under(
            "Entries[]",
            {
                "cidr": "CidrBlock",
                **members("Egress Protocol RuleAction RuleNumber"),
                "ipv6-cidr": "Ipv6CidrBlock",
                **nothing("icmp.code icmp.type port-range.from port-range.to"),
            },
            prefix="entry.",
        ),
        "network-acl-id": Column("NetworkAclId", "pk", names.ACL),
        "owner-id": Column("OwnerId", "project_id"),
        "vpc-id": Column("VpcId", "pk", names.VPC),
    },
)
