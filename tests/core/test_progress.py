"""What a host works on is waited for: signs of life move the deadline, up to a total; its queue does not count."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, DestroyRequest
from compute_agent.contract.messages import CONTRACT_VERSION, OLDEST_CONTRACT, Command
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import Instance, SchedulingDecision
from provisioning.compute.selectors.explained import AGAIN, attempts_for, decisions_for
from provisioning.compute.selectors.gauges import capacity_by_host
from provisioning.compute.upkeep import reaper
from provisioning.doctor.examinations.examination import findings
from provisioning.hosts import commands, liveness
from provisioning.hosts.models import Host, HostCommand
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain, nobody_looked
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.slow]
BUILDING, ACTIVE = ("building", "spawning"), ("active", None)


@pytest.fixture(autouse=True)
def _limits(settings: Any) -> None:
    settings.BUILD_TIMEOUT, settings.PROGRESS_LIMIT, settings.HOST_QUEUE_TIMEOUT = 600, 4, 3600


@pytest.fixture
@standing
def agent(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("kelvin")


def handed(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, *, begin: bool = True
) -> tuple[Instance, Command]:
    """Launch a server and give its build to the host."""
    instance = cloud.launch(alice)
    drain()
    (build,) = agent.take(begin=begin)
    return instance, build


def pass_time(seconds: float) -> None:
    """Let every time of servers' tasks and commands be so long ago, as if so much had passed."""
    back = timedelta(seconds=seconds)
    for row in Instance.objects.exclude(task_deadline=None):
        Instance.objects.filter(id=row.id).update(task_deadline=row.task_deadline - back)  # type: ignore[operator]
    for command in HostCommand.objects.filter(finished_at=None):
        names = ("created_at", "acknowledged_at", "begun_at", "deadline", "ends_at")
        values = {name: value - back for name in names if (value := getattr(command, name)) is not None}
        HostCommand.objects.filter(id=command.id).update(**values)


def deadline_of(instance: Instance) -> datetime:
    result = Cloud.fresh(instance).task_deadline
    assert result is not None
    return result


