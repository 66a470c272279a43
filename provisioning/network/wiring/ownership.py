"""Networking resources that projects own, and those with EC2 ids."""

from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Ids, Owned
from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    FloatingIP,
    InternetGateway,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from provisioning.network.records.owners import OF_THE_CLOUD
from provisioning.network.services.base import sharing

DEFAULT = "default"
"""The security group that every project has; it is deleted with the project."""


def _subnets(project_ids: Ids) -> int:
    """Count the projects' subnets in other projects' networks; all other subnets are deleted with their network."""
    return Subnet.objects.filter(project_id__in=project_ids).exclude(network__project_id__in=project_ids).count()


def _ports(project_ids: Ids) -> int:
    """Count ports except the cloud's own ports, which are deleted with their network."""
    return Port.objects.filter(project_id__in=project_ids).exclude(OF_THE_CLOUD).count()


def _groups(project_ids: Ids) -> int:
    return SecurityGroup.objects.filter(project_id__in=project_ids).exclude(name=DEFAULT).count()


def _policies(project_ids: Ids) -> int:
    """Count RBAC policies except those of default groups, which are deleted with the group."""
    groups = SecurityGroup.objects.filter(project_id__in=project_ids, name=DEFAULT).values("pk")
    return RbacPolicy.objects.filter(project_id__in=project_ids).exclude(object_id__in=groups).count()


def _remove_default_groups(project_ids: Ids) -> None:
    groups = SecurityGroup.objects.filter(project_id__in=project_ids, name=DEFAULT)
    sharing.end(RbacPolicy.objects.filter(object_id__in=groups.values("pk")))
    groups.delete()


def _remove_gateways(project_ids: Ids) -> None:
    InternetGateway.objects.filter(project_id__in=project_ids).delete()


EC2_KINDS = (
    Kind("vpc", "vpc", Network),
    Kind("acl", "network-acl", Network),
    Kind("subnet", "subnet", Subnet),
    Kind("rtb", "route-table", Router),
    Kind("rtbassoc", "", Subnet, (Network,)),
    Kind("igw", "internet-gateway", InternetGateway, (Router,)),
    Kind("eni", "network-interface", Port),
    Kind("eni-attach", "", Port),
    Kind("sg", "security-group", SecurityGroup),
    Kind("sgr", "security-group-rule", SecurityGroupRule),
    Kind("pl", "prefix-list", AddressGroup),
    Kind("eipalloc", "elastic-ip", FloatingIP),
    Kind("eipassoc", "", FloatingIP),
)
WITH_EC2_VALUES = (InternetGateway,)
OF_PROJECTS = (
    Owned("networks", count=lambda ids: Network.objects.filter(project_id__in=ids).count()),
    Owned("subnets", count=_subnets),
    Owned("ports", count=_ports),
    Owned("routers", count=lambda ids: Router.objects.filter(project_id__in=ids).count()),
    Owned("floating IPs", count=lambda ids: FloatingIP.objects.filter(project_id__in=ids).count()),
    Owned("subnet pools", count=lambda ids: SubnetPool.objects.filter(project_id__in=ids).count()),
    Owned("address scopes", count=lambda ids: AddressScope.objects.filter(project_id__in=ids).count()),
    Owned("address groups", count=lambda ids: AddressGroup.objects.filter(project_id__in=ids).count()),
    Owned("RBAC policies", count=_policies),
    Owned("security groups", count=_groups, remove=_remove_default_groups),
    Owned("internet gateways", remove=_remove_gateways),
)
UNPURGED = {
    **dict.fromkeys(
        (
            *("network.Network", "network.Subnet", "network.SecurityGroup", "network.SecurityGroupRule"),
            *("network.Port", "network.Port_security_groups", "network.FixedIP", "network.Router"),
            *("network.FloatingIP", "network.SubnetPool", "network.AddressScope", "network.AddressGroup"),
            "network.RbacPolicy",
        ),
        "Bounded by a quota; stored until it is deleted.",
    ),
    **dict.fromkeys(("network.PortForwarding", "network.Tag"), "Stored until its owner deletes it."),
    "network.AutoAllocatedTopology": "One for each project; deleted with its network or router.",
    "network.DefaultSecurityGroupRule": "Written by operators; stored until they delete it.",
    "network.Delivery": "One for each host and document sent to it; deleted with the host or the subject.",
    "network.Vpc": "Deleted with its network.",
    "network.GroupVpc": "Deleted with its security group, or with the network.",
    "network.InternetGateway": "Deleted with its router or its project.",
    "network.DeliveryMark": "Deleted when a job delivers it.",
}
