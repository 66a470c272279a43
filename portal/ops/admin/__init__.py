"""The admin's pages, one module for each part of the cloud; Django finds them here."""

from portal.ops.admin import (
    aggregates,
    hosts,
    identity,
    images,
    instances,
    networks,
    notifications,
    periodic,
    quotas,
    sizes,
)

__all__ = [
    "aggregates",
    "hosts",
    "identity",
    "images",
    "instances",
    "networks",
    "notifications",
    "periodic",
    "quotas",
    "sizes",
]
