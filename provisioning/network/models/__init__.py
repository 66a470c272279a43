"""Records of networking, with Neutron's fields."""

from provisioning.network.models.delivery import Delivery, DeliveryMark
from provisioning.network.models.networks import AddressScope, Network, Subnet, SubnetPool
from provisioning.network.models.ports import FixedIP, Port
from provisioning.network.models.routers import FloatingIP, PortForwarding, Router
from provisioning.network.models.security_groups import (
    AddressGroup,
    DefaultSecurityGroupRule,
    SecurityGroup,
    SecurityGroupRule,
)
from provisioning.network.models.sharing import RbacPolicy, Tag
from provisioning.network.models.topologies import AutoAllocatedTopology
from provisioning.network.models.vpcs import GroupVpc, InternetGateway, Vpc

__all__ = [
    "AddressGroup",
    "AddressScope",
    "AutoAllocatedTopology",
    "DefaultSecurityGroupRule",
    "Delivery",
    "DeliveryMark",
    "FixedIP",
    "FloatingIP",
    "GroupVpc",
    "InternetGateway",
    "Network",
    "Port",
    "PortForwarding",
    "RbacPolicy",
    "Router",
    "SecurityGroup",
    "SecurityGroupRule",
    "Subnet",
    "SubnetPool",
    "Tag",
    "Vpc",
]
