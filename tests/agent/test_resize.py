"""Resizing on a host: the agent may die at every step, and what fails leaves the guest as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.servers import resize as resizing
from compute_agent.virt.errors import HypervisorUnavailableError, RetryableHostError
from compute_agent.virt.fake.state import FakeGuest
from tests.agent.cast import Gate, Stage, build, destroy, make_command, make_spec, make_stage, on_stage, power
from tests.agent.test_restart import killed_at
from tests.agent.watched_driver import WatchedDriver

STEPS = ("stop_guest", "resize_guest", "start_guest", "wait_for_boot")


def larger(spec: InstanceSpec) -> InstanceSpec:
    flavor = msgspec.structs.replace(spec.flavor, vcpus=4, memory_mb=512, root_gb=5)
    return msgspec.structs.replace(spec, flavor=flavor)


def resize(spec: InstanceSpec, *, start: bool = True) -> Command:
    body = ResizeRequest(instance=larger(spec), old_flavor=spec.flavor, start=start, timeout=1)
    return make_command(body, spec.uuid)


def guest_of(stage: Stage, spec: InstanceSpec) -> FakeGuest:
    assert isinstance(stage.driver, WatchedDriver)
    return stage.driver._guest(spec.uuid)


def size(stage: Stage, spec: InstanceSpec) -> tuple[int, int, int]:
    guest = guest_of(stage, spec)
    return guest.vcpus, guest.memory_mb, guest.disk_gb


OLD, NEW = (1, 96, 1), (4, 512, 5)


@pytest.mark.parametrize("start", [True, False], ids=["running", "stopped"])
async def test_a_guest_is_resized_and_confirmed(tmp_path: Path, *, start: bool) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        if not start:
            await stage.do(power(spec.uuid, "stop"))
        command = resize(spec, start=start)
        end = await stage.do(command)
        state = PowerState.RUNNING if start else PowerState.SHUTDOWN
        assert (end.kind, end.power_state, size(stage, spec)) == ("finished", state, NEW)
        assert stage.steps(command) == list(STEPS if start else STEPS[:2])
        assert guest_of(stage, spec).before == OLD
        for _ in range(2):
            end = await stage.do(make_command(ConfirmResizeRequest(), spec.uuid))
            assert (end.kind, end.power_state, guest_of(stage, spec).before) == ("finished", state, None)


@pytest.mark.parametrize("start", [True, False], ids=["running", "stopped"])
async def test_a_guest_goes_back(tmp_path: Path, *, start: bool) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        await stage.do(resize(spec))
        end = await stage.do(make_command(RevertResizeRequest(instance=spec, start=start), spec.uuid))
        state = PowerState.RUNNING if start else PowerState.SHUTDOWN
        assert (end.kind, end.power_state, size(stage, spec)) == ("finished", state, OLD)


async def test_a_restarted_agent_knows_the_new_size(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(resize(spec))
    async with on_stage(make_stage(tmp_path)) as stage:
        known = stage.host.servers.records.specs()[spec.uuid]
        assert known.flavor == larger(spec).flavor


@pytest.mark.parametrize("step", STEPS)
async def test_a_resize_broken_off_after_any_step_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = resize(spec)
    async with killed_at(tmp_path, step) as stage:
        await stage.do(build(spec)) if step not in {"start_guest", "wait_for_boot"} else await built(stage, spec)
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state, size(stage, spec)) == ("finished", PowerState.RUNNING, NEW)
        assert guest_of(stage, spec).before == OLD


async def built(stage: Stage, spec: InstanceSpec) -> None:
    """Make the guest without the steps that it shares with a resize."""
    stage.driver.create_disk(spec, None)
    stage.driver.create_seed(spec)
    stage.driver.define(spec, 1)
    stage.driver.start(spec.uuid)


@pytest.mark.parametrize("step", ["stop_guest", "restore_guest"])
async def test_a_revert_broken_off_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(resize(spec))
    command = make_command(RevertResizeRequest(instance=spec), spec.uuid)
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state, size(stage, spec)) == ("finished", PowerState.RUNNING, OLD)


@pytest.mark.parametrize("step", STEPS)
async def test_a_resize_whose_deadline_passed_meanwhile_leaves_a_guest_that_runs(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = resize(spec)
    async with killed_at(tmp_path, step) as stage:
        await built(stage, spec)
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), awaited=[]) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.error_code) == ("failed", "deadline_passed")
        assert guest_of(stage, spec).power == PowerState.RUNNING
        assert size(stage, spec) == (OLD if step in {"stop_guest", "resize_guest"} else NEW)


class Broken(WatchedDriver):
    """A hypervisor that cannot do some things, each as often as is said."""

    def __init__(self, state_dir: Path, error: Exception, **often: int) -> None:
        super().__init__(state_dir)
        self.error, self.often = error, often

    def _maybe_fail(self, method: str) -> None:
        if self.often.get(method, 0) > 0:
            self.often[method] -= 1
            raise self.error

    def stop(self, uuid: str, timeout: float) -> None:
        self._maybe_fail("stop")
        super().stop(uuid, timeout)

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        super().resize(spec, attempt)  # so that there is something to undo
        self._maybe_fail("resize")

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        self._maybe_fail("revert_resize")
        super().revert_resize(spec, attempt)

    def start(self, uuid: str) -> None:
        self._maybe_fail("start")
        super().start(uuid)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing, "PAUSES", (0.0, 0.0, 0.0))


@pytest.mark.parametrize("often", [{"stop": 1}, {"resize": 1}, {"start": 1}, {"resize": 1, "revert_resize": 3}])
@pytest.mark.parametrize(
    ("error", "code"),
    [(RetryableHostError("No room."), "host_failed"), (KeyError("inside"), "host_error")],
    ids=["anticipated", "not"],
)
async def test_a_resize_that_fails_leaves_the_guest_as_it_was(
    tmp_path: Path, often: dict[str, int], error: Exception, code: str
) -> None:
    driver = Broken(tmp_path, error)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        driver.often = dict(often)
        end = await stage.do(resize(spec))
        assert (end.kind, end.error_code) == ("failed", code)
        guest = guest_of(stage, spec)
        assert (size(stage, spec), guest.power, guest.before) == (OLD, PowerState.RUNNING, None)
        assert stage.host.servers.records.specs()[spec.uuid].flavor == spec.flavor
        assert (await stage.do(resize(spec))).kind == "finished"


async def test_a_stopped_guest_stays_off_when_its_resize_fails(tmp_path: Path) -> None:
    driver = Broken(tmp_path, RetryableHostError("No room."), resize=1)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        await stage.do(power(spec.uuid, "stop"))
        assert (await stage.do(resize(spec, start=False))).kind == "failed"
        assert (size(stage, spec), guest_of(stage, spec).power) == (OLD, PowerState.SHUTDOWN)


async def test_a_guest_that_will_not_come_back_is_distinguished(tmp_path: Path) -> None:
    driver = Broken(tmp_path, HypervisorUnavailableError("It is away."), resize=1, revert_resize=9)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        end = await stage.do(resize(spec))
        assert (end.error_code, end.retryable) == ("not_restored", False)
        assert end.message == "It is away. Its previous size could not be restored."


async def test_a_guest_that_is_not_here_is_not_resized(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.do(resize(make_spec()))
        assert (end.kind, end.error_code) == ("failed", "instance_not_found")


@pytest.mark.parametrize("step", STEPS)
async def test_a_delete_in_the_middle_leaves_nothing(tmp_path: Path, step: str) -> None:
    gate = Gate(step)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        spec = make_spec()
        await built(stage, spec)
        command, end_it = resize(spec), destroy(spec.uuid, 2)
        stage.host.accept(command)
        await gate.until_reached()
        stage.host.accept(end_it)
        gate.open.set()
        assert (await stage.end_of(end_it)).kind == "finished"
        assert stage.is_clean()
        (end,) = stage.ends(command)
        if step != STEPS[-1]:
            assert (end.kind, end.error_code) == ("failed", "cancelled")
        await asyncio.sleep(0)
