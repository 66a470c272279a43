"""The classic faults of launch lines, each by its name, whole: what is lost with a worker, a message or a reason.

What comes twice or late is in ``test_classic_faults_out_of_turn``; those that need many at once are in
``test_classic_faults_at_once``.
"""

from __future__ import annotations

import importlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.compute import selectors
from provisioning.compute.actions import delete
from provisioning.compute.actions.delete import DESTROY_COMMANDS
from provisioning.compute.launch import schedule
from provisioning.compute.launch.create import launch
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceFault
from provisioning.compute.selectors.explained import attempts_for
from provisioning.compute.states import TRANSITIONS, TaskState, VmState
from provisioning.compute.upkeep import reaper
from provisioning.events.models import Event
from provisioning.hosts import liveness
from provisioning.hosts.models import Host, HostCommand
from provisioning.network.models import SecurityGroup
from provisioning.quotas.models import Reservation
from provisioning.quotas.services.limits import set_limit
from tests.core.test_killed import Death, KilledError, begun_anew, death, work  # noqa: F401 - a fixture among them
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_addresses
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow

ROUNDS = 5
"""Deadlines in a row within which anything must be over."""


def let_deadlines_pass() -> None:
    """Every task is overdue, by so little that somebody was there to see it."""
    late = timezone.now() - timedelta(seconds=1)
    Instance.objects.exclude(task_state=None).update(task_deadline=late)


def silence(name: str) -> None:
    Host.objects.filter(name=name).update(last_seen_at=timezone.now() - timedelta(hours=1))


def fault_of(instance: Instance) -> str:
    row = Cloud.fresh(instance)
    return selectors.fault_of([row])[row.id].message


class TestStuckInBuildAfterAWorkerDies:
    """The worker dies behind any of its commits, its job is given back, or lost with it: the launch ends ACTIVE."""

    @pytest.mark.parametrize("job", [pytest.param("given back", marks=pytest.mark.deep), "lost"])
    def test_the_launch_goes_on(
        self,
        shared_cloud: Cloud,
        alice: RequestContext,
        death: Death,  # noqa: F811 - the fixture
        job: str,
    ) -> None:
        shared_cloud.add_host("kelvin")
        killed = 0
        for number in range(20):
            instance = shared_cloud.launch(context("alice"))
            death.at = number
            try:
                work(shared_cloud)
                break
            except KilledError:
                killed += 1
            finally:
                death.at = None
            if job == "lost":
                OrmQ.objects.all().delete()
            begun_anew(shared_cloud)
            work(shared_cloud)
            if job == "lost":
                let_deadlines_pass()
                reaper.reap()
                work(shared_cloud)
            assert state_of(instance) == ("active", None), number
            assert Allocation.objects.filter(instance=instance).count() == 1
            delete.delete(context("alice"), instance.id)
            work(shared_cloud)
        assert killed >= 3, "the worker was killed nowhere"
        delete.delete(context("alice"), instance.id)
        work(shared_cloud)
        invariants.check_empty()

    @pytest.mark.django_db
    def test_a_launch_that_cannot_go_on_ends_in_error(self, cloud: Cloud, alice: RequestContext) -> None:
        """The job is lost again and again: there is a last time."""
        instance = cloud.launch(alice)
        OrmQ.objects.all().delete()
        Instance.objects.filter(id=instance.id).update(created_at=timezone.now() - timedelta(hours=1))
        let_deadlines_pass()
        reaper.reap()
        assert state_of(instance) == ("error", None)
        assert fault_of(instance) == reaper.TOO_LONG


REACHED = sorted(
    {move.target for move in TRANSITIONS if move.target[1] is not None}, key=lambda pair: f"{pair[0]} {pair[1]}"
)
"""Every state with a task that a server can come into."""
ODD = [
    (VmState.PAUSED, TaskState.RESUMING),
    (VmState.RESCUED, TaskState.SPAWNING),
    (VmState.ERROR, TaskState.SCHEDULING),
]
"""Some that only a hand in the database makes."""


class TestTaskStateNeverCleared:
    """Whatever an instance is in the middle of, and whatever was lost of it: it comes to rest by deadlines alone."""

    @pytest.mark.parametrize("host", [pytest.param("up", marks=pytest.mark.deep), "down"])
    def test_every_task_ends(self, db: None, alice: RequestContext, host: str) -> None:
        cloud = Cloud.make()
        agent = cloud.add_host("kelvin", vcpus=1000, memory_mb=1 << 20, disk_gb=10_000)
        for resource in ("instances", "cores", "ram", "fixed_ips"):
            set_limit(alice.project_id, resource, -1)
        pairs = [*REACHED, *ODD]
        built = [pair for pair in pairs if pair[0] != VmState.BUILDING or pair[1] == TaskState.DELETING]
        servers = dict(zip(built, self._launch(cloud, len(built)), strict=True))
        cloud.run()
        rest = [pair for pair in pairs if pair not in servers]
        servers |= dict(zip(rest, self._launch(cloud, len(rest)), strict=True))
        spawning = (VmState.BUILDING, TaskState.SPAWNING)
        schedule.schedule(str(servers[spawning].id), 1)
        OrmQ.objects.all().delete()
        HostCommand.objects.all().delete()
        for pair, server in servers.items():
            columns = {"vm_state": pair[0], "task_state": pair[1], "created_at": timezone.now() - timedelta(hours=2)}
            raised = {"attempt": 2} if pair[1] in {TaskState.DELETING, TaskState.SHELVING_OFFLOADING} else {}
            Instance.objects.filter(id=server.id).update(**columns, **raised)
        if host == "down":
            silence("kelvin")
        for _ in range(ROUNDS):
            let_deadlines_pass()
            reaper.reap()
            drain()
            if host == "up":
                agent.work()
        left = {pair: state_of(server) for pair, server in servers.items() if state_of(server)[1] is not None}
        if host == "down":  # its disk is in the image store; the shelf waits for its host as long as it takes
            assert left.pop((VmState.SHELVED, TaskState.SHELVING_OFFLOADING)) == ("shelved", "shelving_offloading")
            liveness.heartbeat(agent.host.id)
            let_deadlines_pass()
            reaper.reap()
            agent.work()
        assert left == {}
        assert not Instance.objects.exclude(task_deadline=None).exists()
        assert not Instance.objects.filter(vm_state=VmState.BUILDING).exists()

    def _launch(self, cloud: Cloud, count: int) -> list[Instance]:
        return launch(context("alice"), cloud.request(min_count=count, max_count=count))


