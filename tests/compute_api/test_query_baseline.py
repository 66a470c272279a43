"""Lists cost a number of queries that their size does not change: ``query_baseline.txt`` holds it, at 1 item and at 50.

Every address of the Compute API that takes nothing but the ids below is asked, so a new list is here by itself.  When
a change is meant, write the file anew with ``WRITE_QUERY_BASELINE=1`` and look at the difference.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.compute.models import (
    Aggregate,
    AggregateHost,
    Flavor,
    FlavorAccess,
    InstanceAction,
    InstanceActionEvent,
    InstanceFault,
    KeyPair,
    Migration,
    SchedulingDecision,
    ServerGroup,
)
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, Subnet
from tests.compute_api.conftest import EPOCH, FLAVOR, put_server
from tests.security.routes import served
from tests.support.cast import Api, People, Person
from tests.support.ports import guest_addresses

pytestmark = pytest.mark.django_db

BASELINE = Path(__file__).with_name("query_baseline.txt")
SIZES = (1, 50)
VERSIONS = ("2.1", "2.96")
QUERIES = (
    "/compute/v2.1/servers/detail?all_tenants=1&status=ACTIVE&status=ERROR&name=s&ip=10&sort_key=host&sort_key=image_ref",
    "/compute/v2.1/servers/detail?tags=red&not-tags=blue&changes-since=2020-01-01T00:00:00Z",
)
"""Lists with all that makes them look further."""


@dataclass
class World:
    """Records that grow together, all of one operator."""

    owner: Person
    ids: dict[str, str] = field(default_factory=dict)
    """What stands in addresses: the first of each kind."""
    size: int = 0

    def grow(self, size: int) -> None:
        """Write records until there are ``size`` of each kind."""
        for number in range(self.size, size):
            self._add(number)
        self.size = size

    def _add(self, number: int) -> None:
        project, user, now = self.owner.project_id, self.owner.user_id, timezone.now()
        host = Host.objects.create(
            name=f"h{number}", hypervisor_hostname=f"h{number}", connected=True, last_seen_at=now
        )
        zone = Aggregate.objects.create(name=f"a{number}", metadata={"a": "b"})
        flavor = Flavor.objects.create(
            flavorid=f"f{number}", name=f"f{number}", vcpus=1, memory_mb=1, root_gb=1, is_public=False
        )
        group = ServerGroup.objects.create(project_id=project, user_id=user, name="g", policy="affinity")
        KeyPair.objects.create(user_id=user, name=f"k{number}", public_key="ssh-ed25519 A", fingerprint="a")
        Image.objects.create(project_id=project, name=f"i{number}", status="active", visibility="private", size=1)
        server = put_server(
            self.owner,
            f"s{number}",
            age=number,
            host=host,
            server_group=group,
            tags=["red"],
            vm_state="error",
            flavor=FLAVOR | {"flavorid": flavor.flavorid},
        )
        InstanceFault.objects.create(instance=server, message="No valid host.")
        Migration.objects.create(
            instance=server,
            migration_type="resize",
            status="finished",
            old_flavor=FLAVOR,
            new_flavor=FLAVOR,
            project_id=project,
            user_id=user,
            created_at=now,
            updated_at=now,
        )
        network = Network.objects.create(project_id=project, name=f"n{number}", bridge=f"br{number}")
        subnet = Subnet.objects.create(project_id=project, network=network, cidr="10.0.0.0/24", ip_version=4)
        security = SecurityGroup.objects.create(project_id=project, name=f"sg{number}")
        if not self.ids:
            self.ids = {
                "server": str(server.id), "flavor": flavor.flavorid, "server_group": str(group.id),
                "aggregate": str(zone.id), "hypervisor": str(host.id), "pattern": "h", "project": project.hex,
                "host_name": host.name, "request": "req-0",
            }  # fmt: skip
        first = uuid.UUID(self.ids["server"])
        for device in {server.id, first}:  # the first server has an interface, an action and a step for each
            port = Port.objects.create(
                project_id=project,
                network=network,
                device_id=device,
                device_index=number,
                mac_address=uuid.uuid4().hex[:17],
            )
            port.security_groups.add(security)
            FixedIP.objects.create(
                port=port, subnet=subnet, address=f"10.0.0.{number}", number=guest_addresses().count()
            )
        action = InstanceAction.objects.create(
            instance_id=first, action=f"do{number}", request_id=f"req-{number}", started_at=EPOCH, project_id=project
        )
        SchedulingDecision.objects.create(instance_id=first, attempt=number, filters=[], seconds=0.001)
        newest = InstanceAction.objects.get(request_id="req-0") if number else action
        InstanceActionEvent.objects.create(action=newest, name=f"e{number}", started_at=EPOCH, host="h")
        type(server).objects.filter(id=server.id).update(server_group_id=self.ids["server_group"])
        FlavorAccess.objects.create(flavor=Flavor.objects.get(flavorid=self.ids["flavor"]), project_id=uuid.uuid4())
        AggregateHost.objects.create(aggregate_id=int(self.ids["aggregate"]), host=host)
        if number:
            AggregateHost.objects.create(aggregate=zone, host=host)


def paths(ids: dict[str, str]) -> Iterator[str]:
    """Every address that the ids fill."""
    for method, route in served():
        if method != "GET" or not route.startswith("/compute/v2.1/"):
            continue
        if set(re.findall(r"<(\w+)>", route)) <= ids.keys():
            yield route
    yield from QUERIES


def status_of(api: Api, path: str, version: str, ids: dict[str, str]) -> int:
    """Ask for a path with these ids; return the status."""
    filled = re.sub(r"<(\w+)>", lambda name: ids[name[1]], path)
    status: int = api.get(filled, OpenStack_API_Version=f"compute {version}").status_code
    return status


def counted(api: Api, world: World, answering: list[tuple[str, str]]) -> dict[str, int]:
    """Return queries by microversion and address."""
    result = {}
    for path, version in answering:
        with CaptureQueriesContext(connection) as queries:
            assert status_of(api, path, version, world.ids) == 200
        result[f"{version:<5} {path}"] = len(queries)
    return result


@pytest.mark.slow
def test_lists_cost_what_the_baseline_says(people: People) -> None:
    world, api = World(people.operator), Api(people.operator)
    world.grow(SIZES[0])
    answering = [
        (path, version)
        for path in paths(world.ids)
        for version in VERSIONS
        if status_of(api, path, version, world.ids) == 200
    ]
    one = counted(api, world, answering)
    world.grow(SIZES[1])
    fifty = counted(api, world, answering)
    grown = {name: (one[name], fifty[name]) for name in one if fifty[name] > one[name]}
    lines = [f"{name:<130} {one[name]:>3} {fifty[name]:>3}" for name in sorted(one)]
    if os.environ.get("WRITE_QUERY_BASELINE"):
        BASELINE.write_text("\n".join(lines) + "\n")
    held = BASELINE.read_text().splitlines()
    assert not grown, "these lists ask the database more often the longer they are"
    different = sorted(set(lines) ^ set(held))
    assert not different, "if it is meant: WRITE_QUERY_BASELINE=1"
