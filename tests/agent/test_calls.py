"""Questions: the console log in lines, a log that is followed, and what cannot be answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from compute_agent.contract import console_pieces
from compute_agent.contract.calls import (
    CallError,
    ConsoleOpened,
    ConsoleOutput,
    ConsoleOutputCall,
    Diagnostics,
    DiagnosticsCall,
    FileSystems,
    FileSystemsCall,
    FollowConsoleCall,
)
from compute_agent.contract.console_pieces import unpack
from compute_agent.engine.threads import Threads
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers import calls
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import HypervisorUnavailableError, InstanceNotFoundError, UnsupportedError
from compute_agent.virt.fake.images import FakeImageCache
from tests.agent.cast import build, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver

Follow = Callable[[], Awaitable[AsyncIterator[bytes]]]


class Writer(WatchedDriver):
    """A guest whose console a test writes."""

    log = b""
    error: Exception | None = None

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        if self.error is not None:
            raise self.error
        start = max(0, len(self.log) - max_bytes) if offset is None else min(offset, len(self.log))
        data = self.log[start : start + max_bytes]
        return ConsoleChunk(data, start, start + len(data))


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def desk(writer: Writer) -> CallHandler:
    return CallHandler(HostServices(writer, FakeNetwork(), FakeImageCache(), Threads(1)))


async def read(desk: CallHandler, **asked: object) -> str:
    answer = await desk.answer(ConsoleOutputCall(instance_id="i", **asked))  # type: ignore[arg-type]
    assert isinstance(answer, ConsoleOutput)
    return answer.text


@pytest.mark.parametrize(
    ("lines", "text"),
    [(None, "one\r\ntwo\n3\rthree\n"), (3, "two\n3\rthree\n"), (1, ""), (9, "one\r\ntwo\n3\rthree\n"), (0, "")],
)
async def test_the_last_lines(desk: CallHandler, writer: Writer, lines: int | None, text: str) -> None:
    writer.log = b"one\r\ntwo\n3\rthree\n"
    assert await read(desk, lines=lines) == text


async def test_hostile_bytes_are_replaced(desk: CallHandler, writer: Writer) -> None:
    writer.log = b"\xff\xfe<script>\x00\xe2\x98"
    assert await read(desk) == "\ufffd\ufffd<script>\x00"  # the beginning of a character waits for its end


class Outlet:
    """Keeps what is to be sent through tunnels."""

    def __init__(self) -> None:
        self.followed: dict[str, tuple[AsyncIterator[bytes], str]] = {}

    async def open(self, tunnel: str, path: Path, *, alone: bool, share: str) -> None:
        raise NotImplementedError

    def follow(self, tunnel: str, frames: AsyncIterator[bytes], share: str) -> None:
        self.followed[tunnel] = frames, share

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def frames(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Follow]:
    monkeypatch.setattr(calls, "LOOK_AGAIN", 0.01)
    outlet, threads = Outlet(), Threads(1)
    desk = CallHandler(HostServices(writer, FakeNetwork(), FakeImageCache(), threads, consoles=outlet))

    async def follow() -> AsyncIterator[bytes]:
        answer = await desk.answer(FollowConsoleCall(instance_id="i", tunnel="t", share="project p"))
        assert isinstance(answer, ConsoleOpened)
        result, share = outlet.followed["t"]
        assert share == "project p"
        return result

    yield follow
    threads.close()


async def test_a_log_is_followed_byte_by_byte(frames: Follow, writer: Writer) -> None:
    writer.log = b"\xffone\xe2"
    result = await frames()
    assert unpack(await anext(result)) == (0, b"\xffone\xe2")
    writer.log += b"\x98\x83two"
    assert unpack(await anext(result)) == (5, b"\x98\x83two")


async def test_a_log_without_a_byte_says_where_it_is(frames: Follow, writer: Writer) -> None:
    result = await frames()
    assert unpack(await anext(result)) == (0, b"")
    coming = asyncio.ensure_future(anext(result))
    await asyncio.sleep(0.05)
    assert not coming.done()
    writer.log += b"one"
    assert unpack(await coming) == (0, b"one")


async def test_a_log_that_begins_anew_is_sent_from_its_beginning(frames: Follow, writer: Writer) -> None:
    writer.log = b"a long one"
    result = await frames()
    await anext(result)
    writer.log = b"new"
    assert unpack(await anext(result)) == (0, b"new")


async def test_much_at_once_comes_in_pieces(frames: Follow, writer: Writer) -> None:
    writer.log = b"x" * 300_000
    result = await frames()
    first = unpack(await anext(result))
    assert (first.start, first.end) == (300_000 - console_pieces.MOST_BYTES, 300_000)
    writer.log += b"y" * 100_000
    sizes = [len(unpack(await anext(result)).data) for _ in range(2)]
    assert sizes == [calls.FOLLOWED_BYTES, 100_000 - calls.FOLLOWED_BYTES]


async def test_the_frames_end_with_the_guest(frames: Follow, writer: Writer) -> None:
    result = await frames()
    await anext(result)
    writer.error = InstanceNotFoundError("There is no such instance on this host.")
    with pytest.raises(InstanceNotFoundError):
        await anext(result)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InstanceNotFoundError("There is no such instance on this host."), "not_found"),
        (HypervisorUnavailableError("The hypervisor does not answer."), "failed"),
        (UnsupportedError("It cannot."), "unsupported"),
        (ZeroDivisionError("inside"), "failed"),
    ],
)
async def test_what_cannot_be_answered(desk: CallHandler, writer: Writer, error: Exception, code: str) -> None:
    writer.error = error
    for question in (ConsoleOutputCall(instance_id="i"), FollowConsoleCall(instance_id="i", tunnel="t")):
        answer = await desk.answer(question)
        assert isinstance(answer, CallError)
        assert answer.code == (code if isinstance(question, ConsoleOutputCall) else "unsupported")
        assert "inside" not in answer.message


async def test_the_guest_agent_lists_file_systems_while_the_guest_runs(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        result = await stage.host.answer(FileSystemsCall(instance_id=spec.uuid))
        assert isinstance(result, FileSystems)
        assert [(each.mount_point, each.disks) for each in result.file_systems] == [("/", ["vda"])]
        await stage.do(power(spec.uuid, "stop"))
        answer = await stage.host.answer(FileSystemsCall(instance_id=spec.uuid))
        assert isinstance(answer, CallError)
        assert answer.code == "unsupported"


async def test_diagnostics_say_what_the_hypervisor_says(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        diagnostics = await stage.host.answer(DiagnosticsCall(instance_id=spec.uuid))
        assert isinstance(diagnostics, Diagnostics)
        assert (diagnostics.power_state, diagnostics.memory_mb, len(diagnostics.cpus)) == (
            1,
            spec.flavor.memory_mb,
            spec.flavor.vcpus,
        )
        answer = await stage.host.answer(DiagnosticsCall(instance_id="nobody"))
        assert isinstance(answer, CallError)
        assert answer.code == "not_found"
