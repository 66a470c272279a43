"""Many at once, in threads over a database file: one winner for the last place, exact sums, one guest each."""

from __future__ import annotations

import functools
import random
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django_q.models import OrmQ

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError, OverQuotaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.host_link.allocations import claim_room, record_allocation, release_allocation
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance
from provisioning.hosts import reports
from provisioning.hosts.models import Host
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import verify
from provisioning.quotas.services.limits import set_limit
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.landing import first_of_each
from tests.support.ports import guest_addresses, guest_ports
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.both_databases("locks"), pytest.mark.slow]


def in_threads(count: int, work: Callable[[int], object], *, within: float = 540) -> list[object]:
    """Run ``work(index)`` in threads that start together; returns results, and exceptions in their place.

    A thread that has not ended ``within`` so many seconds fails the test.
    """
    results: list[object] = [None] * count
    barrier = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            barrier.wait(300)
            results[index] = work(index)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(within)
        assert not thread.is_alive()
    return results


def unexpected(results: list[object]) -> list[object]:
    return [item for item in results if isinstance(item, Exception) and not isinstance(item, NovellaError)]


def test_the_last_place_has_one_winner(shared_cloud: Cloud, alice: RequestContext) -> None:
    agent = shared_cloud.add_host("kelvin", memory_mb=1024)
    instances = [shared_cloud.launch(context("alice")) for _ in range(8)]

    def take(index: int) -> bool:
        with transaction.atomic():
            taken = claim_room(room_of(instances[index].flavor), agent.host.id)
            if taken:
                record_allocation(instances[index], agent.host.id)
            return taken

    results = in_threads(8, take)
    assert Counter(map(str, results)) == {"True": 1, "False": 7}
    host = Host.objects.get()
    assert (host.memory_mb_allocated, host.vcpus_allocated, host.instances_allocated) == (1024, 1, 1)
    for instance in instances:
        with transaction.atomic():
            release_allocation(instance.id)
            release_allocation(instance.id)
    assert Host.objects.get().memory_mb_allocated == 0


@pytest.mark.parametrize(
    ("capacity", "fits"),
    first_of_each([({"memory_mb": 4 * 1024 + 1023}, 4), ({"vcpus": 3}, 3), ({"disk_gb": 5}, 2)], lambda _: "all"),
)
def test_no_resource_of_a_host_is_overdrawn(
    shared_cloud: Cloud, alice: RequestContext, capacity: dict[str, int], fits: int
) -> None:
    shared_cloud.add_host("kelvin", **capacity)
    instances = [shared_cloud.launch(context("alice")) for _ in range(6)]
    assert not unexpected(in_threads(6, lambda index: schedule(str(instances[index].id), 1)))
    states = Counter(state_of(instance) for instance in instances)
    assert states == {("building", "spawning"): fits, ("error", None): 6 - fits}
    invariants.check()


