"""Volumes of guests on a host: the agent may die at every step, and what fails leaves the guest as it was."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, InstanceSpec, VolumeConnection
from compute_agent.contract.commands import (
    AttachVolumeRequest,
    DetachVolumeRequest,
    RebuildRequest,
    RefreshVolumeRequest,
    SwapVolumeRequest,
)
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from compute_agent.guest_data import meta_data
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import RetryableHostError
from tests.agent.cast import PATIENCE, Stage, build, destroy, make_command, make_spec, make_stage, on_stage, power
from tests.agent.driver_contract import OTHER_VOLUME, VOLUME
from tests.agent.test_restart import killed_at
from tests.agent.watched_driver import WatchedDriver

MOVED = replace(VOLUME, size_gb=5, connection=VolumeConnection(export="e2", socket="/nowhere"), iotune={"a": 1})


def having(spec: InstanceSpec, *disks: GuestDisk) -> InstanceSpec:
    return replace(spec, volumes=list(disks))


def attach(spec: InstanceSpec, disk: GuestDisk = VOLUME) -> Command:
    return make_command(AttachVolumeRequest(instance=having(spec, disk), disk=disk), spec.uuid)


def detach(spec: InstanceSpec, *, force: bool = False) -> Command:
    return make_command(DetachVolumeRequest(instance=spec, disk=VOLUME, force=force), spec.uuid)


def refresh(spec: InstanceSpec) -> Command:
    return make_command(RefreshVolumeRequest(instance=having(spec, MOVED), disk=MOVED), spec.uuid)


def swap(spec: InstanceSpec) -> Command:
    return make_command(SwapVolumeRequest(instance=having(spec, OTHER_VOLUME), old=VOLUME, new=OTHER_VOLUME), spec.uuid)


def fake(stage: Stage) -> WatchedDriver:
    assert isinstance(stage.driver, WatchedDriver)
    return stage.driver


def has(stage: Stage, spec: InstanceSpec) -> list[str]:
    """What the hypervisor says, after a look whether this host's own description says the same."""
    known = stage.host.servers.records.spec(spec.uuid)
    result = stage.driver.volumes()[spec.uuid]
    assert known is not None
    assert [disk.id for disk in known.volumes] == result
    return result


class Clumsy(WatchedDriver):
    """A hypervisor that fails at volumes, after it has done half of it."""

    detaches = True

    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        super().attach_volume(spec, disk)
        raise RetryableHostError("No room on the bus.")

    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        if not self.detaches:
            raise RetryableHostError("The hypervisor is busy.")
        super().detach_volume(spec, disk, force=force)


async def test_a_volume_comes_grows_is_swapped_and_goes(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        for _ in range(2):
            command = attach(spec)
            end = await stage.do(command)
            assert (end.kind, end.power_state, stage.steps(command)) == ("finished", 1, ["attach_volume"])
            assert has(stage, spec) == [VOLUME.id]
        for _ in range(2):
            assert (await stage.do(refresh(spec))).kind == "finished"
            assert fake(stage).disk(spec.uuid, VOLUME.id) == MOVED
        for _ in range(2):
            assert (await stage.do(swap(spec))).kind == "finished"
            assert has(stage, spec) == [OTHER_VOLUME.id]
        [state] = (await stage.host.audit("")).guests
        assert state.volumes == [OTHER_VOLUME.id]
        assert (await stage.do(detach(replace(spec, volumes=[OTHER_VOLUME])))).kind == "finished"
        assert has(stage, spec) == [OTHER_VOLUME.id]


async def test_the_data_of_a_volume_moves_under_its_guest(tmp_path: Path) -> None:
    spec = make_spec()
    moved = replace(VOLUME, attachment_id=OTHER_VOLUME.attachment_id, connection=OTHER_VOLUME.connection)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(having(spec, VOLUME)))
        request = SwapVolumeRequest(instance=having(spec, moved), old=VOLUME, new=moved)
        assert (await stage.do(make_command(request, spec.uuid))).kind == "finished"
        assert fake(stage).disk(spec.uuid, VOLUME.id) == moved
        for attached, left in ((VOLUME, [VOLUME.id]), (moved, [])):
            request = DetachVolumeRequest(instance=spec, disk=attached)
            assert (await stage.do(make_command(request, spec.uuid))).kind == "finished"
            assert stage.driver.volumes()[spec.uuid] == left


async def test_a_guest_that_is_gone_has_no_volume_to_give(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        fake(stage).lose_domain(spec.uuid)
        end = await stage.do(detach(spec))
        assert (end.kind, end.power_state) == ("finished", PowerState.NOSTATE)
        assert (await stage.do(attach(spec))).error_code == "instance_not_found"


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("change", ["attach", "detach", "refresh", "swap"])
async def test_a_change_that_dies_goes_on_with_the_next_process(tmp_path: Path, change: str, runs: bool) -> None:
    spec = make_spec()
    make, before, after = {
        "attach": (attach, [], [VOLUME.id]),
        "detach": (detach, [VOLUME], []),
        "refresh": (refresh, [VOLUME], [VOLUME.id]),
        "swap": (swap, [VOLUME], [OTHER_VOLUME.id]),
    }[change]
    command = make(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(having(spec, *before)))
        if not runs and change != "swap":
            await stage.do(power(spec.uuid, "stop"))
    async with killed_at(tmp_path, f"{change}_volume") as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.end_of(command)).kind == "finished"
        assert has(stage, spec) == after


