"""Which records of networking EC2 knows by ids of its own."""

from provisioning.ec2 import given, kinds
from provisioning.network.models import (
    AddressGroup,
    FloatingIP,
    InternetGateway,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)


def register() -> None:
    """Let ids and tags of EC2 go with the records that they belong to."""
    kinds.register("vpc", "vpc", Network)
    kinds.register("acl", "network-acl", Network)
    kinds.register("subnet", "subnet", Subnet)
    kinds.register("rtb", "route-table", Router)
    kinds.register("rtbassoc", "", Subnet, Network)
    kinds.register("igw", "internet-gateway", InternetGateway, Router)
    kinds.register("eni", "network-interface", Port)
    kinds.register("eni-attach", "", Port)
    kinds.register("sg", "security-group", SecurityGroup)
    kinds.register("sgr", "security-group-rule", SecurityGroupRule)
    kinds.register("pl", "prefix-list", AddressGroup)
    kinds.register("eipalloc", "elastic-ip", FloatingIP)
    kinds.register("eipassoc", "", FloatingIP)
    given.register(InternetGateway)
