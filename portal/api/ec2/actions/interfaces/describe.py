"""DescribeNetworkInterfaces."""

from portal.api.ec2 import names, owned
from portal.api.ec2.actions.interfaces.lookups import interface_rows
from portal.api.ec2.actions.interfaces.shapes import shapes
from portal.api.ec2.describe import Column, Described, describe, members, under
from provisioning.network import selectors
from provisioning.network.records.owners import OF_THE_CLOUD

describe(
    Described(
        action="DescribeNetworkInterfaces",
        rule="get_port",
        member="NetworkInterfaces",
        kind=names.INTERFACE,
        ids="NetworkInterfaceIds",
        ignored="IncludeManagedResources",
        rows=interface_rows,
        shape=shapes,
        tags="TagSet",
        filters={
            **under(
                "PrivateIpAddresses[]",
                {
                    "association.public-ip": "Association.PublicIp",
                    "primary": "Primary",
                    "private-ip-address": Column("PrivateIpAddress", "fixed_ips__address"),
                },
                prefix="addresses.",
            ),
            **under(
                "Association",
                members("AllocationId AssociationId IpOwnerId PublicDnsName PublicIp"),
                prefix="association.",
            ),
            **under(
                "Attachment",
                {
                    **members("AttachTime AttachmentId DeleteOnTermination DeviceIndex InstanceOwnerId Status"),
                    "instance-id": Column("InstanceId", "device_id", names.INSTANCE),
                },
                prefix="attachment.",
            ),
            **members("AvailabilityZone InterfaceType PrivateDnsName RequesterManaged SourceDestCheck Status"),
            "description": Column("Description", "description"),
            "group-id": Column("Groups[].GroupId", "security_groups__pk", names.GROUP),
            "group-name": "Groups[].GroupName",
            "ipv6-addresses.ipv6-address": Column("Ipv6Addresses[].Ipv6Address", "fixed_ips__address"),
            "mac-address": Column("MacAddress", "mac_address"),
            "network-interface-id": Column("NetworkInterfaceId", "pk", names.INTERFACE),
            "owner-id": Column("OwnerId", "project_id"),
            "private-ip-address": Column("PrivateIpAddress", "fixed_ips__address"),
            "subnet-id": Column("SubnetId", "fixed_ips__subnet_id", names.SUBNET),
            "vpc-id": Column("VpcId", "network_id", names.VPC),
        },
    )
)
owned.register(names.INTERFACE, lambda context: selectors.ports_for(context).exclude(OF_THE_CLOUD))
