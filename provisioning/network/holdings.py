"""What projects hold of networking, counted anew for the quotas, and what is not limited, with the reasons."""

import uuid
from collections.abc import Iterator

from django.db.models import Count

from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
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
        },
    )
    registry.leave_free(
        {
            "network.Port_security_groups": "Which groups a port is in: both are limited.",
        }
    )


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield each network, subnet, group and rule, and each port of its own with its addresses: those of a launch are
    the instance's.
    """
    for resource, rows, project in (
        ("networks", Network.objects.all(), "project_id"),
        ("subnets", Subnet.objects.all(), "project_id"),
        ("ports", Port.objects.filter(delete_with_device=False), "project_id"),
        ("security_groups", SecurityGroup.objects.all(), "project_id"),
        ("security_group_rules", SecurityGroupRule.objects.all(), "group__project_id"),
    ):
        chosen = rows if scope_id is None else rows.filter(**{project: scope_id})
        for scope, owner in chosen.values_list(project, "pk").iterator():
            yield Holding(scope, owner, resource)
    addresses = FixedIP.objects.filter(port__delete_with_device=False)
    if scope_id is not None:
        addresses = addresses.filter(port__project_id=scope_id)
    of_ports = addresses.values_list("port__project_id", "port_id").annotate(many=Count("pk")).order_by()
    for scope, owner, many in of_ports.iterator():
        yield Holding(scope, owner, "fixed_ips", many)
