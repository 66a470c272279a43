"""Network ACLs. Each VPC has only its default ACL, which allows everything and is read-only; security groups filter
traffic.
"""

from collections.abc import Sequence

from portal.api.ec2 import names, owned, tags
from portal.api.ec2.describe import NOTHING, Column, Described, Shape, describe, under
from portal.api.ec2.registry import Call
from provisioning.ec2 import ids
from provisioning.ec2 import tags as tag_records
from provisioning.network.models import Network
from provisioning.network.selectors.visibility import own
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


describe(
    Described(
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
                    "egress": "Egress",
                    "ipv6-cidr": "Ipv6CidrBlock",
                    "protocol": "Protocol",
                    "rule-action": "RuleAction",
                    "rule-number": "RuleNumber",
                    **dict.fromkeys(("icmp.code", "icmp.type", "port-range.from", "port-range.to"), NOTHING),
                },
                prefix="entry.",
            ),
            "network-acl-id": Column("NetworkAclId", "pk", names.ACL),
            "owner-id": Column("OwnerId", "project_id"),
            "vpc-id": Column("VpcId", "pk", names.VPC),
        },
    )
)
owned.register(names.ACL, lambda context: vpc_networks_for(context).filter(own(context)))
