"""Power: commands, and changes that no command made."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import HypervisorUnavailableError, RetryableHostError
from tests.agent.cast import FlakyDriver, Stage, build, destroy, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver


def changes(stage: Stage) -> list[tuple[str, int, int | None]]:
    return [(event.subject_id, event.generation, event.power_state) for event in stage.said if event.kind == "power"]


@pytest.mark.parametrize(
    ("actions", "state"),
    [
        (["stop"], PowerState.SHUTDOWN),
        (["stop", "start"], PowerState.RUNNING),
        (["reboot_soft"], PowerState.RUNNING),
        (["reboot_hard"], PowerState.RUNNING),
        (["start"], PowerState.RUNNING),
    ],
)
async def test_power_commands_end_with_the_state_they_reached(
    tmp_path: Path, actions: list[str], state: PowerState
) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        for action in actions:
            end = await stage.do(power(spec.uuid, action))
        assert (end.kind, end.power_state) == ("finished", state)
        await stage.host.check()
        assert changes(stage) == []  # the ends of the commands have told it


async def test_a_command_for_a_guest_that_is_not_here_fails(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.do(power(make_spec().uuid, "start"))
        assert (end.kind, end.error_code, end.retryable) == ("failed", "instance_not_found", False)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RetryableHostError("No room."), "host_failed", "No room."),
        (KeyError("inside"), "host_error", "The host could not complete the action."),
    ],
)
async def test_a_failed_power_command_leaves_the_guest(
    tmp_path: Path, error: Exception, code: str, message: str
) -> None:
    driver = FlakyDriver(tmp_path, "start", error, failures=0)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        driver.failures = 10
        end = await stage.do(power(spec.uuid, "start"))
        assert (end.error_code, end.message, end.retryable) == (code, message, True)
        assert len(stage.driver.guests()) == 1


async def test_a_guest_that_dies_is_reported_once(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec, attempt=2))
        assert isinstance(stage.driver, WatchedDriver)
        stage.driver.crash(spec.uuid)
        await stage.until(lambda: changes(stage))
        await stage.host.check()
        assert changes(stage) == [(spec.uuid, 2, PowerState.CRASHED)]


async def test_a_guest_that_dies_while_its_build_ends_is_reported(tmp_path: Path) -> None:
    class Dying(WatchedDriver):
        def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
            state = super().wait_for_boot(uuid, timeout)
            self.crash(uuid)
            return state

    async with on_stage(make_stage(tmp_path, driver=Dying(tmp_path))) as stage:
        spec = make_spec()
        assert (await stage.do(build(spec))).power_state == PowerState.RUNNING
        await stage.until(lambda: changes(stage))
        assert changes(stage) == [(spec.uuid, 1, PowerState.CRASHED)]


async def test_a_change_that_was_not_heard_is_found_by_the_regular_check(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        assert isinstance(stage.driver, WatchedDriver)
        stopped, vanished = make_spec(), make_spec(number=2)
        for spec in (stopped, vanished):
            await stage.do(build(spec))
        stage.driver.on_power_change(lambda uuid, state: None)
        stage.driver.stop(stopped.uuid, 1)
        stage.driver.destroy(vanished.uuid)
        await stage.host.check()
        await stage.until(lambda: len(changes(stage)) == 2)
        assert set(changes(stage)) == {
            (stopped.uuid, 1, PowerState.SHUTDOWN),
            (vanished.uuid, 1, PowerState.NOSTATE),
        }


async def test_a_destroyed_guest_has_no_power_to_tell(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        await stage.do(destroy(spec.uuid))
        await stage.host.check()
        assert changes(stage) == []


async def test_a_hypervisor_that_was_away_is_connected_again(tmp_path: Path) -> None:
    class Away(FlakyDriver):
        connected = 0

        def init_host(self) -> None:
            self.connected += 1
            super().init_host()

    driver = Away(tmp_path, "guests", HypervisorUnavailableError("It is away."), failures=0)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        driver.calls, driver.failures = 0, 1
        await stage.host.check()
        assert driver.connected == 2
        await stage.host.check()
        assert driver.connected == 2
