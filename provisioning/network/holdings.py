"""What projects hold of networking, counted anew for the quotas, and what is not limited, with the reasons."""

import uuid
from collections.abc import Iterator

from django.db.models import Count

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
from provisioning.quotas import registry
from provisioning.quotas.registry import Holding


def register() -> None:
    """Declare every record of networking that belongs to somebody."""
    registry.count(
        "network",
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
    registry.leave_free(
        {
            "network.Port_security_groups": "Which groups a port is in: both are limited.",
            "network.DefaultSecurityGroupRule": "Written by operators.",
            "network.PortForwarding": "The ports of a floating IP, which is limited.",
            "network.AutoAllocatedTopology": "One of a project, and names what is limited itself.",
            "network.Vpc": "Goes with its network, which is limited.",
            "network.GroupVpc": "Goes with its security group, which is limited.",
            "network.InternetGateway": "Twenty of a project beside those at routers, which are limited.",
            "network.Tag": "At most fifty on a record that is limited itself.",
            "network.Delivery": "What hosts were told; no project's.",
            "network.DeliveryMark": "What hosts are to be told; no project's.",
        }
    )


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield each network, subnet, group, rule and so on, and each port of its own with its addresses: those of a launch
    are the instance's, those of routers, DHCP and floating IPs the cloud's.

    RBAC policies of every project are written by operators, at most two for a record, and count for nobody.
    """
    for resource, rows, project in (
        ("networks", Network.objects.all(), "project_id"),
        ("subnets", Subnet.objects.all(), "project_id"),
        ("ports", Port.objects.filter(delete_with_device=False).exclude(OF_THE_CLOUD), "project_id"),
        ("security_groups", SecurityGroup.objects.all(), "project_id"),
        ("routers", Router.objects.all(), "project_id"),
        ("floatingips", FloatingIP.objects.all(), "project_id"),
        ("security_group_rules", SecurityGroupRule.objects.all(), "group__project_id"),
        ("subnetpools", SubnetPool.objects.all(), "project_id"),
        ("address_scopes", AddressScope.objects.all(), "project_id"),
        ("address_groups", AddressGroup.objects.all(), "project_id"),
        ("rbac_policies", RbacPolicy.objects.exclude(target_project=RbacPolicy.EVERYBODY), "project_id"),
    ):
        chosen = rows if scope_id is None else rows.filter(**{project: scope_id})
        for scope, owner in chosen.values_list(project, "pk").iterator():
            yield Holding(scope, owner, resource)
    addresses = FixedIP.objects.filter(port__delete_with_device=False)
    addresses = addresses.exclude(port__device_owner__startswith=CLOUD)
    if scope_id is not None:
        addresses = addresses.filter(port__project_id=scope_id)
    of_ports = addresses.values_list("port__project_id", "port_id").annotate(many=Count("pk")).order_by()
    for scope, owner, many in of_ports.iterator():
        yield Holding(scope, owner, "fixed_ips", many)
