"""Agents, availability zones, service providers, IP availability and auto allocated topologies (Networking API v2.0
reference).
"""

import datetime
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from rest_framework.request import Request

from portal.api.frame import Filter, Json, Operation, number
from portal.api.network.dialect import Attribute, Resource, kinds, query, views
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Part
from provisioning.common.values.ids import read_id
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.network import services
from provisioning.network.selectors import agents
from provisioning.network.selectors.agents import Availability


@dataclass(frozen=True)
class AgentTime(kinds.Moment):
    """A time in the format of agents: UTC, with a space as separator."""

    def write(self, value: datetime.datetime | None) -> str | None:
        return None if value is None else value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


TIME = AgentTime()

AGENT = Resource(
    name="agent",
    list=Operation(agents.agents),
    show=Operation(agents.agent),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="id", kind=kinds.ID, sort=True),
        Attribute(name="agent_type", kind=kinds.TEXT, sort=True),
        Attribute(name="binary", kind=kinds.TEXT, sort=True),
        Attribute(name="topic", kind=kinds.TEXT, sort=True),
        Attribute(name="host", kind=kinds.TEXT, sort=True),
        Attribute(name="availability_zone", kind=kinds.OrNone(kinds.TEXT), sort=True),
        Attribute(name="alive", kind=kinds.BOOLEAN, sort=True),
        Attribute(name="admin_state_up", kind=kinds.BOOLEAN, sort=True),
        Attribute(name="created_at", kind=TIME, filter=False, sort=True),
        Attribute(name="started_at", kind=kinds.OrNone(TIME), filter=False, show=lambda row: None),
        Attribute(name="heartbeat_timestamp", kind=kinds.OrNone(TIME), filter=False, sort=True),
        Attribute(name="description", kind=kinds.OrNone(kinds.TEXT), filter=False, show=lambda row: None),
        Attribute(name="configurations", kind=kinds.Free(), filter=False),
        Attribute(name="resources_synced", kind=kinds.OrNone(kinds.BOOLEAN), filter=False, show=lambda row: None),
    ),
)
AVAILABILITY_ZONE = Resource(
    name="availability_zone",
    path="availability_zones",
    list=Operation(agents.zones),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="name", kind=kinds.TEXT, sort=True),
        Attribute(name="resource", kind=kinds.TEXT, sort=True),
        Attribute(name="state", kind=kinds.TEXT, sort=True),
    ),
)
SERVICE_PROVIDER = Resource(
    name="service_provider",
    list=Operation(agents.providers),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="service_type", kind=kinds.TEXT, sort=True),
        Attribute(name="name", kind=kinds.TEXT, sort=True),
        Attribute(name="default", kind=kinds.BOOLEAN, sort=True),
    ),
)


VERSION = "ip_version"


@dataclass(frozen=True)
class Amount(kinds.Integer):
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


def _subnets(row: Availability) -> list[Json]:
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
    list=Operation(agents.availabilities),
    show=Operation(agents.availability),
    narrow=_of_versions,
    target=lambda row: {},
    tagged=False,
    filters=(Filter(VERSION, read=number),),
    attributes=(
        Attribute(name="network_id", kind=kinds.ID, column="network__id", sort=True),
        Attribute(name="network_name", kind=kinds.TEXT, column="network__name", sort=True),
        Attribute(name="project_id", kind=kinds.PROJECT_ID, column="network__project_id", sort=True),
        Attribute(name="tenant_id", kind=kinds.PROJECT_ID, column="network__project_id", sort=True),
        Attribute(name="total_ips", kind=MANY, column="total", filter=False, sort=True),
        Attribute(name="used_ips", kind=MANY, column="used", filter=False, sort=True),
        Attribute(name="subnet_ip_availability", kind=kinds.Many(kinds.Free()), filter=False, show=_subnets),
    ),
)


DRY_RUN = "dry-run"
OWN = {"none", "null"}
"""Neutron's names for the caller's own project."""


class AutoAllocatedTopologyView(views.NetworkView):
    """The auto-allocated topology of a project."""

    rules = {"GET": "get_auto_allocated_topology", "DELETE": "delete_auto_allocated_topology"}
    queries = {
        "GET": {
            "type": "object",
            "properties": {"fields": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        }
    }

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self._requested_project()}

    def get(self, request: Request, project_id: str) -> Json:
        """Return the id of the network of the auto-allocated topology. If it is missing, the network and its router are
        created.

        ``fields=dry-run`` only checks whether the topology could be created.
        """
        self.checked_query()
        project, fields = self._project(), query.fields_of(request)
        if DRY_RUN in fields:
            services.check_topology()
            identity = "dry-run=pass"
        else:
            identity = str(services.allocate_topology(project).network_id)
        shape = {"id": identity, "tenant_id": project.hex, "project_id": project.hex}
        requested = fields - {DRY_RUN}
        return {"auto_allocated_topology": {name: shape[name] for name in shape if not requested or name in requested}}

    def delete(self, request: Request, project_id: str) -> None:
        """Delete network and router, unless the network is in use; a missing topology is ignored."""
        services.delete_topology(self._project())

    def _requested_project(self) -> uuid.UUID | None:
        """Return the id in the path; None for an invalid one."""
        text = str(self.kwargs["project_id"])
        return self.context.project_id if text.lower() in OWN else read_id(text)

    def _project(self) -> uuid.UUID:
        """Return the id of an existing project.

        Raises NotFoundError, and InvalidInputError for a caller without a project.
        """
        project = self._requested_project()
        if project is None and self.kwargs["project_id"].lower() in OWN:
            raise InvalidInputError("A topology belongs to a project: specify the project's id.", field="project_id")
        if project is None or (project != self.context.project_id and not projects_by_id([project])):
            raise NotFoundError(f"Project {self.kwargs['project_id'][:64]} could not be found.")
        return project
