"""A host that returns asks what it owns before it touches anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compute_agent.contract.messages import SERVER, Owned, Ownership
from compute_agent.contract.steps import BUILD_STEPS, START_GUEST
from compute_agent.network.fake import FakeNetwork
from tests.agent.cast import build, destroy, make_spec, make_stage, on_stage, power
from tests.agent.small_portal import small_portal
from tests.agent.test_link import enrolled, linked
from tests.agent.test_restart import killed_at


def owning(*pairs: tuple[str, int]) -> Ownership:
    return Ownership(subjects=[Owned(SERVER, uuid, attempt) for uuid, attempt in pairs])


async def still() -> None:
    """Give whatever might wrongly begin the time to begin."""
    for _ in range(20):
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_begun_build_of_a_server_that_is_gone_meanwhile_is_undone(tmp_path: Path, step: str) -> None:
    command = build(make_spec())
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.resume_owned(owning())
        assert (await stage.end_of(command)).error_code == "superseded"
        assert stage.is_clean()


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_begun_build_of_another_attempt_is_undone(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = build(spec, attempt=2)
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.resume_owned(owning((spec.uuid, 3)))
        assert (await stage.end_of(command)).error_code == "superseded"
        assert stage.is_clean()


async def test_a_begun_build_that_is_still_requested_goes_on(tmp_path: Path) -> None:
    spec = make_spec()
    command = build(spec)
    async with killed_at(tmp_path, "create_disk") as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.resume_owned(owning((spec.uuid, 1)))
        assert (await stage.end_of(command)).kind == "finished"


@pytest.mark.parametrize("step", ["define_domain", START_GUEST])
async def test_nothing_is_touched_before_the_portal_has_spoken(tmp_path: Path, step: str) -> None:
    spec, other = make_spec(), make_spec(number=2)
    command, end_it = build(spec), destroy(other.uuid)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(other))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        before = stage.driver.guests()
        stage.host.accept(end_it)  # kept, and acknowledged; done when the portal has spoken
        await stage.host.check()
        await still()
        assert stage.driver.guests() == before
        assert not stage.ends(command) + stage.ends(end_it)
        assert isinstance(stage.network, FakeNetwork)
        assert other.uuid in stage.network.plugged  # the network of guests is restored all the same
        stage.host.resume_owned(owning((spec.uuid, 1)))
        assert (await stage.end_of(end_it)).kind == "finished"
        assert (await stage.end_of(command)).kind == "finished"
        assert [guest.uuid for guest in stage.driver.guests()] == [spec.uuid]


async def test_guests_that_run_are_left_alone_whatever_the_records_say(tmp_path: Path) -> None:
    """What is to go from the host is destroyed by a command, which can be refused; not by being left out of a list."""
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.resume_owned(owning())
        await still()
        assert [guest.uuid for guest in stage.driver.guests()] == [spec.uuid]


async def test_a_command_for_a_server_that_is_elsewhere_is_not_carried_out(tmp_path: Path) -> None:
    spec = make_spec()
    stop = power(spec.uuid, "stop", attempt=1)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.accept(stop)
        stage.host.resume_owned(owning())
        assert (await stage.end_of(stop)).error_code == "superseded"
        assert stage.driver.guests()[0].power_state == 1


async def test_an_old_destroy_does_not_hit_a_server_that_came_back(tmp_path: Path) -> None:
    spec = make_spec()
    end_it = destroy(spec.uuid, attempt=2)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.accept(end_it)
        stage.host.resume_owned(owning((spec.uuid, 3)))
        assert (await stage.end_of(end_it)).error_code == "superseded"
        assert stage.driver.guests()


async def test_only_the_first_word_counts_while_the_process_runs(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.resume_owned(owning())
        stage.host.resume_owned(owning())
        assert (await stage.do(build(spec))).kind == "finished"


# ----- over the link --------------------------------------------------------------------------------------------------


async def test_the_agent_waits_for_the_word_on_ownership(tmp_path: Path) -> None:
    spec = make_spec()
    command = build(spec)
    async with killed_at(tmp_path, "create_disk") as stage:
        stage.host.accept(command)
    async with small_portal() as portal:
        portal.tells_ownership = False
        stage = make_stage(tmp_path)
        async with linked(stage, enrolled(tmp_path, portal)):
            await portal.connected()
            await still()
            assert not [event for event in portal.events() if event.kind == "finished"]
            await portal.say(owning((spec.uuid, 1)))
            await portal.until(lambda: [e for e in portal.events() if e.kind == "finished"])
