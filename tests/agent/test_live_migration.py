"""Live migration between two hosts: exactly one guest afterwards, whatever ends it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.calls import CallError
from compute_agent.contract.messages import AgentEvent, Command
from compute_agent.contract.migration import (
    ADDRESS,
    PORT,
    RECEIVER_TRAIT,
    TIME_LIMIT,
    UNDECIDED,
    ControlMigrationCall,
    KeepLiveRequest,
    MigrationControlled,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import APPLY_FIREWALL, CREATE_DISK, LISTEN, PLUG_NETWORK, RECEIVE_GUEST
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.calls import CallHandler
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.fake.migration import FakeArrival, FakeDeparture
from compute_agent.virt.migration_link import receiving
from compute_agent.virt.migration_link.errors import DiskLostError
from compute_agent.virt.migration_link.frames import Frame, write
from tests.agent.cast import Gate, Stage, build, destroy, make_command, make_spec, make_stage, on_stage, stopped
from tests.agent.watched_driver import WatchedDriver

RUNNING = PowerState.RUNNING


@dataclass
class Pair:
    """A guest with attempt 1 on the first of two hosts, and the commands that migrate it as attempt 2."""

    source: Stage
    target: Stage
    spec: InstanceSpec

    @property
    def receive(self) -> Command:
        return make_command(ReceiveLiveRequest(instance=self.spec, source="source"), self.spec.uuid, 2)

    def send(self, listening: AgentEvent, **more: object) -> Command:
        where = listening.detail
        body = SendLiveRequest(address=where[ADDRESS], tcp_port=int(where[PORT]), **more)  # type: ignore[arg-type]
        return make_command(body, self.spec.uuid, 2)

    async def listening(self, receive: Command) -> AgentEvent:
        """Wait until the target listens; return the report."""

        def found() -> list[AgentEvent]:
            return [event for event in self.target.of(receive) if event.kind == "step" and event.step == LISTEN]

        self.target.host.accept(receive)
        await self.target.until(found)
        return found()[0]

    def guests(self) -> tuple[list[tuple[int, PowerState]], list[tuple[int, PowerState]]]:
        """Return attempts and states of the guests on source and target."""
        stages = (self.source, self.target)
        first, second = ([(guest.attempt, guest.power_state) for guest in one.driver.guests()] for one in stages)
        return first, second

    def away(self) -> tuple[set[str], set[str]]:
        """Return the plugged servers of source and target whose traffic goes to the other host."""
        first, second = self.source.network, self.target.network
        assert isinstance(first, FakeNetwork)
        assert isinstance(second, FakeNetwork)
        return first.away, second.away

    @property
    def source_driver(self) -> WatchedDriver:
        assert isinstance(self.source.driver, WatchedDriver)
        return self.source.driver


@contextlib.asynccontextmanager
async def pair(
    tmp_path: Path, target_gate: Gate | None = None, properties: dict[str, str] | None = None
) -> AsyncIterator[Pair]:
    folders = [tmp_path / name for name in ("source", "target")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    async with (
        on_stage(make_stage(folders[0])) as source,
        on_stage(make_stage(folders[1], after_step=target_gate)) as target,
    ):
        spec = make_spec()
        spec = replace(spec, image=replace(spec.image, properties=properties or {}))
        assert (await source.do(build(spec))).kind == "finished"
        yield Pair(source, target, spec)


async def test_a_guest_runs_on_the_other_host_and_leaves_the_first(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        receive = two.receive
        listening = await two.listening(receive)
        assert two.away() == (set(), {two.spec.uuid})
        sent = await two.source.do(two.send(listening))
        arrived = await two.target.end_of(receive)
        assert two.away() == ({two.spec.uuid}, set())
        assert (sent.kind, arrived.kind, arrived.power_state) == ("finished", "finished", RUNNING)
        assert two.guests() == ([(1, PowerState.SHUTDOWN)], [(2, RUNNING)])
        assert (await two.source.do(destroy(two.spec.uuid, 2))).kind == "finished"
        assert two.source.is_clean()


async def test_variables_and_tpm_go_with_a_running_guest(tmp_path: Path) -> None:
    async with pair(tmp_path, properties={"hw_tpm_version": "2.0", "hw_firmware_type": "uefi"}) as two:
        await two.source.do(two.send(await two.listening(two.receive)))
        values = []
        for stage in (two.source, two.target):
            stage.driver.stop(two.spec.uuid, 1)
            values.append(stage.driver.firmware_state(two.spec.uuid))
        assert values[0] == values[1]
        assert values[1].tpm_key


async def test_a_tpm_that_the_record_does_not_have_is_refused(tmp_path: Path) -> None:
    async with pair(tmp_path, properties={"hw_tpm_version": "2.0"}) as two:
        other = make_command(ReceiveLiveRequest(instance=make_spec(two.spec.uuid), source="source"), two.spec.uuid, 2)
        assert (await two.source.do(two.send(await two.listening(other)))).kind == "failed"
        assert two.guests() == ([(1, RUNNING)], [])


async def test_bytes_are_reported(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        send = two.send(await two.listening(two.receive))
        two.source.host.accept(send)
        await two.source.until(lambda: [event for event in two.source.of(send) if event.detail.get("total")])
        two.source_driver.hold_migrations.set()
        await two.source.end_of(send)


async def test_an_abort_leaves_the_guest_where_it_was(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        receive = two.receive
        send = two.send(await two.listening(receive))
        two.source.host.accept(send)
        calls = CallHandler(two.source.host._services)
        answer: object = None
        while not isinstance(answer, MigrationControlled):
            answer = await calls.answer(ControlMigrationCall(instance_id=two.spec.uuid, action="abort"))
        ends = await two.source.end_of(send), await two.target.end_of(receive)
        assert [end.kind for end in ends] == ["failed", "failed"]
        assert two.guests() == ([(1, RUNNING)], [])
        assert two.away() == (set(), set())
        assert two.target.is_clean()


async def test_a_server_that_is_deleted_on_its_way_leaves_nothing_and_no_fault_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        receive = two.receive
        send = two.send(await two.listening(receive))
        two.source.host.accept(send)
        await two.source.until(lambda: [event for event in two.source.of(send) if event.detail.get("total")])
        for stage in (two.target, two.source):
            assert (await stage.do(destroy(two.spec.uuid, 3))).kind == "finished"
        assert two.guests() == ([], [])
        assert two.target.is_clean()
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_held_migration_is_completed_by_force(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        receive = two.receive
        send = two.send(await two.listening(receive))
        two.source.host.accept(send)
        calls = CallHandler(two.source.host._services)
        answer: object = None
        while not isinstance(answer, MigrationControlled):
            answer = await calls.answer(ControlMigrationCall(instance_id=two.spec.uuid, action="complete"))
        assert (await two.target.end_of(receive)).kind == "finished"


@pytest.mark.parametrize(("at_limit", "kind"), [("abort", "failed"), ("complete", "finished")])
async def test_the_time_limit_ends_a_migration(tmp_path: Path, at_limit: str, kind: str) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        receive = two.receive
        send = two.send(await two.listening(receive), time_limit=1, at_limit=at_limit)
        end = await two.source.do(send)
        assert (end.kind, end.error_code) == (kind, TIME_LIMIT if kind == "failed" else "")
        assert (await two.target.end_of(receive)).kind == kind


async def test_a_guest_that_is_not_migrated_cannot_be_aborted(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        calls = CallHandler(two.source.host._services)
        answer = await calls.answer(ControlMigrationCall(instance_id=two.spec.uuid, action="abort"))
        assert isinstance(answer, CallError)
        assert answer.code == "unsupported"


async def test_a_destroy_at_the_target_ends_the_migration(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.hold_migrations.clear()
        receive = two.receive
        send = two.send(await two.listening(receive))
        two.source.host.accept(send)
        await two.source.until(lambda: [event for event in two.source.of(send) if event.kind == "progress"])
        assert (await two.target.do(destroy(two.spec.uuid, 2))).kind == "finished"
        two.source_driver.hold_migrations.set()
        assert (await two.source.end_of(send)).kind == "failed"
        assert two.guests() == ([(1, RUNNING)], [])
        assert two.target.is_clean()


async def test_a_target_that_cannot_receive_says_so(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        assert isinstance(two.target.driver, WatchedDriver)
        two.target.driver.receives = False
        assert RECEIVER_TRAIT not in two.target.driver.capacity().traits
        end = await two.target.do(two.receive)
        assert (end.kind, end.error_code) == ("failed", "unsupported")
        assert two.target.is_clean()


async def test_nobody_listens(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            body = SendLiveRequest(address="127.0.0.1", tcp_port=taken.getsockname()[1])
            end = await two.source.do(make_command(body, two.spec.uuid, 2))
        assert (end.kind, end.error_code, end.power_state) == ("failed", "migration_failed", RUNNING)


async def test_the_source_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "CONNECT_WITHIN", 0.1)
    async with pair(tmp_path) as two:
        end = await two.target.do(two.receive)
        assert (end.kind, end.error_code) == ("failed", "migration_failed")
        assert two.target.is_clean()


async def test_a_guest_that_does_not_start_goes_on_at_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path) as two:

        def refuse(*_arguments: object) -> None:
            raise RetryableHostError("The hypervisor could not start the received guest.")

        monkeypatch.setattr(two.target.driver, "run_received", refuse)
        receive = two.receive
        ends = await two.source.do(two.send(await two.listening(receive))), await two.target.end_of(receive)
        assert [end.error_code for end in ends] == ["migration_failed", "host_failed"]
        assert two.guests() == ([(1, RUNNING)], [])
        assert two.target.is_clean()


async def test_a_lost_answer_leaves_the_guest_paused_until_the_portal_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path) as two:
        take, cut = two.target.driver.run_received, asyncio.Event()  # type: ignore[attr-defined]
        real, loop = write, asyncio.get_running_loop()

        async def lose(writer: asyncio.StreamWriter, frame: Frame) -> None:
            if frame.kind == "finish" and cut.is_set():
                writer.transport.abort()
                return
            await real(writer, frame)

        def taken(*arguments: object) -> None:
            take(*arguments)
            loop.call_soon_threadsafe(cut.set)
            cut.set()

        monkeypatch.setattr(two.target.driver, "run_received", taken)
        monkeypatch.setattr(receiving, "write", lose)
        receive = two.receive
        sent = await two.source.do(two.send(await two.listening(receive)))
        assert (sent.kind, sent.error_code) == ("failed", UNDECIDED)
        assert (await two.target.end_of(receive)).kind == "finished"
        assert two.guests() == ([(1, PowerState.PAUSED)], [(2, RUNNING)])
        assert (await two.source.do(destroy(two.spec.uuid, 2))).kind == "finished"
        assert two.source.is_clean()


async def test_an_undecided_guest_goes_on_when_the_portal_says_so(tmp_path: Path) -> None:
    async with pair(tmp_path) as two:
        two.source_driver.change_guest(two.spec.uuid, leaving=True, power=PowerState.PAUSED)
        end = await two.source.do(make_command(KeepLiveRequest(), two.spec.uuid, 2))
        assert (end.kind, end.power_state) == ("finished", RUNNING)


def begun(stage: Stage, command: Command) -> Command:
    """Let an earlier process of the host have begun the command."""
    stage.host._store.accept(command)
    stage.host._store.begin(command, removes=False)
    return command


async def test_the_next_process_of_the_target_removes_what_was_prepared(tmp_path: Path) -> None:
    spec = make_spec()
    stage = make_stage(tmp_path)
    stage.driver.create_disk(spec, None)
    receive = begun(stage, make_command(ReceiveLiveRequest(instance=spec, source="source"), spec.uuid, 2))
    async with on_stage(stage):
        assert (await stage.end_of(receive)).error_code == "migration_failed"
        assert stage.is_clean()


@pytest.mark.parametrize("step", [PLUG_NETWORK, CREATE_DISK, APPLY_FIREWALL, LISTEN])
async def test_a_target_that_is_killed_at_any_step_has_nothing_left(tmp_path: Path, step: str) -> None:
    gate = Gate(step)
    async with pair(tmp_path, gate) as two:
        receive = two.receive
        two.target.host.accept(receive)
        await gate.until_reached()
        await stopped(two.target, gate)
        async with on_stage(make_stage(tmp_path / "target")) as target:
            assert (await target.end_of(receive)).error_code == "migration_failed"
            assert target.is_clean()
        assert two.guests()[0] == [(1, RUNNING)]


async def test_a_target_that_is_killed_when_the_guest_runs_there_keeps_it(tmp_path: Path) -> None:
    gate = Gate(RECEIVE_GUEST)
    async with pair(tmp_path, gate) as two:
        receive = two.receive
        assert (await two.source.do(two.send(await two.listening(receive)))).kind == "finished"
        await gate.until_reached()
        await stopped(two.target, gate)
        async with on_stage(make_stage(tmp_path / "target")) as target:
            end = await target.end_of(receive)
            assert (end.kind, end.power_state) == ("finished", RUNNING)
            assert [(guest.attempt, guest.power_state) for guest in target.driver.guests()] == [(2, RUNNING)]
        assert two.guests()[0] == [(1, PowerState.SHUTDOWN)]


async def test_a_source_whose_disk_cannot_be_copied_completely_keeps_its_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: FakeDeparture, _: bytes) -> bytes:
        raise RetryableHostError("The target has no space for the disk.")

    async with pair(tmp_path) as two:
        monkeypatch.setattr(FakeDeparture, "perform", full)
        receive = two.receive
        ends = await two.source.do(two.send(await two.listening(receive))), await two.target.end_of(receive)
        assert [end.kind for end in ends] == ["failed", "failed"]
        assert ends[0].message == "The target has no space for the disk."
        assert two.guests() == ([(1, RUNNING)], [])
        assert two.away() == (set(), set())
        assert two.target.is_clean()


async def test_the_next_process_of_the_target_finds_the_guest(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec, attempt=2))
    stage = make_stage(tmp_path)
    receive = begun(stage, make_command(ReceiveLiveRequest(instance=spec, source="source"), spec.uuid, 2))
    async with on_stage(stage):
        end = await stage.end_of(receive)
        assert (end.kind, end.power_state) == ("finished", RUNNING)


async def test_a_late_command_acquires_the_disks_of_the_guest_that_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[FakeArrival] = []
    monkeypatch.setattr(FakeArrival, "settle", lambda arrival: settled.append(arrival))
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec, attempt=2))
    stage, body = make_stage(tmp_path), ReceiveLiveRequest(instance=spec, source="source")
    receive = begun(stage, make_command(body, spec.uuid, 2, begin_within=0.0))
    async with on_stage(stage):
        assert (await stage.end_of(receive)).kind == "finished"
    assert len(settled) == 1


@pytest.mark.parametrize("begin_within", [0.0, 60.0])
async def test_a_guest_that_has_lost_its_disk_is_removed_and_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin_within: float
) -> None:
    def expelled(self: FakeArrival) -> None:
        raise DiskLostError("Another host has acquired the volume.")

    monkeypatch.setattr(FakeArrival, "settle", expelled)
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec, attempt=2))
    stage, body = make_stage(tmp_path), ReceiveLiveRequest(instance=spec, source="source")
    receive = begun(stage, make_command(body, spec.uuid, 2, begin_within=begin_within))
    async with on_stage(stage):
        end = await stage.end_of(receive)
        assert (end.kind, end.error_code) == ("failed", "migration_failed")
        assert stage.is_clean()


@pytest.mark.parametrize(
    ("leaving", "power", "code"),
    [(False, RUNNING, "migration_failed"), (True, PowerState.PAUSED, UNDECIDED), (False, PowerState.SHUTDOWN, "")],
)
async def test_the_next_process_of_the_source_reports_where_the_guest_is(
    tmp_path: Path, leaving: bool, power: PowerState, code: str
) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    stage = make_stage(tmp_path)
    send = begun(stage, make_command(SendLiveRequest(address="127.0.0.1", tcp_port=1), spec.uuid, 2))
    assert isinstance(stage.driver, WatchedDriver)
    stage.driver.init_host()
    stage.driver.change_guest(spec.uuid, leaving=leaving, power=power)
    async with on_stage(stage):
        assert (await stage.end_of(send)).error_code == code
