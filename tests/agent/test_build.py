"""A build: its steps in order, what it reports, and what is left when a step fails."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from compute_agent.engine import context
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import HostError, HypervisorUnavailableError, RetryableHostError
from tests.agent.cast import PATIENCE, FlakyDriver, Gate, Stage, build, destroy, make_spec, make_stage, on_stage
from tests.agent.watched_driver import WatchedDriver


async def test_the_steps_are_taken_in_order_and_reported_with_times(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        command = build(spec, attempt=4)
        end = await stage.do(command)
        assert (end.kind, end.power_state, end.generation) == ("finished", PowerState.RUNNING, 4)
        assert stage.steps(command) == list(BUILD_STEPS)
        events = stage.of(command)
        assert all(0 < event.started_at <= event.finished_at for event in events[:-1])
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 4)]
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == stage.network.filtered == {spec.uuid}


async def test_the_image_step_says_whether_the_bits_were_here(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        first, second = build(make_spec(number=1)), build(make_spec(number=2))
        await stage.do(first)
        await stage.do(second)
        details = [
            event.detail for command in (first, second) for event in stage.of(command) if event.step == "fetch_image"
        ]
        assert [detail["cached"] for detail in details] == ["false", "true"]
        assert {detail["bytes"] for detail in details} == {"29000000"}


def reports_of(stage: Stage, command: Command) -> list[tuple[str, str]]:
    return [(event.kind, event.step) for event in stage.of(command)]


async def test_a_step_that_lasts_is_announced_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "WATCHABLE", 0.001)
    gate = Gate("create_disk")
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        command = build(make_spec())
        stage.host.accept(command)
        await stage.until(lambda: ("step_started", "create_disk") in reports_of(stage, command))
        monkeypatch.setattr(context, "WATCHABLE", 600.0)  # the next step is quick
        gate.open.set()
        await stage.end_of(command)
        kinds = [each for each in reports_of(stage, command) if each[1] in {"create_disk", "create_seed"}]
        assert kinds == [("step_started", "create_disk"), ("step", "create_disk"), ("step", "create_seed")]


@pytest.mark.parametrize("step", BUILD_STEPS)
@pytest.mark.parametrize("kind", ["retryable", "fatal"])
async def test_a_failed_step_leaves_nothing_behind(tmp_path: Path, step: str, kind: str) -> None:
    driver = WatchedDriver(tmp_path, fail_at=step, kind=kind)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        command = build(make_spec())
        end = await stage.do(command)
        assert (end.kind, end.retryable) == ("failed", kind == "retryable")
        assert end.error_code == ("host_failed" if kind == "retryable" else "build_failed")
        assert step in end.message
        assert stage.steps(command) == list(BUILD_STEPS[: BUILD_STEPS.index(step)])
        assert stage.is_clean()


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_bug_in_a_step_is_undone_and_reported_without_its_insides(
    tmp_path: Path, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(name: str, cancelled: threading.Event) -> None:
        if name == step:
            raise ZeroDivisionError("secret /var/lib/path")

    async with on_stage(make_stage(tmp_path, after_step=buggy)) as stage:
        end = await stage.do(build(make_spec()))
        assert (end.kind, end.retryable, end.message) == ("failed", True, "The host could not build the instance.")
        assert stage.is_clean()
    assert "secret /var/lib/path" in caplog.text  # the operator's log has the traceback


async def test_a_hung_step_reports_nothing_until_the_instance_is_destroyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "WATCHABLE", 0.001)
    driver = WatchedDriver(tmp_path, fail_at="define_domain", kind="hang")
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        hung, free = make_spec(), make_spec(number=2)
        command = build(hung)
        stage.host.accept(command)
        await stage.until(lambda: ("step_started", "define_domain") in reports_of(stage, command))
        stage.host.accept(other := build(free))
        gone = await stage.do(destroy(hung.uuid))
        assert gone.kind == "finished"
        assert stage.ends(command)[0].error_code == "cancelled"
        await stage.do(destroy(free.uuid))
        assert stage.ends(other)[0].error_code == "cancelled"
        assert stage.is_clean()


class StubbornNetwork(FakeNetwork):
    """Cannot unplug, for a while."""

    failures = 1_000_000

    def unplug(self, uuid: str) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise RetryableHostError("The network is stubborn.")
        super().unplug(uuid)


async def test_an_undo_that_fails_at_first_is_tried_again(tmp_path: Path) -> None:
    network = StubbornNetwork()
    network.failures = 3
    driver = WatchedDriver(tmp_path, fail_at="start_guest")
    async with on_stage(make_stage(tmp_path, driver=driver, network=network)) as stage:
        assert (await stage.do(build(make_spec()))).retryable
        assert stage.is_clean()


async def test_what_an_undo_could_not_remove_is_removed_later(tmp_path: Path) -> None:
    network = StubbornNetwork()
    driver = WatchedDriver(tmp_path, fail_at="plug_network")
    async with on_stage(make_stage(tmp_path, driver=driver, network=network)) as stage:
        end = await stage.do(build(make_spec()))
        assert (end.kind, end.retryable) == ("failed", True)  # no guest was made: another host may try
        assert not stage.is_clean()
        network.failures = 0
        await stage.host.check()
        await stage.host.idle()
        assert stage.is_clean()


async def test_a_guest_that_cannot_be_removed_is_not_built_elsewhere(tmp_path: Path) -> None:
    driver = FlakyDriver(tmp_path, "destroy", RuntimeError("stuck"))

    def fail_late(step: str, cancelled: threading.Event) -> None:
        if step == "wait_for_boot":
            raise RetryableHostError("It died.")

    async with on_stage(make_stage(tmp_path, driver=driver, after_step=fail_late)) as stage:
        end = await stage.do(build(make_spec()))
        assert (end.kind, end.retryable, end.message) == ("failed", False, "It died.")
        driver.failures = 0
        await stage.host.check()
        await stage.host.idle()
        assert stage.is_clean()


async def test_a_silent_hypervisor_is_waited_for_before_a_started_guest_is_given_up(tmp_path: Path) -> None:
    driver = FlakyDriver(tmp_path, "destroy", HypervisorUnavailableError("It is away."), failures=25)

    def fail_late(step: str, cancelled: threading.Event) -> None:
        if step == "start_guest":
            raise HypervisorUnavailableError("It is away.")

    async with on_stage(make_stage(tmp_path, driver=driver, after_step=fail_late)) as stage:
        end = await stage.do(build(make_spec()))
        assert (end.error_code, end.retryable) == ("hypervisor_unavailable", True)
        assert driver.calls == 26
        assert stage.is_clean()


async def test_the_undo_of_an_old_attempt_spares_a_newer_guest(tmp_path: Path) -> None:
    spec = make_spec()

    def elsewhere(step: str, cancelled: threading.Event) -> None:
        if step == "create_seed":
            stage.driver.define(spec, 7)  # as if another agent of a lost state had built it
            raise HostError("Too late.")

    stage = make_stage(tmp_path, after_step=elsewhere)
    async with on_stage(stage):
        await stage.do(build(spec, attempt=2))
        assert [(guest.uuid, guest.attempt) for guest in stage.driver.guests()] == [(spec.uuid, 7)]
        assert isinstance(stage.network, FakeNetwork)
        assert spec.uuid in stage.network.plugged


async def test_builds_use_no_more_workers_than_allowed(tmp_path: Path) -> None:
    lock, both, inside, most = threading.Lock(), threading.Event(), 0, 0

    def count(step: str, cancelled: threading.Event) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            if inside == 2:
                both.set()
        assert both.wait(PATIENCE), "one build waits for the other"
        time.sleep(0.002)
        with lock:
            inside -= 1

    async with on_stage(make_stage(tmp_path, after_step=count, workers=2)) as stage:
        projects = ("0" * 32, "7" * 32)
        specs = [replace(make_spec(number=each), project_id=projects[each % 2]) for each in range(1, 9)]
        commands = [build(spec) for spec in specs]
        for command in commands:
            stage.host.accept(command)
        for command in commands:
            assert (await stage.end_of(command)).kind == "finished"
    assert most == 2


def _uuids(specs: list[InstanceSpec]) -> set[str]:
    return {spec.uuid for spec in specs}


async def test_many_builds_at_once_all_end(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        specs = [make_spec(number=number) for number in range(1, 26)]
        commands = [build(spec) for spec in specs]
        for command in commands:
            stage.host.accept(command)
        for command in commands:
            assert (await stage.end_of(command)).kind == "finished"
        assert {guest.uuid for guest in stage.driver.guests()} == _uuids(specs)
