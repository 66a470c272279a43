"""The classic faults that need many at once, in threads."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter

import pytest
from django_q.models import OrmQ

from compute_agent.contract.calls import ConsoleOutputCall
from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.messages import GuestState
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, UnavailableError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Stop, reboot
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceFault, SchedulingDecision
from provisioning.compute.services.server_groups import create_server_group
from provisioning.compute.upkeep.reconcile import compare
from provisioning.hosts import calls, commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import verify
from provisioning.quotas.services.limits import set_limit
from tests.core.test_parallel import in_threads, unexpected
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.ports import guest_addresses, guest_ports

pytestmark = pytest.mark.slow
LARGE = {"vcpus": 1000, "memory_mb": 1 << 20, "disk_gb": 10_000}


def without_limits(caller: RequestContext) -> None:
    for resource in ("instances", "cores", "ram", "ports", "fixed_ips"):
        set_limit(caller.project_id, resource, -1)


class TestTheQueueRunningATaskTwice:
    def test_two_groups_with_the_same_message(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """Both have it, because a lock ran out or a message came twice: one claim, one order, one guest."""
        for name in ("kelvin", "ohm", "tesla"):
            shared_cloud.add_host(name)
        instance = shared_cloud.launch(alice)
        text = OrmQ.objects.get().payload
        for _ in range(5):
            rows.put("scheduler", text)

        def work(index: int) -> int:
            ran = 0
            while (taken := rows.claim(["scheduler"], f"group {index}")) is not None:
                schedule(**verify(taken.text).payload)  # type: ignore[arg-type]
                rows.finish(taken.id)
                ran += 1
            return ran

        results = in_threads(6, work)
        assert not unexpected(results), results
        shared_cloud.run()
        assert state_of(instance) == ("active", None)
        assert Allocation.objects.count() == guest_ports().count() == guest_addresses().count() == 1
        assert HostCommand.objects.count() == SchedulingDecision.objects.count() == 1
        assert sum(len(agent.guests) for agent in shared_cloud.agents.values()) == 1

    def test_a_message_is_taken_by_one(self, shared_cloud: Cloud) -> None:
        numbers = [rows.put("t", f"text {number}") for number in range(12)]

        def take(index: int) -> list[int]:
            taken = []
            for _ in range(40):
                if (result := rows.claim(["t"], f"group {index}")) is not None:
                    taken.append(result.id)
            return taken

        results = in_threads(4, take)
        assert sorted(number for taken in results for number in taken) == sorted(numbers)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (1, 2))])
class TestDeleteRacingBoot:
    def test_launches_boot_while_they_are_deleted(self, shared_cloud: Cloud, alice: RequestContext, seed: int) -> None:
        """Workers, hosts and owners at the same time: each server is deleted once, and no guest is left behind."""
        for name in ("kelvin", "ohm"):
            shared_cloud.add_host(name)
        instances = [shared_cloud.launch(context("alice")) for _ in range(8)]
        chance = random.Random(seed)  # noqa: S311 - the same moments for the same seed
        pauses = [chance.random() * 0.1 for _ in instances]
        done = threading.Event()

        def run(index: int) -> None:
            if index < 8:
                threading.Event().wait(pauses[index])
                delete(context("alice"), instances[index].id)
            elif index < 10:
                for instance in instances[:: -1 if index % 2 else 1]:
                    schedule(str(instance.id), 1)
            else:
                agent = list(shared_cloud.agents.values())[index - 10]
                for _ in range(15):
                    agent.work()
                    done.wait(0.005)

        results = in_threads(12, run)
        assert not unexpected(results), results
        invariants.check()
        shared_cloud.run()
        assert {state_of(instance) for instance in instances} == {("deleted", None)}
        assert all(agent.guests == {} for agent in shared_cloud.agents.values())
        invariants.check_empty()


class TestTwentyDeletesAtOnce:
    def test_of_one_server(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """One delete: one action, one order, the attempt raised once; the others are told that it goes, or is gone."""
        agent = shared_cloud.add_host("kelvin")
        instance = shared_cloud.launch(alice)
        shared_cloud.run()
        results = in_threads(20, lambda _: delete(context("alice"), instance.id))
        assert [item for item in results if isinstance(item, Exception)] == []
        assert shared_cloud.fresh(instance).attempt == 2
        assert InstanceAction.objects.filter(action="delete").count() == 1
        assert [type(command.body) for command in agent.take(acknowledge=False)] == [DestroyRequest]
        shared_cloud.run()
        assert state_of(instance) == ("deleted", None)
        again = in_threads(20, lambda _: delete(context("alice"), instance.id))
        assert {type(item) for item in again} == {NotFoundError}
        invariants.check_empty()

    def test_of_one_server_that_no_host_has(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        instance = shared_cloud.launch(alice)
        results = in_threads(20, lambda _: delete(context("alice"), instance.id))
        assert {type(item) for item in results} <= {Instance, NotFoundError}
        assert state_of(instance) == ("deleted", None)
        assert InstanceAction.objects.filter(action="delete").count() == 1
        invariants.check_empty()

    @pytest.mark.deep
    def test_of_twenty_servers(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        without_limits(alice)
        for name in ("kelvin", "ohm"):
            shared_cloud.add_host(name, **LARGE)
        instances = launch(context("alice"), shared_cloud.request(min_count=20, max_count=20))
        shared_cloud.run()
        results = in_threads(20, lambda index: delete(context("alice"), instances[index].id))
        assert [item for item in results if isinstance(item, Exception)] == []
        shared_cloud.run()
        assert {state_of(instance) for instance in instances} == {("deleted", None)}
        invariants.check_empty()


class TestOneHungHostSlowingTheOthers:
    def test_the_others_go_on(
        self, shared_cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A host takes its orders and answers nothing, while many wait for its console: what is on other hosts is
        launched, stopped and deleted as ever, and whoever asks beyond what may wait is told so at once.
        """
        without_limits(alice)
        hung = shared_cloud.add_host("kelvin", **LARGE)
        stuck = launch(context("alice"), shared_cloud.request(min_count=5, max_count=5))
        for instance in stuck:
            schedule(str(instance.id), 1)
        OrmQ.objects.all().delete()
        assert len(hung.take()) == 5
        del shared_cloud.agents["kelvin"]
        Host.objects.filter(name="kelvin").update(vcpus_total=5)
        shared_cloud.add_host("ohm", **LARGE)
        waiting, done = threading.Barrier(calls.MOST_OF_HOST + 1), threading.Event()

        def ask(index: int) -> object:
            if index == calls.MOST_OF_HOST:
                waiting.wait(120)
                return self._work_elsewhere(shared_cloud, hung.host.id, done)
            return calls.call(hung.host.id, ConsoleOutputCall(instance_id=str(stuck[0].id)), timeout=30.0)

        def wait_until_the_others_are_done(*_: object) -> None:
            waiting.wait(120)
            assert done.wait(400)
            raise UnavailableError(calls.NO_ANSWER)

        monkeypatch.setattr(calls, "_call", wait_until_the_others_are_done)
        results = in_threads(calls.MOST_OF_HOST + 1, ask)
        assert {str(item) for item in results[:-1]} == {str(UnavailableError(calls.NO_ANSWER))}
        assert results[-1] == {("deleted", None): 3, ("stopped", None): 3}
        assert {state_of(instance) for instance in stuck} == {("building", "spawning")}
        shared_cloud.agents["kelvin"] = hung
        commands.send_again(hung.host.id)
        shared_cloud.run()
        assert {state_of(instance) for instance in stuck} == {("active", None)}

    def _work_elsewhere(
        self, cloud: Cloud, silent: uuid.UUID, done: threading.Event
    ) -> Counter[tuple[str, str | None]]:
        try:
            with pytest.raises(UnavailableError, match="Too many"):
                calls.call(silent, ConsoleOutputCall(instance_id="x"), timeout=30.0)
            servers = launch(context("alice"), cloud.request(min_count=6, max_count=6))
            cloud.run()
            for server in servers[:3]:
                delete(context("alice"), server.id)
            for server in servers[3:]:
                Stop.begin(context("alice"), server.id)
            cloud.run()
            return Counter(state_of(server) for server in servers)
        finally:
            done.set()


