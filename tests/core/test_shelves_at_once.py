"""Images and shelves, many at once: one order each, one guest each, and nothing that was taken is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from compute_agent.contract.commands import SnapshotRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.images.models import Image
from tests.core.test_parallel import in_threads
from tests.support.clouds import Cloud, next_request, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def _at_once(settings: Any) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0


def launched(cloud: Cloud, caller: RequestContext, count: int = 1) -> list[Instance]:
    made = [cloud.launch(next_request(caller)) for _ in range(count)]
    cloud.run()
    return made


def on_the_shelf(cloud: Cloud, caller: RequestContext, count: int = 1) -> list[Instance]:
    made = launched(cloud, caller, count)
    for server in made:
        Shelve.begin(next_request(caller), server.id)
    cloud.run()
    assert {state_of(server) for server in made} == {("shelved_offloaded", None)}
    return made


def test_one_of_many_images_at_the_same_moment_is_made(shared_cloud: Cloud, alice: RequestContext) -> None:
    shared_cloud.add_host("h1")
    (server,) = launched(shared_cloud, alice)

    def work(index: int) -> object:
        if index % 2:
            return create_image(next_request(alice), server.id, f"copy-{index}")
        return Shelve.begin(next_request(alice), server.id)

    results = in_threads(8, work)
    assert Counter(isinstance(result, InstanceBusyError) for result in results) == {True: 7, False: 1}
    assert Image.objects.exclude(id=shared_cloud.image.id).count() == 1
    shared_cloud.run()
    assert state_of(server)[1] is None


def test_many_runs_of_one_job_claim_one_place(shared_cloud: Cloud, alice: RequestContext) -> None:
    for name in ("h1", "h2", "h3"):
        shared_cloud.add_host(name)
    (server,) = on_the_shelf(shared_cloud, alice)
    unshelve(next_request(alice), server.id)
    attempt = shared_cloud.fresh(server).attempt
    in_threads(4, lambda _: schedule(str(server.id), attempt))
    assert Allocation.objects.filter(instance=server).count() == 1
    assert sum(Host.objects.values_list("instances_allocated", flat=True)) == 1
    drain()
    shared_cloud.run()
    assert state_of(server) == ("active", None)
    assert sum(len(agent.guests) for agent in shared_cloud.agents.values()) == 1


def test_the_last_place_goes_to_one_of_those_that_come_back(shared_cloud: Cloud, alice: RequestContext) -> None:
    host = shared_cloud.add_host("h1", vcpus=4)
    servers = on_the_shelf(shared_cloud, alice, 3)
    Host.objects.filter(id=host.host.id).update(vcpus_total=1)
    in_threads(3, lambda index: unshelve(next_request(alice), servers[index].id))
    attempts = {server.id: shared_cloud.fresh(server).attempt for server in servers}
    in_threads(3, lambda index: schedule(str(servers[index].id), attempts[servers[index].id]))
    shared_cloud.run()
    states = Counter(state_of(server) for server in servers)
    assert states == {("active", None): 1, ("shelved_offloaded", None): 2}


@pytest.mark.parametrize("first", ["image", "shelf", "back"])
def test_a_delete_at_the_same_moment_leaves_nothing(shared_cloud: Cloud, alice: RequestContext, first: str) -> None:
    host = shared_cloud.add_host("h1")
    (server,) = on_the_shelf(shared_cloud, alice) if first == "back" else launched(shared_cloud, alice)

    def begin() -> object:
        if first == "image":
            return create_image(next_request(alice), server.id, "copy")
        return (Shelve.begin if first == "shelf" else unshelve)(next_request(alice), server.id)

    def work(index: int) -> object:
        return begin() if index % 2 else delete(next_request(alice), server.id)

    results = in_threads(4, work)
    assert all(not isinstance(result, Exception) or isinstance(result, NovellaError) for result in results), results
    shared_cloud.run()
    assert state_of(server) == ("deleted", None)
    assert host.guests == {}
    left = Image.objects.exclude(id=shared_cloud.image.id).exclude(status="deleted")
    assert not left.exists()


def test_data_a_report_and_a_delete_of_the_image_at_the_same_moment(shared_cloud: Cloud, alice: RequestContext) -> None:
    host: ScriptedAgent = shared_cloud.add_host("h1")
    (server,) = launched(shared_cloud, alice)
    for _ in range(3):
        image_id = create_image(next_request(alice), server.id, "copy")
        (command,) = host.take()
        body = command.body
        assert isinstance(body, SnapshotRequest)

        def work(index: int, command: Any = command, body: Any = body, image_id: Any = image_id) -> object:
            if index == 0:
                return host.send(command, body)
            if index == 1:
                return host.report(command, "finished", power_state=1)
            return images.delete(alice, image_id)

        results = in_threads(3, work)
        assert all(not isinstance(result, Exception) or isinstance(result, NovellaError) for result in results), results
        assert state_of(server) == ("active", None)
        assert Image.objects.get(id=image_id).status in {"active", "deleted"}
