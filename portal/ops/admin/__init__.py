"""The admin's pages, one module for each part of the cloud; Django finds them here."""

from portal.ops.admin import (
    aggregates,
    decisions,
    deliveries,
    doctor,
    hosts,
    identity,
    images,
    instances,
    networks,
    notifications,
    periodic,
    quotas,
    reports,
    routers,
    security_groups,
    sizes,
)

__all__ = [
    "aggregates",
    "decisions",
    "deliveries",
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
]
