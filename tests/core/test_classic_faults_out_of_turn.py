"""The classic faults of launch lines, each by its name: what comes twice, late, or in the middle of something else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions import delete
from provisioning.compute.actions.power import Start, Stop, reboot
from provisioning.compute.inbound.reports import sync_power
from provisioning.compute.launch import claim, schedule
from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.models import Allocation, Instance, InstanceFault, SchedulingDecision
from provisioning.events.models import Event
from provisioning.hosts import audits, commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.reports import receive
from provisioning.jobs.models import JobRun
from provisioning.jobs.queue import rows
from provisioning.network.models import FixedIP
from tests.core.test_killed import Death, KilledError, begun_anew, death, work  # noqa: F401 - a fixture among them
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_addresses

pytestmark = pytest.mark.slow


@pytest.mark.django_db
class TestTheQueueRunningATaskTwice:
    def test_one_effect(self, cloud: Cloud, alice: RequestContext) -> None:
        """The same message again before, between and after: one claim, one order, one guest."""
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        text = OrmQ.objects.get().payload
        for _ in range(2):
            rows.put("scheduler", text)
        assert drain() == 3
        (order,) = agent.take()
        schedule.schedule(str(instance.id), 1)
        agent.carry_out(order)
        before = cloud.fresh(instance).version
        rows.put("scheduler", text)
        assert drain() == 1
        assert state_of(instance) == ("active", None)
        assert cloud.fresh(instance).version == before
        assert Allocation.objects.count() == guest_addresses().count() == len(agent.guests) == 1
        assert agent.take() == []
        assert SchedulingDecision.objects.count() == 1

    def test_an_order_that_comes_twice_is_one_guest(self, cloud: Cloud, alice: RequestContext) -> None:
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        drain()
        (order,) = agent.take()
        agent.carry_out(order)
        version = cloud.fresh(instance).version
        commands.send_again(agent.host.id)
        agent.carry_out(order)
        agent.repeat_everything()
        assert (state_of(instance), cloud.fresh(instance).version) == (("active", None), version)

    def test_a_message_whose_lock_ran_out_is_begun_by_one_group_only(self) -> None:
        number = rows.put("t", "text")
        assert rows.claim(["t"], "first") is not None
        OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))
        assert rows.claim(["t"], "second") is not None
        assert rows.start(number, "first", "1.1") is None
        assert rows.start(number, "second", "2.2") == 1
        assert rows.start(number, "second", "3.3") is None
        assert JobRun.objects.get().worker == "2.2"


POINTS: dict[str, Callable[[Cloud, Instance], Command | None]] = {}


def point(name: str) -> Callable[[Callable[[Cloud, Instance], Command | None]], None]:
    def register(reach: Callable[[Cloud, Instance], Command | None]) -> None:
        POINTS[name] = reach

    return register


@point("before it is placed")
def _queued(cloud: Cloud, instance: Instance) -> None:
    assert state_of(instance) == ("building", "scheduling")


@point("between claim and hand-off")
def _claimed(cloud: Cloud, instance: Instance) -> None:
    build = waiting_build(instance.id, 1)
    assert build is not None
    assert claim.find_place(build) is not None


@point("handed over, not taken")
def _handed(cloud: Cloud, instance: Instance) -> None:
    drain()


def _after(step: str) -> Callable[[Cloud, Instance], Command]:
    def reach(cloud: Cloud, instance: Instance) -> Command:
        drain()
        (build,) = cloud.agents["kelvin"].take()
        cloud.agents["kelvin"].steps(build, upto=step)
        return build

    return reach


for _step in BUILD_STEPS:
    point(f"after {_step}")(_after(_step))


@pytest.mark.django_db
class TestDeleteRacingBoot:
    @pytest.mark.parametrize("moment", list(POINTS))
    def test_nothing_boots_behind_the_delete(self, cloud: Cloud, alice: RequestContext, moment: str) -> None:
        """The delete comes at this moment, and whatever was under way ends behind it: no guest, nothing held."""
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        build = POINTS[moment](cloud, instance)
        delete.delete(context("alice"), instance.id)
        invariants.check()
        schedule.schedule(str(instance.id), 1)
        if build is not None:
            agent.carry_out(build)
            assert state_of(instance) == ("building", "deleting"), "a report of the boot took the delete back"
        cloud.run()
        if build is not None:
            agent.carry_out(build)  # the old order turns up again, behind the newer one
        cloud.run()
        assert state_of(instance) == ("deleted", None)
        assert agent.guests == {}
        invariants.check_empty()

    def test_handed_over_between_look_and_mark(
        self, cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The job hands the server over while the delete believes that no host has it: the delete looks again."""
        delete = importlib.import_module("provisioning.compute.actions.delete")
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        look = delete.host_holding

        def look_and_lose(row: Instance) -> Host | None:
            holder = look(row)
            drain()
            return holder  # type: ignore[no-any-return]

        monkeypatch.setattr(delete, "host_holding", look_and_lose)
        delete.delete(context("alice"), instance.id)
        assert state_of(instance) == ("building", "deleting")
        cloud.run()
        assert (state_of(instance), agent.guests) == (("deleted", None), {})
        invariants.check_empty()


