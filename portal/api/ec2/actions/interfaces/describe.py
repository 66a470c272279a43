"""DescribeNetworkInterfaces."""

from portal.api.ec2 import names, owned
from portal.api.ec2.actions.interfaces.lookups import interface_rows
from portal.api.ec2.actions.interfaces.shapes import shapes
from portal.api.ec2.describe import Column, Described, describe, under
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
                {
                    "allocation-id": "AllocationId",
                    "association-id": "AssociationId",
                    "ip-owner-id": "IpOwnerId",
                    "public-dns-name": "PublicDnsName",
                    "public-ip": "PublicIp",
                },
                prefix="association.",
            ),
            **under(
                "Attachment",
                {
                    "attach-time": "AttachTime",
                    "attachment-id": "AttachmentId",
                    "delete-on-termination": "DeleteOnTermination",
                    "device-index": "DeviceIndex",
                    "instance-id": Column("InstanceId", "device_id", names.INSTANCE),
                    "instance-owner-id": "InstanceOwnerId",
                    "status": "Status",
                },
                prefix="attachment.",
            ),
            "availability-zone": "AvailabilityZone",
            "description": Column("Description", "description"),
            "group-id": Column("Groups[].GroupId", "security_groups__pk", names.GROUP),
            "group-name": "Groups[].GroupName",
            "interface-type": "InterfaceType",
            "ipv6-addresses.ipv6-address": Column("Ipv6Addresses[].Ipv6Address", "fixed_ips__address"),
            "mac-address": Column("MacAddress", "mac_address"),
            "network-interface-id": Column("NetworkInterfaceId", "pk", names.INTERFACE),
            "owner-id": Column("OwnerId", "project_id"),
            "private-dns-name": "PrivateDnsName",
            "private-ip-address": Column("PrivateIpAddress", "fixed_ips__address"),
            "requester-managed": "RequesterManaged",
            "source-dest-check": "SourceDestCheck",
            "status": "Status",
            "subnet-id": Column("SubnetId", "fixed_ips__subnet_id", names.SUBNET),
            "vpc-id": Column("VpcId", "network_id", names.VPC),
        },
    )
)
owned.register(names.INTERFACE, lambda context: selectors.ports_for(context).exclude(OF_THE_CLOUD))