def test_a_build_whose_bytes_move_is_not_cut_off(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, build = handed(cloud, alice, agent)
    for kind in ("progress", "progress", "step_started"):
        pass_time(550)
        reaper.reap()
        agent.report(build, kind, step="fetch_image" if kind == "step_started" else "")
        reaper.reap()
        assert deadline_of(instance) > timezone.now() + timedelta(seconds=500)
    agent.carry_out(build)
    assert state_of(instance) == ACTIVE
    assert cloud.fresh(instance).attempt == 1


def test_a_build_that_stands_still_is_cut_off(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, build = handed(cloud, alice, agent)
    pass_time(550)
    agent.report(build, "progress")
    pass_time(601)
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")


def test_no_progress_moves_a_deadline_for_ever(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, build = handed(cloud, alice, agent)
    for _ in range(4):
        pass_time(590)
        agent.report(build, "progress")
        reaper.reap()
        assert state_of(instance) == BUILDING
    pass_time(50)
    agent.report(build, "progress")
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")
    assert cloud.fresh(instance).attempt == 2


@pytest.mark.doctor_finds("missing_commands")
def test_another_servers_host_moves_nothing(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    """Only the host that was told, of the attempt that goes on, and not after the end."""
    other = cloud.add_host("ohm", vcpus=0)
    instance, build = handed(cloud, alice, agent)
    pass_time(300)
    before = deadline_of(instance)
    other.report(build, "progress")
    agent.report(Command(**{**_fields(build), "generation": 7}), "progress")
    agent.report(Command(**{**_fields(build), "id": "nonsense"}), "begun")
    assert deadline_of(instance) == before
    HostCommand.objects.update(finished_at=timezone.now())
    agent.report(build, "progress")
    assert deadline_of(instance) == before


def _fields(command: Command) -> dict[str, Any]:
    return {name: getattr(command, name) for name in command.__struct_fields__}


def test_time_in_the_hosts_queue_does_not_count(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    """The ninetieth of a hundred servers on one host waits for the others."""
    instance, build = handed(cloud, alice, agent, begin=False)
    for _ in range(4):
        pass_time(601)
        reaper.reap()
        assert state_of(instance) == BUILDING
    agent.report(build, "begun")
    pass_time(599)
    reaper.reap()
    assert state_of(instance) == BUILDING
    pass_time(2)
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")


def test_the_hosts_queue_has_a_total_of_its_own(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, _ = handed(cloud, alice, agent, begin=False)
    pass_time(3601)
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")


@pytest.mark.parametrize("why", ["silent", "old", "not taken"])
def test_a_host_that_may_not_have_it_in_its_queue_is_not_waited_for(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, why: str
) -> None:
    """It does not answer, has not taken the command, or would not say that it begins."""
    instance = cloud.launch(alice)
    drain()
    if why != "not taken":
        agent.take(begin=False)
    if why == "silent":
        Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    if why == "old":
        Host.objects.update(contract_version=1)
    pass_time(601)
    reaper.reap()
    assert state_of(instance) != BUILDING


def test_every_action_is_waited_for_in_the_same_way(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, settings: Any
) -> None:
    settings.POWER_TIMEOUT = 100
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    (order,) = agent.take(begin=False)
    pass_time(101)
    reaper.reap()
    assert state_of(instance) == ("active", "powering-off"), "it waits its turn"
    agent.report(order, "begun")
    pass_time(90)
    agent.report(order, "progress")
    pass_time(90)
    reaper.reap()
    assert state_of(instance) == ("active", "powering-off"), "it goes on"
    pass_time(11)
    reaper.reap()
    assert state_of(instance) == ACTIVE


def test_a_quick_build_writes_no_signs_of_life(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    """A launch of a second pays nothing for this."""
    instance, build = handed(cloud, alice, agent, begin=False)
    before = deadline_of(instance)
    agent.steps(build)
    assert HostCommand.objects.get().begun_at is None
    assert deadline_of(instance) == before


def test_times_are_handed_over_as_what_is_left(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    """No host has to know what time it is."""
    cloud.launch(alice)
    drain()
    pass_time(100)
    (build,) = commands.pending(agent.host.id)
    assert (build.timeout, build.total) == (600, 2400)
    assert build.begin_within is not None
    assert 3400 < build.begin_within <= 3500
    assert liveness.ownership(agent.host.id).open == [build.id]


@pytest.mark.parametrize("gap", [7200, -7200], ids=["asleep, or a clock set forward", "a clock set back"])
def test_time_in_which_nobody_looked_takes_no_live_build_away(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, gap: int
) -> None:
    instance, build = handed(cloud, alice, agent)
    pass_time(gap)
    nobody_looked("compute.reaper", gap)
    reaper.reap()
    left = deadline_of(instance) - timezone.now()
    assert timedelta(seconds=500) < left < timedelta(seconds=650)
    command = HostCommand.objects.get()
    assert command.ends_at is not None
    assert timedelta(seconds=2300) < command.ends_at - timezone.now() < timedelta(seconds=2450)
    nobody_looked("compute.reaper", 5)
    reaper.reap()
    assert deadline_of(instance) - timezone.now() < timedelta(seconds=650)
    agent.carry_out(build)
    assert state_of(instance) == ACTIVE


# ----- the only host --------------------------------------------------------------------------------------------------


def test_the_only_host_is_tried_again_and_not_for_ever(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, settings: Any
) -> None:
    settings.MAX_SCHEDULE_ATTEMPTS = 3
    instance, build = handed(cloud, alice, agent)
    for _ in range(2):
        agent.fail(build, "The portal is away.", retryable=True)
        drain()
        (build,) = agent.take()
        assert isinstance(build.body, BuildRequest)
        assert state_of(instance) == BUILDING
    decision = SchedulingDecision.objects.latest("id")
    assert (decision.host_name, decision.asked["failed_before"], decision.asked["tried_before"]) == ("kelvin", True, 2)
    assert decisions_for(alice, instance.id)[0].sentence.startswith(AGAIN)
    agent.fail(build, "The portal is away.", retryable=True)
    drain()
    assert state_of(instance) == ("error", None)
    assert "3 times on 1 host" in selectors.fault_of([cloud.fresh(instance)])[instance.id].message
    assert len(attempts_for(alice, instance.id)) == 3


def test_the_only_host_makes_it_the_second_time(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, build = handed(cloud, alice, agent)
    agent.fail(build, "The portal is away.", retryable=True)
    cloud.run()
    assert state_of(instance) == ACTIVE


def test_a_host_that_was_silent_builds_again_what_it_has_removed(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent
) -> None:
    """The new build bears a higher attempt than the removal, which a host would take for newer otherwise."""
    instance, build = handed(cloud, alice, agent)
    pass_time(601)
    reaper.reap()
    (removal,) = agent.take()
    assert isinstance(removal.body, DestroyRequest)
    agent.carry_out(removal)
    drain()
    (again,) = agent.take()
    assert isinstance(again.body, BuildRequest)
    assert again.generation > removal.generation > build.generation
    agent.carry_out(build)
    agent.carry_out(again)
    assert state_of(instance) == ACTIVE
    assert agent.guests[str(instance.id)][0] == again.generation == cloud.fresh(instance).attempt


def test_another_host_is_better_than_one_that_failed(cloud: Cloud, alice: RequestContext, agent: ScriptedAgent) -> None:
    instance, build = handed(cloud, alice, agent)
    cloud.add_host("ohm")
    agent.fail(build, "The portal is away.", retryable=True)
    cloud.run()
    assert cloud.fresh(instance).host_name == "ohm"
    assert "failed_before" not in SchedulingDecision.objects.latest("id").asked


# ----- clocks ---------------------------------------------------------------------------------------------------------


def test_a_host_whose_clock_is_minutes_away_is_notified_and_works(
    cloud: Cloud, alice: RequestContext, agent: ScriptedAgent, caplog: pytest.LogCaptureFixture
) -> None:
    for ahead in (5, 1200, 1201, -7200):
        agent.hello(time=time.time() + ahead)
    assert [record.args[0] for record in caplog.records if "clock of host" in record.msg] == ["kelvin"]  # type: ignore[index]
    assert Host.objects.get().clock_difference == pytest.approx(-7200, abs=10)
    (finding,) = findings({"clocks"})
    assert (finding.severity, finding.subject) == ("warning", "host kelvin")
    assert [row.wrong_clock for row in capacity_by_host(timezone.now())] == [1]
    cloud.launch(alice)
    cloud.run()
    assert state_of(Instance.objects.get()) == ACTIVE
    liveness.heartbeat(agent.host.id, time.time())
    assert Host.objects.get().clock_difference == pytest.approx(0, abs=10)
    assert list(findings({"clocks"})) == []


def test_what_is_no_time_is_passed_over(agent: ScriptedAgent) -> None:
    for clock in (None, float("nan"), float("inf")):
        liveness.heartbeat(agent.host.id, clock)
    assert Host.objects.get().clock_difference is None


# ----- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(OLDEST_CONTRACT, CONTRACT_VERSION + 1))
def test_agents_of_the_version_before_are_let_in(agent: ScriptedAgent, version: int) -> None:
    agent.hello(contract=version)
    assert Host.objects.get().contract_version == version
