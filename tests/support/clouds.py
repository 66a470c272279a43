"""A small cloud for tests of the line: flavors, an image, a network, and hosts played by scripts."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from django.db import connection
from django.db.models import UUIDField

from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.database.prepared import Prepared
from provisioning.compute.launch import create
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.identity.models import Domain, Project, User
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import Network
from provisioning.network.services.networks import networks, subnets
from tests.support.jobs import drain
from tests.support.kept import Again, Kept
from tests.support.scripted_agent import ScriptedAgent

GIB = 1 << 30
READER = frozenset({"reader"})
MEMBER = READER | {"member"}
ADMIN = MEMBER | {"admin"}
CAST = ("alice", "bob", "charlie", "operator")
_known: dict[uuid.UUID, RequestContext] = {}
"""Callers by their projects: ``stand`` makes the rows of no others."""


def context(name: str, roles: frozenset[str] = MEMBER, *, project: str | None = None) -> RequestContext:
    """A caller in a project of their own, with a request id of its own at each call."""
    caller = RequestContext(
        user_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.user"),
        user_name=name,
        project_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"{project or name}.project"),
        project_name=project or name,
        roles=roles,
    )
    _known[caller.project_id or uuid.UUID(int=0)] = caller
    return caller


def next_request(caller: RequestContext) -> RequestContext:
    """The same caller with another request id, as each request of a client has its own."""
    return replace(caller, request_id=new_request_id())


def stand(*project_ids: uuid.UUID | None) -> None:
    """Make the rows of projects, and of the users that ``context`` put there: nothing is made for who is not there."""
    domain, _ = Domain.objects.get_or_create(id="made-up", defaults={"name": "made-up"})
    requested = [project_id for project_id in project_ids if project_id is not None]
    projects = [Project(id=project_id, domain=domain, name=project_id.hex) for project_id in requested]
    Project.objects.bulk_create(projects, ignore_conflicts=True)
    callers = [_known[project_id] for project_id in requested if project_id in _known]
    users = [User(id=caller.user_id, domain=domain, name=str(caller.user_id)) for caller in callers if caller.user_id]
    User.objects.bulk_create(users, ignore_conflicts=True)


@dataclass
class Cloud:
    """What a launch needs, and the agents that carry it out."""

    network: Network
    image: Image
    small: Flavor
    big: Flavor
    agents: dict[str, ScriptedAgent] = field(default_factory=dict)

    @classmethod
    def make(cls) -> Cloud:
        """Make it: by the services for the first time, and with rows like those after that."""
        stand(*(context(name).project_id for name in CAST), *_known)
        kept, cloud = _kept.get(connection.vendor) or (Kept("network", "quotas", "images", "compute"), None)
        if not kept.fits:
            return cls._make()
        if cloud is None:
            cloud = kept.write(cls._make)
            _kept[connection.vendor] = kept, cloud._copied(Again())
            return cloud
        return cloud._copied(kept.again())

    def _copied(self, again: Again) -> Cloud:
        numbers = dict(Flavor.objects.values_list("flavorid", "id"))
        small, big = (again.record(each, id=numbers[each.flavorid]) for each in (self.small, self.big))
        return Cloud(again.record(self.network), again.record(self.image), small, big)

    @classmethod
    def _make(cls) -> Cloud:
        operator = context("operator", ADMIN)
        with mock.patch.object(networks, "announce"), mock.patch.object(subnets, "announce"):  # nobody looks yet
            shared = network.create_network(operator.project_id or uuid.uuid4(), "net", shared=True)
            network.create_subnet(shared, "10.20.0.0/24")
        image = Image.objects.create(
            project_id=operator.project_id or uuid.uuid4(),
            name="small",
            status="active",
            visibility="public",
            disk_format="qcow2",
            container_format="bare",
            size=20 << 20,
            virtual_size=GIB,
            min_disk=1,
            min_ram=64,
            os_hash_algo="sha512",
            os_hash_value="ab" * 64,
        )
        small = create_flavor(operator, FlavorRequest("m1.small", 1, 1024, 2, flavorid="1"))
        big = create_flavor(operator, FlavorRequest("m1.big", 4, 4096, 20, flavorid="2"))
        return cls(shared, image, small, big)

    def add_host(self, name: str, **capacity: Any) -> ScriptedAgent:
        self.agents[name] = ScriptedAgent.join(name, **capacity)
        return self.agents[name]

    def request(self, **changes: Any) -> LaunchRequest:
        values: dict[str, Any] = {"name": "web", "image_id": str(self.image.id), "flavor_ref": "1", **changes}
        return LaunchRequest(**values)

    def launch(self, caller: RequestContext, **changes: Any) -> Instance:
        if caller.project_id in _known and not _PROJECT(key=caller.project_id):
            stand(caller.project_id)
        return create.launch(caller, self.request(**changes))[0]

    def running(self, caller: RequestContext, **changes: Any) -> Instance:
        """Launch a server and let the cloud come to rest; as it is recorded then, with its host."""
        instance = self.launch(caller, **changes)
        self.run()
        assert state_of(instance) == ("active", None)
        return self.fresh(instance)

    def run(self) -> None:
        """Let jobs and agents work until neither has anything to do."""
        for _ in range(50):
            worked = drain()
            for agent in self.agents.values():
                worked += agent.work()
            if not worked:
                return
        raise AssertionError("the cloud does not come to rest")

    def agent_of(self, instance: Instance) -> ScriptedAgent:
        """The agent of the host the instance is on."""
        fresh = self.fresh(instance)
        assert fresh.host is not None
        return self.agents[fresh.host.name]

    @staticmethod
    def fresh(instance: Instance) -> Instance:
        (row,) = _WITH_HOST(key=instance.id)
        return row


_WITH_HOST = Prepared(lambda key: Instance.objects.select_related("host").filter(id=key), key=UUIDField())
_STATES = Prepared(lambda key: Instance.objects.filter(id=key).values_list("vm_state", "task_state"), key=UUIDField())
_PROJECT = Prepared(lambda key: Project.objects.filter(id=key).values_list("id"), key=UUIDField())


def state_of(instance: Instance) -> tuple[str, str | None]:
    """Both states as they are in the records now."""
    ((vm_state, task_state),) = _STATES(key=instance.id)
    return str(vm_state), str(task_state) if task_state else None


def base64_of(size: int) -> str:
    """User data that decodes to ``size`` bytes."""
    return base64.b64encode(b"#" * size).decode()


_kept: dict[str, tuple[Kept, Cloud]] = {}
"""The cloud whose rows come again, by database."""