def test_the_same_job_in_many_threads_has_one_effect(shared_cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm", "tesla"):
        shared_cloud.add_host(name)
    instance = shared_cloud.launch(alice)
    assert not unexpected(in_threads(8, lambda _: schedule(str(instance.id), 1)))
    assert state_of(instance) == ("building", "spawning")
    assert Allocation.objects.count() == guest_ports().count() == guest_addresses().count() == 1
    assert sum(len(agent.take()) for agent in shared_cloud.agents.values()) == 1


def test_the_last_of_the_quota_has_one_winner(shared_cloud: Cloud, alice: RequestContext) -> None:
    set_limit(alice.project_id, "instances", 1)
    results = in_threads(8, lambda _: shared_cloud.launch(context("alice")))
    assert not unexpected(results)
    assert sum(isinstance(item, OverQuotaError) for item in results) == 7
    assert Instance.objects.count() == 1


def test_the_last_of_the_quota_is_shared_by_requests_for_several(shared_cloud: Cloud, alice: RequestContext) -> None:
    """Six requests for one to four servers, ten in all: each gets what is left at its turn."""
    set_limit(alice.project_id, "instances", 10)
    several = shared_cloud.request(min_count=1, max_count=4)
    results = in_threads(6, lambda _: launch(context("alice"), several))
    assert not unexpected(results)
    made = [len(result) for result in results if isinstance(result, list)]
    assert sum(made) == Instance.objects.count() == 10
    assert {type(result) for result in results} <= {list, OverQuotaError}
    invariants.check()


class Rush:
    """Callers, workers and agents that work at the same time until so many servers are active, at most some minutes."""

    def __init__(self, cloud: Cloud, count: int) -> None:
        self.cloud, self.count = cloud, count
        self.remaining, self.done = threading.Semaphore(count), threading.Event()

    def call(self) -> None:
        while self.remaining.acquire(blocking=False):
            self.cloud.launch(context("alice"))

    def work(self) -> None:
        while not self.done.is_set():
            taken = rows.claim(["scheduler"], f"worker {threading.get_ident()}")
            if taken is None:
                self.done.wait(0.005)
                continue
            schedule(**verify(taken.text).payload)  # type: ignore[arg-type]
            rows.finish(taken.id)

    def host(self, agent: ScriptedAgent) -> None:
        while not self.done.is_set():
            agent.work()
            if Instance.objects.filter(vm_state="active").count() == self.count:
                self.done.set()
            self.done.wait(0.005)

    def run(self, callers: int, workers: int) -> list[object]:
        agents = [functools.partial(self.host, agent) for agent in self.cloud.agents.values()]
        parts: list[Callable[[], None]] = [*[self.call] * callers, *[self.work] * workers, *agents]
        limit = threading.Timer(400, self.done.set)
        limit.start()
        try:
            return in_threads(len(parts), lambda index: parts[index]())
        finally:
            limit.cancel()


@pytest.mark.deep
def test_twenty_launches_at_once_over_three_hosts(shared_cloud: Cloud, alice: RequestContext) -> None:
    """Eight callers, three workers and three agents at the same time: all active, exact sums, no double claim."""
    agents = [shared_cloud.add_host(name, memory_mb=7 * 1024) for name in ("kelvin", "ohm", "tesla")]
    for resource, limit in (("instances", 20), ("cores", 20), ("ram", 20 * 1024)):
        set_limit(alice.project_id, resource, limit)
    results = Rush(shared_cloud, 20).run(callers=8, workers=3)
    assert not [item for item in results if isinstance(item, Exception)]
    assert Counter(Instance.objects.values_list("vm_state", "task_state")) == {("active", None): 20}
    assert OrmQ.objects.count() == 0
    guests = [guest for agent in agents for guest in agent.guests]
    assert len(guests) == len(set(guests)) == 20
    addresses = list(guest_addresses().values_list("address", flat=True))
    assert len(addresses) == len(set(addresses)) == 20
    assert sorted(Host.objects.values_list("instances_allocated", flat=True)) == [6, 7, 7]
    invariants.check()
    with pytest.raises(OverQuotaError):
        shared_cloud.launch(context("alice"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 6))])
def test_deletes_that_race_with_the_line_leave_nothing(shared_cloud: Cloud, alice: RequestContext, seed: int) -> None:
    """Launches run along the line while their owner deletes them at arbitrary moments."""
    for name in ("kelvin", "ohm"):
        shared_cloud.add_host(name)
    instances = [shared_cloud.launch(context("alice")) for _ in range(6)]
    chance = random.Random(seed)  # noqa: S311 - the same moments for the same seed
    pauses = [chance.random() * 0.05 for _ in instances]

    def run(index: int) -> None:
        if index < 6:
            threading.Event().wait(pauses[index])
            delete(context("alice"), instances[index].id)
        elif index == 6:
            for instance in instances:
                schedule(str(instance.id), 1)
        else:
            for _ in range(10):
                list(shared_cloud.agents.values())[index - 7].work()

    assert not unexpected(in_threads(9, run))
    invariants.check()
    drain()
    shared_cloud.run()
    assert {state_of(instance) for instance in instances} == {("deleted", None)}
    assert all(agent.guests == {} for agent in shared_cloud.agents.values())
    invariants.check_empty()


def test_the_same_reports_from_many_threads_count_once(shared_cloud: Cloud, alice: RequestContext) -> None:
    agent = shared_cloud.add_host("kelvin")
    instance = shared_cloud.launch(alice)
    drain()
    (command,) = agent.take()
    before = Instance.objects.get(id=instance.id).version
    agent.carry_out(command)
    Instance.objects.get(id=instance.id)
    assert not unexpected(in_threads(6, lambda _: reports.receive(agent.host.id, agent.sent)))
    assert Instance.objects.get(id=instance.id).version == before + 1
