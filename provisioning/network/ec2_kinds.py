"""Networking records that have EC2 ids."""

from provisioning.ec2.kinds import Kind
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

KINDS = (
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
WITH_VALUES = (InternetGateway,)