class TestMonitoringOverwritingATransition:
    def test_what_is_seen_at_the_moment_a_task_begins(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """Monitoring that read the server before the task began does not take the task away."""
        agent = shared_cloud.add_host("kelvin")
        instance = shared_cloud.launch(alice)
        shared_cloud.run()
        for _ in range(6):
            off = GuestState(str(instance.id), shared_cloud.fresh(instance).attempt, PowerState.SHUTDOWN)

            def work(index: int, off: GuestState = off) -> object:
                if index == 0:
                    return reboot(context("alice"), instance.id, hard=True)
                return compare(agent.host.id, [off], complete=True)

            first, *others = in_threads(5, work)
            assert others == [None] * 4
            if isinstance(first, Exception):
                assert isinstance(first, InstanceBusyError)
                assert state_of(instance) == ("stopped", None)
                reboot(context("alice"), instance.id, hard=True)
            assert state_of(instance)[1] == "rebooting_hard"
            shared_cloud.run()
            assert state_of(instance) == ("active", None)


class TestTwoSchedulersAndTheLastSlot:
    @pytest.mark.parametrize("schedulers", [2, pytest.param(8, marks=pytest.mark.deep)])
    def test_one_wins_and_the_others_are_notified(
        self, shared_cloud: Cloud, alice: RequestContext, schedulers: int
    ) -> None:
        shared_cloud.add_host("kelvin", memory_mb=1024)
        instances = [shared_cloud.launch(context("alice")) for _ in range(schedulers)]
        assert not unexpected(in_threads(schedulers, lambda index: schedule(str(instances[index].id), 1)))
        states = Counter(state_of(instance) for instance in instances)
        assert states == {("building", "spawning"): 1, ("error", None): schedulers - 1}
        host = Host.objects.get()
        assert (host.memory_mb_allocated, host.instances_allocated) == (1024, 1)
        for instance in instances:
            if state_of(instance)[0] == "error":
                assert instance.faults.get().message.startswith("No valid host was found.")
        invariants.check()

    def test_who_loses_plans_again(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """Each of four hosts has room for one, and all schedulers like the same best: all four are placed."""
        for number in range(4):
            shared_cloud.add_host(f"host{number}", memory_mb=1024, disk_gb=100 - number)
        instances = [shared_cloud.launch(context("alice")) for _ in range(4)]
        assert not unexpected(in_threads(4, lambda index: schedule(str(instances[index].id), 1)))
        assert {state_of(instance) for instance in instances} == {("building", "spawning")}
        assert list(Host.objects.values_list("instances_allocated", flat=True)) == [1] * 4
        invariants.check()


class TestAntiAffinityUnderParallelCreates:
    def test_no_two_share_a_host(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """Created and placed by as many callers and workers as there are servers, two more than there are hosts."""
        for number in range(4):
            shared_cloud.add_host(f"host{number}", **LARGE)
        group = create_server_group(alice, "apart", "anti-affinity")

        def create(_: int) -> Instance:
            made = shared_cloud.launch(context("alice"), scheduler_hints={"group": str(group.id)})
            schedule(str(made.id), 1)
            return made

        made = in_threads(6, create)
        assert not unexpected(made), made
        placed = list(Instance.objects.exclude(host=None).values_list("host__name", flat=True))
        assert sorted(placed) == [f"host{number}" for number in range(4)]
        assert Instance.objects.filter(vm_state="error", host=None).count() == 2
        shared_cloud.run()
        assert max(len(agent.guests) for agent in shared_cloud.agents.values()) == 1
        invariants.check()


class TestADuplicateAddressUnder500ParallelLaunches:
    REQUESTS, OF_EACH, WORKERS = 20, 25, 8

    @pytest.mark.deep
    def test_every_server_has_an_address_of_its_own(self, shared_cloud: Cloud, alice: RequestContext) -> None:
        """500 launches by several callers; then as many workers give them their addresses, on hosts that have room."""
        without_limits(alice)
        names = ("kelvin", "ohm", "tesla")
        for name in names:
            shared_cloud.add_host(name, **LARGE)
        pools = [{"start": "10.20.0.10", "end": "10.20.3.200"}]
        shared_cloud.network.subnets.update(cidr="10.20.0.0/22", allocation_pools=pools)
        each = shared_cloud.request(min_count=self.OF_EACH, max_count=self.OF_EACH)
        launched = in_threads(self.REQUESTS, lambda _: [made.id for made in launch(context("alice"), each)], within=200)
        assert not unexpected(launched), launched
        ids: list[uuid.UUID] = [made for several in launched for made in several]  # type: ignore[attr-defined]
        for number, name in enumerate(names):
            self._claim(shared_cloud.agents[name].host, ids[number :: len(names)])

        def place(index: int) -> None:
            for instance_id in ids[index :: self.WORKERS]:
                schedule(str(instance_id), 1)

        assert in_threads(self.WORKERS, place, within=200) == [None] * self.WORKERS
        assert set(InstanceFault.objects.values_list("message", "details")) == set()
        count = self.REQUESTS * self.OF_EACH
        assert set(Instance.objects.values_list("vm_state", "task_state")) == {("building", "spawning")}
        addresses = list(guest_addresses().values_list("subnet_id", "address"))
        assert len(addresses) == len(set(addresses)) == Instance.objects.count() == count
        macs = list(guest_ports().values_list("mac_address", flat=True))
        assert len(macs) == len(set(macs)) == count
        invariants.check()

    def _claim(self, host: Host, ids: list[uuid.UUID]) -> None:
        """Claim room for many at once, as one claim after the other would."""
        Instance.objects.filter(id__in=ids).update(host=host, task_state="networking")
        size = {"vcpus": 1, "memory_mb": 1024, "disk_gb": 2}
        Allocation.objects.bulk_create(Allocation(instance_id=row, host=host, attempt=1, **size) for row in ids)
        held = {f"{name}_allocated": amount * len(ids) for name, amount in size.items()}
        Host.objects.filter(id=host.id).update(**held, instances_allocated=len(ids))
