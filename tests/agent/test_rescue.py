"""Rescue, unrescue and rebuild on a host: step by step, broken off, failing, overtaken by a destroy."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec, RescueImage
from compute_agent.contract.commands import RebuildRequest, RescueRequest, UnrescueRequest, images_of
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import RetryableHostError
from tests.agent.cast import (
    FlakyDriver,
    Gate,
    Stage,
    build,
    destroy,
    make_command,
    make_spec,
    make_stage,
    on_stage,
    power,
)
from tests.agent.test_restart import killed_at
from tests.agent.watched_driver import WatchedDriver

RESCUE_STEPS = ("fetch_image", "stop_guest", "create_disk", "start_guest", "wait_for_boot")
UNRESCUE_STEPS = ("stop_guest", "define_domain", "start_guest", "wait_for_boot")


def image(number: int, disk_format: str = "raw") -> ImageRef:
    return ImageRef(
        id=f"9d000000-0000-4000-8000-{number:012d}",
        name=f"image {number}",
        disk_format=disk_format,
        size=1_000,
        hash_algo="sha512",
        hash_value=f"{number:02x}" * 64,
    )


def rescued_spec(spec: InstanceSpec) -> InstanceSpec:
    return replace(spec, rescue=RescueImage(image=image(1), kernel=image(2, "aki"), ramdisk=image(3, "ari")))


def rescue(spec: InstanceSpec, *, ran: bool = True) -> Command:
    return make_command(RescueRequest(instance=rescued_spec(spec), ran=ran, timeout=1), spec.uuid)


def unrescue(spec: InstanceSpec) -> Command:
    return make_command(UnrescueRequest(instance=spec, timeout=1), spec.uuid)


def rebuild(spec: InstanceSpec, *, start: bool = True) -> Command:
    return make_command(RebuildRequest(instance=spec, start=start), spec.uuid)


def rescued(stage: Stage) -> set[str]:
    assert isinstance(stage.driver, WatchedDriver)
    return stage.driver.rescued()


def state_of(stage: Stage) -> list[PowerState]:
    return [guest.power_state for guest in stage.driver.guests()]


def test_a_command_needs_every_image_it_names() -> None:
    spec = replace(make_spec(), kernel=image(4, "aki"), ramdisk=image(5, "ari"))
    own = {spec.image.id, image(4).id, image(5).id}
    assert images_of(build(spec).body) == images_of(rebuild(spec).body) == own
    assert images_of(rescue(spec).body) == own | {image(number).id for number in (1, 2, 3)}
    assert images_of(unrescue(spec).body) == set()


async def test_a_build_fetches_the_kernel_and_the_ramdisk(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = replace(make_spec(), kernel=image(4, "aki"), ramdisk=image(5, "ari"))
        assert (await stage.do(build(spec))).kind == "finished"
        assert set(stage.images.cached()) == {spec.image.id, image(4).id, image(5).id}
        assert stage.host.servers.records.images() == set(stage.images.cached())


async def test_a_guest_is_rescued_and_comes_back(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        command = rescue(spec)
        end = await stage.do(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert stage.steps(command) == list(RESCUE_STEPS)
        assert rescued(stage) == {spec.uuid}
        kept = {spec.image.id, image(1).id, image(2).id, image(3).id}
        assert stage.host.servers.records.images() == kept, "its disk lies on the image"
        command = unrescue(spec)
        end = await stage.do(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert stage.steps(command) == list(UNRESCUE_STEPS)
        assert rescued(stage) == set()
        assert stage.host.servers.records.images() == {spec.image.id}


async def test_a_rescued_guest_outlives_the_agent(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(rescue(spec))
    async with on_stage(make_stage(tmp_path)) as stage:
        assert rescued(stage) == {spec.uuid}
        assert state_of(stage) == [PowerState.RUNNING]
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == {spec.uuid}
        assert image(1).id in stage.host.servers.records.images()
        await stage.do(unrescue(spec))
        assert rescued(stage) == set()


@pytest.mark.parametrize("step", RESCUE_STEPS)
async def test_a_rescue_broken_off_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = rescue(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    assert not stage.ends(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert rescued(stage) == {spec.uuid}


@pytest.mark.parametrize("step", UNRESCUE_STEPS)
async def test_an_unrescue_broken_off_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = unrescue(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(rescue(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert rescued(stage) == set()


@pytest.mark.parametrize("step", BUILD_STEPS)
async def test_a_rebuild_broken_off_is_finished_by_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = rebuild(replace(spec, image=image(7)))
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)
        assert stage.host.servers.records.images() == {image(7).id}
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == stage.network.filtered == {spec.uuid}


COMMANDS = [("rescue", step) for step in RESCUE_STEPS]
COMMANDS += [("unrescue", step) for step in UNRESCUE_STEPS]
COMMANDS += [("rebuild", step) for step in BUILD_STEPS]


@pytest.mark.parametrize(("name", "step"), COMMANDS)
async def test_a_destroy_ends_a_command_at_the_next_step(tmp_path: Path, name: str, step: str) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        if name == "unrescue":
            await stage.do(rescue(spec))
    gate = Gate(step)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        command = {"rescue": rescue, "unrescue": unrescue, "rebuild": rebuild}[name](spec)
        end_it = destroy(spec.uuid)
        stage.host.accept(command)
        await gate.until_reached()
        stage.host.accept(end_it)
        gate.open.set()
        assert (await stage.end_of(end_it)).kind == "finished"
        (end,) = stage.ends(command)
        last = step == "wait_for_boot"
        assert (end.kind, end.error_code) == (("finished", "") if last else ("failed", "cancelled"))
        assert stage.is_clean()


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("method", ["rescue", "start"])
async def test_a_rescue_that_fails_gives_the_guest_its_own_disk_back(tmp_path: Path, ran: bool, method: str) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        if not ran:
            await stage.do(power(spec.uuid, "stop"))
    driver = FlakyDriver(tmp_path, method, RetryableHostError("The host has no room."), failures=1)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        end = await stage.do(rescue(spec, ran=ran))
        assert (end.kind, end.message) == ("failed", "The host has no room.")
        assert rescued(stage) == set()
        assert state_of(stage) == [PowerState.RUNNING if ran else PowerState.SHUTDOWN]
        assert stage.host.servers.records.images() == {spec.image.id}
        assert (await stage.do(rescue(spec, ran=ran))).kind == "finished"


async def test_a_guest_that_is_not_here_is_neither_rescued_nor_made(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        for command in (rescue(make_spec()), unrescue(make_spec())):
            end = await stage.do(command)
            assert (end.kind, end.error_code) == ("failed", "instance_not_found")
        assert stage.is_clean()


async def test_a_rebuild_takes_the_steps_of_a_build_and_may_leave_the_guest_off(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        on, off = rebuild(spec), rebuild(spec, start=False)
        assert (await stage.do(on)).power_state == PowerState.RUNNING
        assert stage.steps(on) == list(BUILD_STEPS)
        assert (await stage.do(off)).power_state == PowerState.SHUTDOWN
        assert stage.steps(off) == list(BUILD_STEPS[:-2])


async def test_a_rebuild_that_fails_is_mended_by_another(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    driver = FlakyDriver(tmp_path, "create_disk", RetryableHostError("The host has no room."), failures=1)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        assert (await stage.do(rebuild(spec))).kind == "failed"
        assert [guest.uuid for guest in stage.driver.guests()] == [spec.uuid]
        end = await stage.do(rebuild(spec))
        assert (end.kind, end.power_state) == ("finished", PowerState.RUNNING)


async def test_a_rescued_guest_is_rebuilt_without_its_rescue(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        await stage.do(rescue(spec))
        await stage.do(rebuild(spec))
        assert rescued(stage) == set()
        assert stage.host.servers.records.images() == {spec.image.id}
