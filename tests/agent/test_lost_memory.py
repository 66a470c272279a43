"""Looks at the hypervisor that are older than what is known, and guests that outlive the agent's memory."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import msgspec
import pytest

from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import Guest
from tests.agent.cast import PATIENCE, FlakyDriver, Stage, build, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver


class SlowLister(WatchedDriver):
    """A hypervisor whose answer takes its time on the way back."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.slow = threading.Event()
        self.listed, self.go_on = threading.Event(), threading.Event()

    def guests(self) -> list[Guest]:
        result = super().guests()
        if self.slow.is_set():
            self.slow.clear()
            self.listed.set()
            assert self.go_on.wait(PATIENCE)
        return result


def changes(stage: Stage) -> list[int | None]:
    return [event.power_state for event in stage.said if event.kind == "power"]


@pytest.mark.parametrize("meanwhile", ["build", "stop", "crash"])
async def test_an_older_look_reports_nothing(tmp_path: Path, meanwhile: str) -> None:
    driver = SlowLister(tmp_path)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        if meanwhile != "build":
            await stage.do(build(spec))
        driver.slow.set()
        check = asyncio.ensure_future(stage.host.check())
        assert await asyncio.to_thread(driver.listed.wait, PATIENCE)
        match meanwhile:
            case "build":
                await stage.do(build(spec))
            case "stop":
                await stage.do(power(spec.uuid, "stop"))
            case "crash":
                driver.crash(spec.uuid)
                await stage.until(lambda: changes(stage))
        await stage.host.idle()
        before = changes(stage)
        driver.go_on.set()
        await check
        await asyncio.sleep(0.05)
        assert changes(stage) == before
        await stage.host.check()
        await asyncio.sleep(0.05)
        assert changes(stage) == before


@pytest.mark.parametrize("runs", [True, False], ids=["runs", "half made"])
async def test_a_late_build_whose_guest_is_here_is_not_handed_to_another_host(tmp_path: Path, runs: bool) -> None:
    """The memory was lost, not the guest: the command comes again, and too late."""
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        if not runs:
            await stage.do(power(spec.uuid, "stop"))
    for path in tmp_path.glob("agent.sqlite3*"):
        path.unlink()
    late = build(spec, begin_within=-60.0)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.do(late)
        if runs:
            assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
            assert len(stage.driver.guests()) == 1
        else:
            assert end.kind == "failed"
            assert stage.driver.guests() == []


async def test_a_late_build_leaves_nothing_although_its_beginning_was_forgotten(tmp_path: Path) -> None:
    """A power failure takes the note that it began, and not the disk."""
    command = build(make_spec(), begin_within=-60.0)
    driver = WatchedDriver(tmp_path)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        driver.create_disk(make_spec(command.subject_id), None)
        assert (await stage.do(command)).error_code == "deadline_passed"
        assert stage.is_clean()


async def test_a_late_build_that_cannot_be_undone_is_not_handed_to_another_host(tmp_path: Path) -> None:
    command = build(make_spec(), begin_within=-60.0)
    driver = FlakyDriver(tmp_path, "destroy", RuntimeError("stuck"))
    driver.init_host()
    driver.define(make_spec(command.subject_id), 1)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        end = await stage.do(command)
        assert (end.kind, end.retryable) == ("failed", False)
        driver.failures = 0
        await stage.host.check()
        await stage.host.idle()
        assert stage.is_clean()


async def test_a_password_is_not_remembered_once_the_guest_has_it(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(make_spec(), admin_password="sesame-open")
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    with contextlib.closing(sqlite3.connect(tmp_path / "agent.sqlite3")) as memory:
        [(kept,)] = memory.execute("SELECT description FROM subjects")
        bodies = memory.execute("SELECT body FROM commands").fetchall()
    assert spec.uuid.encode() in kept
    assert b"sesame" not in kept
    assert all(b"sesame" not in body for (body,) in bodies)
