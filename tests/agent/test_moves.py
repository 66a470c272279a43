"""A guest that leaves its host, and one that arrives: whatever ends it, each host has all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import (
    BuildRequest,
    CommandBody,
    DestroyRequest,
    ReceiveGuestRequest,
    ReturnGuestRequest,
    SendGuestRequest,
)
from compute_agent.contract.messages import Command
from compute_agent.contract.moves import ROOT, GuestOrigin, SentDisk
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    COPY_DISK,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    EXPORT_DISKS,
    PLUG_NETWORK,
    START_GUEST,
    STOP_GUEST,
)
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.driver import Fetch, SentGuest, Stopped
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.processes import progress
from tests.agent.cast import Gate, build, make_command, make_spec, make_stage, on_stage, stopped

RECEIVING = (PLUG_NETWORK, COPY_DISK, CREATE_DISK, CREATE_SEED, DEFINE_DOMAIN, APPLY_FIREWALL, START_GUEST)
RUNS, IS_OFF = PowerState.RUNNING, PowerState.SHUTDOWN


def receive(spec: InstanceSpec) -> Command:
    return make_command(ReceiveGuestRequest(instance=spec, origin=GuestOrigin()), spec.uuid, 2)


async def test_a_guest_that_cannot_leave_keeps_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(uuid: str) -> None:
        raise UnsupportedError("Its disk is in a pool.")

    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        monkeypatch.setattr(stage.driver, "check_may_leave", refuse)
        end = await stage.do(make_command(SendGuestRequest(target="there", timeout=1), spec.uuid))
        assert (end.kind, end.message) == ("failed", "Its disk is in a pool.")
        assert stage.driver.power_state(spec.uuid) == PowerState.RUNNING
        monkeypatch.undo()
        end = await stage.do(make_command(SendGuestRequest(target="there", timeout=1), spec.uuid))
        assert (end.kind, end.power_state) == ("finished", PowerState.SHUTDOWN)


@pytest.mark.parametrize("step", [STOP_GUEST, EXPORT_DISKS])
async def test_a_source_that_is_killed_at_any_step_sends_and_can_take_the_guest_back(tmp_path: Path, step: str) -> None:
    spec, gate = make_spec(), Gate(step)
    send = make_command(SendGuestRequest(target="there", timeout=1), spec.uuid, 2)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        await stage.do(build(spec))
        stage.host.accept(send)
        await gate.until_reached()
        await stopped(stage, gate)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(send)
        assert (end.kind, end.power_state) == ("finished", IS_OFF)
        back = make_command(ReturnGuestRequest(instance=spec, start=True), spec.uuid, 3)
        assert (await stage.do(back)).power_state == RUNS
        assert [(guest.attempt, guest.power_state) for guest in stage.driver.guests()] == [(3, RUNS)]


@pytest.mark.parametrize("step", RECEIVING)
async def test_a_target_that_is_killed_at_any_step_has_the_guest_afterwards(tmp_path: Path, step: str) -> None:
    spec, gate = make_spec(), Gate(step)
    command = receive(spec)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        stage.host.accept(command)
        await gate.until_reached()
        await stopped(stage, gate)
    async with on_stage(make_stage(tmp_path)) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.power_state) == ("finished", RUNS)
        assert [(guest.attempt, guest.power_state) for guest in stage.driver.guests()] == [(2, RUNS)]
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.plugged == stage.network.filtered == {spec.uuid}


class Exports:
    """The exports of another host, whose disks are copied without any time."""

    def check(self) -> None: ...

    def export(self, uuid: str, sent: SentGuest, host_id: str) -> GuestOrigin:
        return GuestOrigin()

    def end(self, uuid: str) -> None: ...

    def fetch(self, uuid: str, attempt: int, origin: GuestOrigin, stopped: Stopped) -> Fetch:
        return lambda disk, path, disk_format: None


@pytest.mark.parametrize("step", RECEIVING[1:-1])
async def test_a_target_that_is_killed_after_the_copy_keeps_the_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    spec, gate, removed = make_spec(), Gate(step), list[str]()
    origin = GuestOrigin(disks=[SentDisk(name=ROOT, size=1)])
    command = make_command(ReceiveGuestRequest(instance=spec, origin=origin), spec.uuid, 2)
    async with on_stage(make_stage(tmp_path, after_step=gate, transfer=Exports())) as stage:
        stage.host.accept(command)
        await gate.until_reached()
        await stopped(stage, gate)
    async with on_stage(make_stage(tmp_path, transfer=Exports())) as stage:
        monkeypatch.setattr(stage.driver, "destroy", removed.append)
        assert (await stage.end_of(command)).kind == "finished"
        assert removed == []
        assert [(guest.attempt, guest.power_state) for guest in stage.driver.guests()] == [(2, RUNS)]


@pytest.mark.parametrize("step", RECEIVING)
async def test_a_target_whose_move_was_given_up_meanwhile_has_nothing_left_unless_the_guest_runs(
    tmp_path: Path, step: str
) -> None:
    command, gate = receive(make_spec()), Gate(step)
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        stage.host.accept(command)
        await gate.until_reached()
        await stopped(stage, gate)
    async with on_stage(make_stage(tmp_path), awaited=[]) as stage:
        end = await stage.end_of(command)
        if step == START_GUEST:
            assert (end.kind, end.power_state) == ("finished", RUNS)
        else:
            assert end.error_code == "deadline_passed"
            assert stage.is_clean()


@pytest.mark.parametrize("evacuated", [False, True])
async def test_a_target_that_fails_leaves_a_root_disk_in_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, evacuated: bool
) -> None:
    spec, left, taken = make_spec(), list[str](), list[str]()
    body: CommandBody
    if evacuated:
        body = BuildRequest(instance=spec, take_root=True)
    else:
        body = ReceiveGuestRequest(instance=spec, origin=GuestOrigin(root_pool="a pool"))

    def fail(_: InstanceSpec) -> None:
        raise RetryableHostError("The host has no space.")

    async with on_stage(make_stage(tmp_path)) as stage:
        driver = stage.driver

        def leave(uuid: str) -> None:
            left.append(uuid)
            driver.destroy(uuid)

        def adopt_disks(spec: InstanceSpec, base: Path | None) -> bool:
            taken.append(spec.uuid)
            return False

        monkeypatch.setattr(driver, "leave", leave)
        monkeypatch.setattr(driver, "adopt_disks", adopt_disks)
        monkeypatch.setattr(driver, "create_seed", fail)
        end = await stage.do(make_command(body, spec.uuid, 2))
        assert (end.kind, left) == ("failed", [spec.uuid])
        assert taken == ([spec.uuid] if evacuated else [])
        assert stage.is_clean()
        await stage.do(make_command(DestroyRequest(keep_root=True), spec.uuid, 3))
        assert left == [spec.uuid] * 2
        await stage.do(make_command(DestroyRequest(), spec.uuid, 4))
        assert left == [spec.uuid] * 2


async def test_a_returning_guest_takes_its_root_disk_back_before_it_is_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec, attempts = make_spec(), list[int]()
        await stage.do(build(spec))
        await stage.do(make_command(SendGuestRequest(target="there", timeout=1), spec.uuid, 2))

        def restore_left_disk(uuid: str) -> None:
            attempts.extend(guest.attempt for guest in stage.driver.guests() if guest.uuid == uuid)

        monkeypatch.setattr(stage.driver, "restore_left_disk", restore_left_disk)
        await stage.do(make_command(ReturnGuestRequest(instance=spec, start=True), spec.uuid, 3))
        assert attempts == [1]


async def test_a_target_whose_disk_is_full_in_the_middle_has_nothing_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        copy = stage.driver.create_disk

        def fill(spec: InstanceSpec, base: Path | None, *_: object) -> None:
            copy(spec, base)
            progress.moved(1 << 20, 1 << 30)
            raise RetryableHostError("The host has no space for the instance's disk.")

        monkeypatch.setattr(stage.driver, "receive_disks", fill)
        end = await stage.do(receive(make_spec()))
        assert (end.kind, end.message) == ("failed", "The host has no space for the instance's disk.")
        assert stage.is_clean()


async def test_a_guest_with_several_interfaces_arrives_with_all_of_them(tmp_path: Path) -> None:
    spec = make_spec()
    spec = replace(spec, ports=[make_spec(number=number).ports[0] for number in range(1, 5)])
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.do(receive(spec))).kind == "finished"
        assert stage.driver.interfaces() == {spec.uuid: [port.mac_address for port in spec.ports]}