class TestDeletingForEverAfterALostMessage:
    """The order is lost, or the host's memory of it, or its report: the delete ends all the same, and so does the
    guest.
    """

    @pytest.fixture
    def agent(self, cloud: Cloud) -> ScriptedAgent:
        return cloud.add_host("kelvin")

    @pytest.fixture
    def deleted(self, cloud: Cloud, agent: ScriptedAgent, alice: RequestContext) -> Instance:
        instance = cloud.launch(alice)
        cloud.run()
        delete.delete(alice, instance.id)
        assert state_of(instance) == ("active", "deleting")
        return instance

    @pytest.mark.parametrize("lost", ["the wake-up", "the order", "what the host had taken", "the report"])
    def test_the_delete_ends(self, cloud: Cloud, agent: ScriptedAgent, deleted: Instance, lost: str) -> None:
        if lost == "the wake-up":
            Event.objects.all().delete()  # the order waits in the records for whoever looks
        elif lost == "the order":
            HostCommand.objects.all().delete()
        elif lost == "what the host had taken":
            assert [type(command.body) for command in agent.take()] == [DestroyRequest]
        else:
            agent.take()
            agent.guests.clear()
        if lost != "the wake-up":
            agent.work()
            assert state_of(deleted) == ("active", "deleting")
            let_deadlines_pass()
            reaper.reap()
        cloud.run()
        assert state_of(deleted) == ("deleted", None)
        assert agent.guests == {}
        invariants.check_empty()

    def test_a_host_that_never_answers_does_not_hold_its_owner(
        self, cloud: Cloud, agent: ScriptedAgent, deleted: Instance
    ) -> None:
        for _ in range(DESTROY_COMMANDS):
            assert state_of(deleted) == ("active", "deleting")
            agent.take()
            let_deadlines_pass()
            reaper.reap()
        assert state_of(deleted) == ("deleted", None)
        assert Allocation.objects.count() == guest_addresses().count() == 1, "the guest may still run"
        agent.hello()
        then = timezone.now() - timedelta(hours=1)
        HostCommand.objects.update(created_at=then, acknowledged_at=then)
        reaper.reap()
        cloud.run()
        assert agent.guests == {}
        invariants.check_empty()


@pytest.mark.django_db
class TestFailureBeforeSchedulingLeavesNoHistory:
    """What is refused leaves nothing at all; what was accepted and failed before it had a host leaves a history."""

    def _counted(self) -> list[int]:
        kept: list[Any] = [Instance, InstanceAction, InstanceFault, Event, OrmQ, SecurityGroup, Reservation]
        return [model.objects.count() for model in kept]

    @pytest.mark.parametrize("why", ["a wrong image", "a full quota", "the queue refuses"])
    def test_a_refused_launch_leaves_nothing(
        self, cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch, why: str
    ) -> None:
        before = self._counted()
        expected: type[Exception] = RuntimeError
        changes: dict[str, Any] = {}
        if why == "a wrong image":
            expected, changes = InvalidInputError, {"image_id": str(uuid.uuid4())}
        elif why == "a full quota":
            expected = OverQuotaError
            set_limit(alice.project_id, "ram", 512)
        else:

            def refuse(*_: object, **__: object) -> None:
                raise RuntimeError

            monkeypatch.setattr(importlib.import_module("provisioning.compute.launch.create"), "cast", refuse)
        with pytest.raises(expected):
            cloud.launch(alice, **changes)
        assert self._counted() == before

    @pytest.mark.parametrize("why", ["no host", "the job was given up", "the job was lost", "no address"])
    def test_an_accepted_launch_that_fails_says_when_where_and_why(
        self, cloud: Cloud, alice: RequestContext, why: str
    ) -> None:
        if why in {"the job was given up", "no address"}:
            cloud.add_host("kelvin")
        if why == "no address":
            cloud.network.subnets.update(allocation_pools=[])
        instance = cloud.launch(alice)
        if why == "the job was given up":
            schedule.give_up("its worker died", instance_id=str(instance.id), attempt=1)
        elif why == "the job was lost":
            OrmQ.objects.all().delete()
            Instance.objects.update(created_at=timezone.now() - timedelta(hours=1))
            let_deadlines_pass()
            reaper.reap()
        drain()
        assert state_of(instance) == ("error", None)
        reason = fault_of(instance)
        assert reason.endswith(".")
        action = InstanceAction.objects.get(instance=instance, action="create")
        assert action.finished_at is not None
        assert action.message == reason
        assert action.request_id == alice.request_id
        (failed,) = [step for step in selectors.timeline_for(alice, instance.id) if step.state == "failed"]
        assert (failed.message, failed.seconds is not None) == (reason, True)
        (only,) = attempts_for(alice, instance.id)
        assert (only.outcome, only.reason) == ("failed", reason)
        assert "kelvin" not in f"{reason} {only}"
        events = Event.objects.filter(topic=f"project:{alice.project_id}", kind="instance").order_by("id")
        assert [event.payload["status"] for event in events][-1] == "ERROR"
