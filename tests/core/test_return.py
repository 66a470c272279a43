"""An agent that dies in the middle of a build and returns to a cloud that has moved on: the records, a real agent's
manager and its hypervisor of books, end to end.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, Command, Ownership
from compute_agent.contract.steps import BUILD_STEPS
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.compute.upkeep.reaper import reap
from provisioning.doctor.examinations.examination import examine
from provisioning.hosts import commands, liveness, reports
from provisioning.hosts.models import Host
from provisioning.jobs.models import WorkerBeat
from tests.agent.cast import make_stage, on_stage
from tests.agent.test_restart import killed_at
from tests.support import invariants
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain
from tests.support.landing import one_in
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.slow

STEPS = ["plug_network", "define_domain", "start_guest", "wait_for_boot"]
Ran = set[tuple[str, int]]


def begin_and_die(folder: Path, commands: list[Command], step: str) -> None:
    """An agent takes the commands, and is gone when a build has done ``step``."""

    async def live() -> None:
        async with killed_at(folder, step) as stage:
            for command in commands:
                stage.host.accept(command)

    asyncio.run(live())


def come_back(folder: Path, ownership: Ownership, commands: list[Command]) -> tuple[list[AgentEvent], Ran]:
    """The next agent hears what it owns and what is ordered; returns what it reports, and its guests at the end."""

    async def live() -> tuple[list[AgentEvent], Ran]:
        async with on_stage(make_stage(folder), welcomed=False) as stage:
            stage.host.resume_owned(ownership)
            for command in commands:
                stage.host.accept(command)
            await stage.host.idle()
            await stage.until(lambda: any(event.kind in {"finished", "failed"} for event in stage.said))
            await stage.until(lambda: stage.host.outbox._pending.keys() <= {event.seq for event in stage.said})
            return stage.said, {(guest.uuid, int(guest.power_state)) for guest in stage.driver.guests()}

    return asyncio.run(live())


def back(folder: Path, agent: ScriptedAgent) -> Ran:
    """The host returns to the portal, which says what it owns, then what it orders, and takes its reports."""
    agent.hello()
    events, ran = come_back(folder, liveness.ownership(agent.host.id), agent.take())
    reports.receive(agent.host.id, events)
    return ran


@pytest.fixture
@standing
def lost(cloud: Cloud, alice: RequestContext) -> tuple[Instance, ScriptedAgent, list[Command]]:
    """A launch whose order its host has taken."""
    agent = cloud.add_host("one")
    row = cloud.launch(alice)
    drain()
    return cloud.fresh(row), agent, agent.take()


Lost = tuple[Instance, ScriptedAgent, list[Command]]


@pytest.mark.parametrize("step", BUILD_STEPS)
def test_a_server_that_is_still_requested_is_built_to_its_end(
    cloud: Cloud, lost: Lost, tmp_path: Path, step: str
) -> None:
    row, agent, given = lost
    begin_and_die(tmp_path, given, step)
    assert back(tmp_path, agent) == {(str(row.id), 1)}
    assert cloud.fresh(row).vm_state == VmState.ACTIVE


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("down", [True, False])
def test_a_server_that_was_deleted_meanwhile_is_never_booted(lost: Lost, tmp_path: Path, step: str, down: bool) -> None:
    row, agent, given = lost
    begin_and_die(tmp_path, given, step)
    if down:
        Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    delete(context("alice"), row.id)
    assert back(tmp_path, agent) == set()
    invariants.check_empty()


def test_what_waits_for_the_order_to_destroy_is_not_booted_meanwhile(lost: Lost, tmp_path: Path) -> None:
    """The list alone is enough: the order may come much later."""
    row, agent, given = lost
    begin_and_die(tmp_path, given, "create_disk")
    delete(context("alice"), row.id)
    events, ran = come_back(tmp_path, liveness.ownership(agent.host.id), [])
    assert ran == set()
    assert [event.error_code for event in events if event.kind == "failed"] == ["superseded"]
    reports.receive(agent.host.id, events)
    assert back(tmp_path, agent) == set()
    invariants.check_empty()


@one_in(2, "step", STEPS)
def test_a_server_that_was_built_elsewhere_meanwhile_has_one_guest(
    cloud: Cloud, lost: Lost, tmp_path: Path, step: str
) -> None:
    row, agent, given = lost
    other = cloud.add_host("two")
    begin_and_die(tmp_path, given, step)
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    assert liveness.ownership(agent.host.id).subjects == []
    assert back(tmp_path, agent) == set()
    drain()
    other.work()
    assert set(other.guests) == {str(row.id)}
    assert cloud.fresh(row).host == other.host
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler", beat_at=timezone.now() + timedelta(hours=1))
    assert [str(finding) for finding in examine(pause=0)] == []
    assert commands.pending(agent.host.id) == []
