"""Agents, availability zones and service providers (Networking API v2.0 reference), all read-only."""

import datetime
from dataclasses import dataclass

from portal.api.frame.resource import Operation
from portal.api.network.dialect.attributes import Attribute
from portal.api.network.dialect.kinds import BOOLEAN, ID, TEXT, Free, Moment, OrNone
from portal.api.network.dialect.resource import Resource
from provisioning.network.selectors import agents


@dataclass(frozen=True)
class AgentTime(Moment):
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
        Attribute(name="id", kind=ID, sort=True),
        Attribute(name="agent_type", kind=TEXT, sort=True),
        Attribute(name="binary", kind=TEXT, sort=True),
        Attribute(name="topic", kind=TEXT, sort=True),
        Attribute(name="host", kind=TEXT, sort=True),
        Attribute(name="availability_zone", kind=OrNone(TEXT), sort=True),
        Attribute(name="alive", kind=BOOLEAN, sort=True),
        Attribute(name="admin_state_up", kind=BOOLEAN, sort=True),
        Attribute(name="created_at", kind=TIME, filter=False, sort=True),
        Attribute(name="started_at", kind=OrNone(TIME), filter=False, show=lambda row: None),
        Attribute(name="heartbeat_timestamp", kind=OrNone(TIME), filter=False, sort=True),
        Attribute(name="description", kind=OrNone(TEXT), filter=False, show=lambda row: None),
        Attribute(name="configurations", kind=Free(), filter=False),
        Attribute(name="resources_synced", kind=OrNone(BOOLEAN), filter=False, show=lambda row: None),
    ),
)
AVAILABILITY_ZONE = Resource(
    name="availability_zone",
    path="availability_zones",
    list=Operation(agents.zones),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="name", kind=TEXT, sort=True),
        Attribute(name="resource", kind=TEXT, sort=True),
        Attribute(name="state", kind=TEXT, sort=True),
    ),
)
SERVICE_PROVIDER = Resource(
    name="service_provider",
    list=Operation(agents.providers),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="service_type", kind=TEXT, sort=True),
        Attribute(name="name", kind=TEXT, sort=True),
        Attribute(name="default", kind=BOOLEAN, sort=True),
    ),
)
