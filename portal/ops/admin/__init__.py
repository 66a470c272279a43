"""Pages of Django's admin, one module for each part of the cloud."""

from portal.ops.admin import identity, images, quotas, volumes
from portal.ops.admin.compute import aggregates, decisions, hosts, instances, sizes
from portal.ops.admin.network import networks, routers, security_groups
from portal.ops.admin.upkeep import deliveries, differences, doctor, notifications, periodic, reports

__all__ = [
    "aggregates",
    "decisions",
    "deliveries",
    "differences",
    "doctor",
    "hosts",
    "identity",
    "images",
    "instances",
    "networks",
    "notifications",
    "periodic",
    "quotas",
    "reports",
    "routers",
    "security_groups",
    "sizes",
    "volumes",
]
