"""Commands: once each, in order, fenced by attempt and deadline; a destroy goes first and ends a build."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import get_args

import pytest

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.network import ForgetRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from compute_agent.engine.store import StateStore
from compute_agent.network.kinds import BODIES
from compute_agent.servers.kind import HANDLERS, by_body
from compute_agent.servers.power import Power
from compute_agent.virt.errors import HypervisorUnavailableError
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.kind import volume_kinds
from compute_agent.volumes.memory import VolumeMemory
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.cast import FlakyDriver, Gate, build, destroy, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver


def boots(driver: object, uuid: str) -> int:
    """How many times the guest was started."""
    assert isinstance(driver, WatchedDriver)
    return driver.console_output(uuid, 0, 1_000_000).data.count(b"SeaBIOS")


async def test_a_command_delivered_twice_has_one_effect(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        command = build(spec)
        stage.host.accept(command)
        stage.host.accept(command)
        await stage.end_of(command)
        stage.host.accept(command)
        await stage.host.idle()
        assert len(stage.ends(command)) == 1
        assert stage.steps(command) == list(BUILD_STEPS)
        assert boots(stage.driver, spec.uuid) == 1


async def test_a_command_of_an_older_attempt_is_superseded(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec, attempt=3))
        for late in (build(spec, attempt=2), destroy(spec.uuid, 2), power(spec.uuid, "stop", 2)):
            end = await stage.do(late)
            assert (end.kind, end.error_code, end.retryable) == ("failed", "superseded", False)
            assert stage.steps(late) == []
        assert [(guest.attempt, guest.power_state) for guest in stage.driver.guests()] == [(3, PowerState.RUNNING)]


async def test_a_newer_attempt_ends_an_older_build(tmp_path: Path) -> None:
    gate = Gate("create_disk")
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        spec = make_spec()
        old, new = build(spec, attempt=1), build(spec, attempt=2)
        stage.host.accept(old)
        await gate.until_reached()
        stage.host.accept(new)
        gate.open.set()
        assert (await stage.end_of(new)).kind == "finished"
        assert stage.ends(old)[0].error_code == "superseded"
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 2)]


async def test_a_newer_attempt_replaces_a_guest_of_an_older_one(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec, attempt=1))
        assert (await stage.do(build(spec, attempt=2))).kind == "finished"
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 2)]


async def test_a_late_build_is_not_begun(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        late = build(make_spec(), begin_within=-1.0)
        end = await stage.do(late)
        assert (end.error_code, end.retryable) == ("deadline_passed", True)
        assert stage.steps(late) == []
        assert stage.is_clean()
        in_time = build(make_spec(number=2), begin_within=60.0)
        assert (await stage.do(in_time)).kind == "finished"


async def test_a_build_that_comes_after_its_destroy_is_superseded(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(destroy(spec.uuid, 1))
        end = await stage.do(build(spec, attempt=1))
        assert end.error_code == "superseded"
        assert stage.is_clean()
        assert (await stage.do(build(spec, attempt=2))).kind == "finished"


async def test_destroying_is_idempotent(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        for _ in range(2):
            end = await stage.do(destroy(spec.uuid))
            assert (end.kind, end.power_state) == ("finished", PowerState.NOSTATE)
        assert stage.is_clean()


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_destroy_ends_a_build_at_the_next_step(tmp_path: Path, step: str) -> None:
    gate = Gate(step)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        spec = make_spec()
        command, end_it = build(spec), destroy(spec.uuid)
        stage.host.accept(command)
        await gate.until_reached()
        stage.host.accept(end_it)
        gate.open.set()
        assert (await stage.end_of(end_it)).kind == "finished"
        (end,) = stage.ends(command)
        assert (end.kind, end.error_code) == ("failed", "cancelled")
        assert end.seq < stage.ends(end_it)[0].seq
        assert stage.steps(command) == list(BUILD_STEPS[: BUILD_STEPS.index(step) + 1])
        assert stage.is_clean()


async def test_a_destroy_overtakes_what_waits(tmp_path: Path) -> None:
    gate = Gate("plug_network")
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        spec = make_spec()
        command, stop, end_it = build(spec), power(spec.uuid, "stop"), destroy(spec.uuid)
        for waiting in (command, stop):
            stage.host.accept(waiting)
        await gate.until_reached()
        stage.host.accept(end_it)
        gate.open.set()
        ends = [await stage.end_of(one) for one in (command, end_it, stop)]
        assert [end.error_code for end in ends] == ["cancelled", "", "superseded"]
        assert [end.seq for end in ends] == sorted(end.seq for end in ends)
        assert stage.is_clean()


async def test_a_destroy_waits_for_no_other_build(tmp_path: Path) -> None:
    gate = Gate("plug_network")
    async with on_stage(make_stage(tmp_path, workers=1)) as stage:
        old = make_spec()
        await stage.do(build(old))
    async with on_stage(make_stage(tmp_path, after_step=gate, workers=1)) as stage:
        busy, waiting = build(make_spec(number=2)), build(make_spec(number=3))
        stage.host.accept(busy)
        stage.host.accept(waiting)
        await gate.until_reached()
        assert (await stage.do(destroy(old.uuid))).kind == "finished"
        assert (await stage.do(destroy(waiting.subject_id))).kind == "finished"
        assert stage.ends(waiting)[0].error_code == "cancelled"
        assert not stage.ends(busy)
        gate.open.set()
        assert (await stage.end_of(busy)).kind == "finished"


async def test_a_destroy_waits_for_a_hypervisor_that_is_away(tmp_path: Path) -> None:
    driver = FlakyDriver(tmp_path, "destroy", HypervisorUnavailableError("It is away."), failures=20)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        assert (await stage.do(destroy(spec.uuid))).kind == "finished"
        assert stage.is_clean()


async def test_a_destroy_that_cannot_be_done_says_so_and_goes_on(tmp_path: Path) -> None:
    driver = FlakyDriver(tmp_path, "destroy", RuntimeError("stuck"))
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        end = await stage.do(destroy(spec.uuid))
        assert (end.error_code, end.retryable) == ("destroy_failed", True)
        driver.failures = 0
        await stage.host.check()
        await stage.host.idle()
        assert stage.is_clean()


async def test_one_instance_has_one_command_at_a_time(tmp_path: Path) -> None:
    working: dict[str, int] = {}
    lock = threading.Lock()

    class Watchful(WatchedDriver):
        def _inside(self, uuid: str) -> None:
            with lock:
                working[uuid] = working.get(uuid, 0) + 1
                assert working[uuid] == 1
            time.sleep(0.001)
            with lock:
                working[uuid] -= 1

        def start(self, uuid: str) -> None:
            self._inside(uuid)
            super().start(uuid)

        def stop(self, uuid: str, timeout: float) -> None:
            self._inside(uuid)
            super().stop(uuid, timeout)

    async with on_stage(make_stage(tmp_path, driver=Watchful(tmp_path))) as stage:
        spec = make_spec()
        commands = [build(spec)] + [power(spec.uuid, action) for action in ("stop", "start") * 5]
        for one in commands:
            stage.host.accept(one)
        ends = [await stage.end_of(one) for one in commands]
        assert {end.kind for end in ends} == {"finished"}
        assert [end.seq for end in ends] == sorted(end.seq for end in ends)
        states = [end.power_state for end in ends]
        assert states == [1] + [4, 1] * 5


async def test_a_store_that_cannot_be_written_delays_a_command_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compute_agent.engine.runner.AGAIN", 0.01)
    driver = FlakyDriver(tmp_path, "destroy", RuntimeError("must not be called"), failures=0)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        command = build(spec)
        finish = stage.host.outbox._store.finish
        failures = iter([True, True, False])

        def full_disk(*given: object, **named: object) -> None:
            if next(failures, False):
                raise OSError("No space left on device")
            finish(*given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(stage.host.outbox._store, "finish", full_disk)
        stage.host.accept(command)
        end = await stage.end_of(command)
        assert end.kind == "finished"
        assert boots(stage.driver, spec.uuid) == 1
        assert driver.calls == 0
        await asyncio.wait_for(stage.host.idle(), 60)


async def test_an_earlier_guest_that_cannot_be_removed_is_not_joined_by_another(tmp_path: Path) -> None:
    driver = FlakyDriver(tmp_path, "destroy", RuntimeError("stuck"))
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec, attempt=1))
        end = await stage.do(build(spec, attempt=2))
        assert (end.kind, end.retryable) == ("failed", False)
        assert [guest.attempt for guest in stage.driver.guests()] == [1]


def test_every_command_has_one_handler() -> None:
    volumes = Volumes([], Daemons(Path(), Path(), Address(str), Path()), Outside(FakeImageCache()))
    kinds = volume_kinds(volumes, VolumeMemory(StateStore(None)), set)
    of_volumes = [body for kind in kinds for body in kind.handlers]
    assert len(of_volumes) == len(set(of_volumes))
    handled = by_body(HANDLERS).keys() | {ForgetRequest, *BODIES.values(), *of_volumes}
    assert handled == set(get_args(CommandBody))


def test_two_handlers_of_one_command_are_refused() -> None:
    class Second(Power):
        pass

    with pytest.raises(TypeError, match="PowerRequest"):
        by_body((*HANDLERS, Second))