@pytest.mark.django_db
class TestMonitoringOverwritingATransition:
    """What hosts tell of guests by themselves never moves a server that is in the middle of something."""

    @pytest.mark.parametrize("seen", [PowerState.SHUTDOWN, PowerState.RUNNING, PowerState.CRASHED, None])
    @pytest.mark.parametrize("channel", ["report", "audit", "hello"])
    def test_an_observation_during_a_task(
        self, cloud: Cloud, alice: RequestContext, seen: PowerState | None, channel: str
    ) -> None:
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        cloud.run()
        Stop.begin(context("alice"), instance.id)
        before = Instance.objects.values().get(id=instance.id)
        key, kept = str(instance.id), agent.guests[str(instance.id)]
        if seen is None:
            agent.guests.pop(key)
        else:
            agent.guests[key] = (kept[0], seen)
        if channel == "report" and seen is not None:
            agent.power(instance.id, seen)
        elif channel == "audit":
            audits.audit(agent.host.id, agent.audit(8, 8192, 100))
        else:
            agent.hello()
        assert Instance.objects.values().get(id=instance.id) == before
        agent.guests[key] = kept
        cloud.run()
        assert state_of(instance) == ("stopped", None)

    def test_an_observation_that_was_read_before_the_task_began(self, cloud: Cloud, alice: RequestContext) -> None:
        cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        cloud.run()
        stale = cloud.fresh(instance)
        reboot(context("alice"), instance.id, hard=True)
        sync_power(stale, PowerState.SHUTDOWN)
        assert state_of(instance) == ("active", "rebooting_hard")
        cloud.run()
        assert state_of(instance) == ("active", None)

    def test_an_old_audit_behind_a_task_that_has_ended(self, cloud: Cloud, alice: RequestContext) -> None:
        """The host looked while the server was off; it was started since."""
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        cloud.run()
        Stop.begin(context("alice"), instance.id)
        cloud.run()
        old = agent.audit(8, 8192, 100)
        Start.begin(context("alice"), instance.id)
        cloud.run()
        audits.audit(agent.host.id, old)
        assert state_of(instance) == ("active", None)
        assert cloud.fresh(instance).power_state == PowerState.RUNNING

    def test_an_observation_of_an_older_guest(self, cloud: Cloud, alice: RequestContext) -> None:
        agent = cloud.add_host("kelvin")
        instance = cloud.launch(alice)
        cloud.run()
        Instance.objects.filter(id=instance.id).update(attempt=2)
        agent.power(instance.id, PowerState.SHUTDOWN)
        agent.hello()
        assert state_of(instance) == ("active", None)


@pytest.mark.django_db
class TestALateReportOfAnOldAttempt:
    def test_it_changes_nothing(self, cloud: Cloud, alice: RequestContext) -> None:
        """The first host failed and the second builds: whatever the first still says, of whatever kind, is passed
        over, and so it is when the second is done.
        """
        for name in ("kelvin", "ohm"):
            cloud.add_host(name)
        instance = cloud.launch(alice)
        drain()
        first = cloud.agent_of(instance)
        (old,) = first.take()
        first.fail(old, "The disk is full.", retryable=True)
        drain()
        second = cloud.agent_of(instance)
        assert second is not first
        (new,) = second.take()

        def everything() -> tuple[Any, ...]:
            row = Instance.objects.values().get(id=instance.id)
            tables = (Event, InstanceFault, Allocation, HostCommand, FixedIP)
            return row, *(list(model.objects.order_by("pk").values()) for model in tables)  # type: ignore[attr-defined]

        for _ in ("while the second builds", "when it is built"):
            known = everything()
            first.steps(old)
            first.report(old, "finished", power_state=1)
            first.report(old, "failed", error_code="x", message="again", retryable=True)
            first.guests[str(instance.id)] = (1, PowerState.SHUTDOWN)
            first.power(instance.id, PowerState.SHUTDOWN)
            receive(first.host.id, first.sent)
            second.report(msgspec.structs.replace(new, generation=1), "finished", power_state=1)
            assert everything() == known
            second.carry_out(new)
            assert state_of(instance) == ("active", None)
        first.guests.clear()
        delete.delete(context("alice"), instance.id)
        with_old_number = everything()
        second.report(old, "finished", power_state=1)
        assert everything() == with_old_number
        cloud.run()
        with pytest.raises(NotFoundError):
            selectors.instance_for(alice, instance.id)
        invariants.check_empty()
