"""An agent that is killed: every command goes on to its end, guests live, nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compute_agent.contract.steps import BUILD_STEPS, START_GUEST
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import HypervisorUnavailableError
from tests.agent.cast import (
    PATIENCE,
    FlakyDriver,
    Gate,
    Stage,
    build,
    destroy,
    make_spec,
    make_stage,
    on_stage,
    power,
    stopped,
)
from tests.agent.small_portal import SmallPortal, small_portal
from tests.agent.watched_driver import WatchedDriver

CHECKOUT = Path(__file__).resolve().parents[2]


@contextlib.asynccontextmanager
async def killed_at(state_dir: Path, step: str) -> AsyncIterator[Stage]:
    """A host that ends while the given step of a build has done its work and said nothing."""
    gate = Gate(step)
    async with on_stage(make_stage(state_dir, after_step=gate)) as stage:
        yield stage
        await gate.until_reached()
        await stopped(stage, gate)


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_build_broken_off_after_any_step_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = build(spec)
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    assert not stage.ends(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert end.kind == "finished"
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 1)]
        assert stage.driver.console_output(spec.uuid, 0, 10_000).data.count(b"SeaBIOS") == 1
        if BUILD_STEPS.index(step) >= BUILD_STEPS.index(START_GUEST):
            assert stage.steps(command).count("create_disk") == 1  # told by the first process, not done again
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == stage.network.filtered == {spec.uuid}


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_build_that_fails_after_the_restart_is_undone(tmp_path: Path, step: str) -> None:
    command = build(make_spec())
    async with killed_at(tmp_path, "define_domain") as stage:
        stage.host.accept(command)
    driver = WatchedDriver(tmp_path, fail_at=step)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        assert (await stage.end_of(command)).kind == "failed"
        assert stage.is_clean()


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_build_whose_deadline_passed_meanwhile_is_undone_unless_it_runs(tmp_path: Path, step: str) -> None:
    command = build(make_spec())
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), awaited=[]) as stage:
        end = await stage.end_of(command)
        if BUILD_STEPS.index(step) >= BUILD_STEPS.index(START_GUEST):
            assert end.kind == "finished"
        else:
            assert end.error_code == "deadline_passed"
            assert stage.is_clean()


async def test_a_destroy_broken_off_is_finished_by_the_next_process(tmp_path: Path) -> None:
    spec = make_spec()
    end_it = destroy(spec.uuid)
    away = FlakyDriver(tmp_path, "destroy", HypervisorUnavailableError("It is away."))
    async with on_stage(make_stage(tmp_path, driver=away)) as stage:
        await stage.do(build(spec))
        stage.host.accept(end_it)
        await asyncio.to_thread(away.called.wait, PATIENCE)
    assert not stage.ends(end_it)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.end_of(end_it)).kind == "finished"
        assert stage.is_clean()


async def test_a_destroy_that_came_during_a_build_wins_after_the_restart(tmp_path: Path) -> None:
    spec = make_spec()
    command, end_it = build(spec), destroy(spec.uuid)
    gate = Gate("create_seed")
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        stage.host.accept(command)
        await gate.until_reached()
        stage.host.accept(end_it)
        await stopped(stage, gate)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.end_of(end_it)).kind == "finished"
        assert (await stage.end_of(command)).error_code == "superseded"
        assert stage.is_clean()


async def test_guests_and_their_network_outlive_the_agent(tmp_path: Path) -> None:
    specs = [make_spec(number=number) for number in (1, 2, 3)]
    async with on_stage(make_stage(tmp_path)) as stage:
        for spec in specs:
            await stage.do(build(spec))
        await stage.do(power(specs[1].uuid, "stop"))
        await stage.do(destroy(specs[2].uuid))
        before = stage.driver.guests()
    async with on_stage(make_stage(tmp_path)) as stage:
        assert stage.driver.guests() == before
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == {specs[0].uuid, specs[1].uuid}
        states = {guest.instance_id: guest.power_state for guest in await stage.host.guests()}
        assert states == {specs[0].uuid: 1, specs[1].uuid: 4}


async def test_commands_are_fenced_by_guests_the_store_has_forgotten(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec, attempt=5))
    for name in ("agent.sqlite3", "agent.sqlite3-wal", "agent.sqlite3-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.do(build(spec, attempt=4))).error_code == "superseded"
        assert (await stage.do(build(spec, attempt=5))).kind == "finished"
        assert stage.driver.console_output(spec.uuid, 0, 10_000).data.count(b"SeaBIOS") == 1


# ----- the process itself, killed with SIGKILL ------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def agent_process(state_dir: Path, portal: SmallPortal, driver: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A real agent; killed at the end."""
    command = ["-m", "compute_agent", "--host", "host-1", "--state-dir", str(state_dir), "--portal", portal.url]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--driver",
        driver,
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "NOVELLA_AGENT_JOIN_TOKEN": "join-1"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.communicate()


@pytest.mark.slow
async def test_a_killed_process_comes_back_and_ends_what_it_began(tmp_path: Path) -> None:
    state_dir = tmp_path / "host-1"
    specs = {step: make_spec(number=number) for number, step in enumerate(BUILD_STEPS, 1)}
    commands = {step: build(spec) for step, spec in specs.items()}
    async with small_portal(tokens={"host-1": "join-1"}) as portal:
        for number, step in enumerate(("create_disk", "wait_for_boot"), 1):
            async with agent_process(state_dir, portal, f"fake:{step}:hang") as process:
                await portal.connected(number)
                await portal.say(commands[step])
                await portal.until(lambda step=step: (commands[step].id, step, "step_started") in facts(portal))
                process.send_signal(signal.SIGKILL)
        async with agent_process(state_dir, portal, "fake") as process:
            await portal.connected(3)
            for step in ("create_disk", "wait_for_boot"):
                await portal.until(lambda step=step: (commands[step].id, "", "finished") in facts(portal))
            last = build(make_spec(number=9))
            await portal.say(last)
            await portal.until(lambda: (last.id, "", "finished") in facts(portal))
            numbers = [event.seq for event in portal.events()]
            assert len(set(numbers)) == len({(event.seq, event.kind, event.step) for event in portal.events()})
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
    assert [bearer is None for bearer, _ in portal.handshakes] == [True, False, False]
    store = (state_dir / "credential.json").stat()
    assert store.st_mode & 0o777 == 0o600


def facts(portal: SmallPortal) -> set[tuple[str, str, str]]:
    return {(event.command_id, event.step, event.kind) for event in portal.events()}