async def test_an_attachment_that_comes_back_too_late_is_undone(tmp_path: Path) -> None:
    spec = make_spec()
    command = attach(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, "attach_volume") as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), awaited=[]) as stage:
        assert (await stage.end_of(command)).error_code == "deadline_passed"
        assert has(stage, spec) == []


@pytest.mark.parametrize("detaches", [True, False])
async def test_an_attachment_that_fails_is_taken_back_or_says_that_it_is_not(tmp_path: Path, detaches: bool) -> None:
    spec, driver = make_spec(), Clumsy(tmp_path)
    driver.detaches = detaches
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        await stage.do(build(spec))
        end = await stage.do(attach(spec))
        assert (end.error_code, end.retryable) == (("host_failed", True) if detaches else ("not_taken_back", False))
        assert driver.volumes()[spec.uuid] == ([] if detaches else [VOLUME.id])


async def test_a_guest_that_does_not_let_go_keeps_its_volume_until_it_is_forced(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(having(spec, VOLUME)))
        fake(stage).holding.add(spec.uuid)
        end = await stage.do(detach(spec))
        assert (end.kind, end.retryable, has(stage, spec)) == ("failed", True, [VOLUME.id])
        await stage.do(power(spec.uuid, "pause"))
        assert (await stage.do(detach(spec))).error_code == "unsupported"
        assert (await stage.do(detach(spec, force=True))).kind == "finished"
        assert has(stage, spec) == []


async def test_a_fault_at_a_volume_s_step_is_the_host_s_to_undo(tmp_path: Path) -> None:
    spec = make_spec()
    driver = WatchedDriver(tmp_path, fail_at="attach_volume", kind="fatal")
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        await stage.do(build(spec))
        end = await stage.do(attach(spec))
        assert (end.error_code, end.retryable, has(stage, spec)) == ("build_failed", False, [])


class Slow(WatchedDriver):
    """A hypervisor that copies until it is stopped."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.copying = threading.Event()

    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        self.copying.set()
        while not stopped():
            time.sleep(0.01)
        super().swap_volume(spec, old, new, stopped)


async def test_a_swap_that_a_delete_stops_ends_at_once(tmp_path: Path) -> None:
    spec, driver = make_spec(), Slow(tmp_path)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        await stage.do(build(having(spec, VOLUME)))
        command, end = swap(spec), destroy(spec.uuid)
        stage.host.accept(command)
        assert await asyncio.to_thread(driver.copying.wait, PATIENCE)
        stage.host.accept(end)
        assert (await stage.end_of(command)).error_code == "cancelled"
        assert (await stage.end_of(end)).kind == "finished"
        assert stage.is_clean()


async def test_a_guest_boots_from_a_volume(tmp_path: Path) -> None:
    spec = make_spec()
    root = replace(VOLUME, device="vda", boot_index=0)
    spec = replace(spec, image=replace(spec.image, id=""), volumes=[root])
    async with on_stage(make_stage(tmp_path)) as stage:
        command = build(spec)
        assert (await stage.do(command)).kind == "finished"
        assert stage.steps(command) == [step for step in BUILD_STEPS if step != "fetch_image"]
        assert (fake(stage).kept()["disks"], stage.images.cached()) == (set(), [])
        assert [disk.volume_id for disk in stage.driver.diagnostics(spec.uuid).disks] == [root.id]
        fake(stage).lose_domain(spec.uuid)  # there is no disk here, and yet it can be defined again
        assert (await stage.do(power(spec.uuid, "reboot_hard"))).power_state == PowerState.RUNNING
        assert (await stage.do(make_command(RebuildRequest(instance=spec), spec.uuid))).kind == "finished"
        assert has(stage, spec) == [root.id]
        await stage.do(destroy(spec.uuid))
        assert stage.is_clean()


async def test_a_guest_whose_volume_is_back_goes_on_and_is_reported_as_mended(tmp_path: Path) -> None:
    spec, other = make_spec(), make_spec(number=2)
    async with on_stage(make_stage(tmp_path)) as stage:
        for each in (having(spec, VOLUME), other):
            await stage.do(build(each))
        await stage.do(power(other.uuid, "pause"))
        fake(stage).stall(VOLUME.id)
        await stage.until(lambda: [e.power_state for e in stage.said if e.kind == "power"] == [PowerState.PAUSED])
        await stage.host.check()
        assert stage.driver.power_state(spec.uuid) == PowerState.PAUSED
        fake(stage).away.clear()
        await stage.host.check()
        await stage.until(lambda: [e.power_state for e in stage.said if e.kind == "power"][-1] == PowerState.RUNNING)
        assert stage.driver.power_state(other.uuid) == PowerState.PAUSED, "its owner wants it so"
        assert [spec.uuid in repair.what for repair in (await stage.host.audit("")).repairs] == [True]


def test_tags_of_volumes_are_reported_to_the_guest() -> None:
    tagged = replace(VOLUME, tag="database", serial="its serial")
    spec = replace(make_spec(), volumes=[tagged, replace(OTHER_VOLUME, bus="scsi")])
    entry = {"type": "disk", "bus": "pci", "serial": "its serial", "path": "/dev/vdb", "tags": ["database"]}
    assert meta_data(spec)["devices"] == [entry]
