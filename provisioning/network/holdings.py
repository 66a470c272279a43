"""Usage of networking by projects and users, counted from the records, and the records without a limit."""

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
from provisioning.network.owners import CLOUD, OF_THE_CLOUD
from provisioning.quotas.counted import Counted
from provisioning.quotas.registry import Holding, InLedger


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield each network, subnet, group, rule and so on, and each port of its own with its addresses: those of a launch
    are the instance's, those of routers, DHCP and floating IPs the cloud's.

    RBAC policies of every project are written by operators, at most two for a record, and count for nobody.
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
"""Each with its project."""


def _addresses() -> QuerySet[FixedIP, tuple[uuid.UUID, uuid.UUID, int]]:
    """Return the ports of their own with the number of their addresses."""
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
    "network.Port_security_groups": "The groups of a port; both are limited.",
    "network.DefaultSecurityGroupRule": "Written by operators.",
    "network.PortForwarding": "The ports of a floating IP, which is limited.",
    "network.AutoAllocatedTopology": "One of a project; its network and router are limited.",
    "network.Vpc": "Deleted with its network, which is limited.",
    "network.GroupVpc": "Deleted with its security group, which is limited.",
    "network.InternetGateway": "Twenty of a project beside those at routers, which are limited.",
    "network.Tag": "At most fifty on a record that is limited itself.",
    "network.Delivery": "A document that a host got; of no project.",
    "network.DeliveryMark": "A document to be delivered; of no project.",
}
