"""Quota usage of networking by project, counted from the records, and the records that need no limit."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import Count, QuerySet

from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    FixedIP,
    FloatingIP,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from provisioning.network.records.owners import CLOUD, OF_THE_CLOUD
from provisioning.quotas.registry import Counted, Holding, InLedger


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield the usage of networks, subnets, groups, rules and so on, and of standalone ports with their addresses.

    Ports that a launch created count for the instance. Ports of routers, DHCP and floating IPs count for no project.
    RBAC policies for all projects do not count either, because operators write them, at most two for each record.
    """
    for resource, rows in _ROWS.items():
        for scope, owner in rows(scope_id):
            yield Holding(scope, owner, resource)
    for scope, owner, many in _ADDRESSES(scope_id):
        yield Holding(scope, owner, "fixed_ips", many)


def _counted(rows: Callable[[], QuerySet[Any]], project: str = "project_id") -> Counted[tuple[uuid.UUID, uuid.UUID]]:
    return Counted(lambda: rows().values_list(project, "pk"), project)


_ROWS = {
    "networks": _counted(Network.objects.all),
    "subnets": _counted(Subnet.objects.all),
    "ports": _counted(lambda: Port.objects.filter(delete_with_device=False).exclude(OF_THE_CLOUD)),
    "security_groups": _counted(SecurityGroup.objects.all),
    "routers": _counted(Router.objects.all),
    "floatingips": _counted(FloatingIP.objects.all),
    "security_group_rules": _counted(SecurityGroupRule.objects.all, "group__project_id"),
    "subnetpools": _counted(SubnetPool.objects.all),
    "address_scopes": _counted(AddressScope.objects.all),
    "address_groups": _counted(AddressGroup.objects.all),
    "rbac_policies": _counted(lambda: RbacPolicy.objects.exclude(target_project=RbacPolicy.EVERYBODY)),
}
"""Each resource's rows with their project."""


def _addresses() -> QuerySet[FixedIP, tuple[uuid.UUID, uuid.UUID, int]]:
    """Return the standalone ports with the number of their addresses."""
    rows = FixedIP.objects.filter(port__delete_with_device=False).exclude(port__device_owner__startswith=CLOUD)
    return rows.values_list("port__project_id", "port_id").annotate(many=Count("pk")).order_by()


_ADDRESSES = Counted(_addresses, "port__project_id")


LIMITED = InLedger(
    holdings,
    {
        "network.Network": ("networks",),
        "network.Subnet": ("subnets",),
        "network.Port": ("ports",),
        "network.FixedIP": ("fixed_ips",),
        "network.SecurityGroup": ("security_groups",),
        "network.SecurityGroupRule": ("security_group_rules",),
        "network.Router": ("routers",),
        "network.FloatingIP": ("floatingips",),
        "network.SubnetPool": ("subnetpools",),
        "network.AddressScope": ("address_scopes",),
        "network.AddressGroup": ("address_groups",),
        "network.RbacPolicy": ("rbac_policies",),
    },
)
UNLIMITED = {
    "network.Port_security_groups": "The groups of a port; groups and ports are limited.",
    "network.DefaultSecurityGroupRule": "Written by operators.",
    "network.PortForwarding": "The ports of a floating IP, which is limited.",
    "network.AutoAllocatedTopology": "One for each project; its network and router are limited.",
    "network.Vpc": "Deleted with its network, which is limited.",
    "network.GroupVpc": "Deleted with its security group, which is limited.",
    "network.InternetGateway": "At most twenty detached ones in a project; others have a router, which is limited.",
    "network.Tag": "At most fifty on a record that is limited itself.",
    "network.Delivery": "A document that was sent to a host; belongs to no project.",
    "network.DeliveryMark": "A document to be sent; belongs to no project.",
}
