"""Network IP availability (Networking API v2.0 reference, "Network IP availability and usage stats")."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from portal.api.frame.lists import Column, number
from portal.api.frame.resource import Operation
from portal.api.network.dialect.attributes import Attribute
from portal.api.network.dialect.kinds import ID, PROJECT_ID, TEXT, Free, Integer, Many
from portal.api.network.dialect.resource import Resource
from provisioning.common.lists.listing import Part
from provisioning.network.selectors import availability
from provisioning.network.selectors.availability import Availability

VERSION = "ip_version"


@dataclass(frozen=True)
class Amount(Integer):
    """A number of addresses; for IPv6 it exceeds the integer range of the JSON library."""

    def write(self, value: int) -> Any:
        return orjson.Fragment(str(value))


MANY = Amount(0, 2**128)


def _of_versions(rows: Sequence[Availability], part: Part) -> tuple[list[Availability], Part]:
    """Keep only the subnets of the requested IP versions, and omit networks without such a subnet."""
    versions = [value for name, values in part.filters if name == f"{VERSION}__in" for value in values]
    if not versions:
        return list(rows), part
    kept = [replace(row, subnets=[each for each in row.subnets if each.subnet.ip_version in versions]) for row in rows]
    others = [(name, values) for name, values in part.filters if name != f"{VERSION}__in"]
    return [row for row in kept if row.subnets], replace(part, filters=others)


def _subnets(row: Availability) -> list[dict[str, Any]]:
    return [
        {
            "subnet_id": str(each.subnet.id),
            "subnet_name": each.subnet.name,
            "cidr": each.subnet.cidr,
            "ip_version": each.subnet.ip_version,
            "total_ips": MANY.write(each.total),
            "used_ips": each.used,
        }
        for each in row.subnets
    ]


NETWORK_IP_AVAILABILITY = Resource(
    name="network_ip_availability",
    plural="network_ip_availabilities",
    list=Operation(availability.availabilities),
    show=Operation(availability.availability),
    narrow=_of_versions,
    target=lambda row: {},
    tagged=False,
    filters={VERSION: Column(VERSION, number)},
    attributes=(
        Attribute(name="network_id", kind=ID, column="network__id", sort=True),
        Attribute(name="network_name", kind=TEXT, column="network__name", sort=True),
        Attribute(name="project_id", kind=PROJECT_ID, column="network__project_id", sort=True),
        Attribute(name="tenant_id", kind=PROJECT_ID, column="network__project_id", sort=True),
        Attribute(name="total_ips", kind=MANY, column="total", filter=False, sort=True),
        Attribute(name="used_ips", kind=MANY, column="used", filter=False, sort=True),
        Attribute(name="subnet_ip_availability", kind=Many(Free()), filter=False, show=_subnets),
    ),
)
