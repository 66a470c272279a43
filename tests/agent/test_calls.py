"""Questions: the console log in lines and in pieces, waiting for more, and what cannot be answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compute_agent.contract.messages import CallError, ConsoleOutput, ConsoleOutputCall, Diagnostics, DiagnosticsCall
from compute_agent.engine.threads import Threads
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers import calls
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import HypervisorUnavailableError, InstanceNotFoundError, UnsupportedError
from compute_agent.virt.fake_images import FakeImageCache
from tests.agent.cast import build, make_spec, make_stage, on_stage
from tests.agent.watched_driver import WatchedDriver


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


async def read(desk: CallHandler, **asked: object) -> ConsoleOutput:
    answer = await desk.answer(ConsoleOutputCall(instance_id="i", **asked))  # type: ignore[arg-type]
    assert isinstance(answer, ConsoleOutput)
    return answer


@pytest.mark.parametrize(
    ("lines", "text", "start"),
    [(None, "one\r\ntwo\nthree", 0), (2, "two\nthree", 5), (1, "three", 9), (9, "one\r\ntwo\nthree", 0), (0, "", 14)],
)
async def test_the_last_lines(desk: CallHandler, writer: Writer, lines: int | None, text: str, start: int) -> None:
    writer.log = b"one\r\ntwo\nthree"
    assert await read(desk, lines=lines) == ConsoleOutput(text=text, offset=14, start=start)


async def test_pieces_fit_together_and_split_no_character(desk: CallHandler, writer: Writer) -> None:
    writer.log = "grün ☃ Schluss".encode()
    text, offset = "", 0
    while offset < len(writer.log):
        piece = await read(desk, offset=offset, max_bytes=4)
        assert piece.start == offset
        text, offset = text + piece.text, piece.offset
    assert text == "grün ☃ Schluss"


async def test_hostile_bytes_are_replaced(desk: CallHandler, writer: Writer) -> None:
    writer.log = b"\xff\xfe<script>\x00\xe2\x98"
    piece = await read(desk, offset=0)
    assert piece.text == "��<script>\x00"
    assert piece.offset == len(writer.log) - 2  # the beginning of a character waits for its end
    writer.log += b"!"
    assert (await read(desk, offset=piece.offset)).text == "�!"


async def test_a_reader_waits_until_the_guest_writes(desk: CallHandler, writer: Writer) -> None:
    writer.log = b"one\n"
    reading = asyncio.ensure_future(read(desk, offset=4, wait=20.0))
    await asyncio.sleep(0.05)
    assert not reading.done()
    writer.log += b"two\n"
    assert await asyncio.wait_for(reading, 60) == ConsoleOutput(text="two\n", offset=8, start=4)


async def test_waiting_ends(desk: CallHandler) -> None:
    assert await read(desk, offset=0, wait=0.02) == ConsoleOutput(text="", offset=0)


async def test_too_many_readers_are_sent_away(desk: CallHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_WAITING", 2)
    call = ConsoleOutputCall(instance_id="i", offset=0, wait=20.0)
    waiting = [asyncio.ensure_future(desk.answer(call)) for _ in range(3)]
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    assert [task.result() for task in done] == [calls._BUSY]
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    assert (await read(desk, offset=0, wait=0.01)).text == ""


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
    answer = await desk.answer(ConsoleOutputCall(instance_id="i"))
    assert isinstance(answer, CallError)
    assert answer.code == code
    assert "inside" not in answer.message


async def test_diagnostics_say_what_the_hypervisor_says(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        told = await stage.host.answer(DiagnosticsCall(instance_id=spec.uuid))
        assert isinstance(told, Diagnostics)
        assert (told.power_state, told.memory_mb, len(told.cpus)) == (1, spec.flavor.memory_mb, spec.flavor.vcpus)
        answer = await stage.host.answer(DiagnosticsCall(instance_id="nobody"))
        assert isinstance(answer, CallError)
        assert answer.code == "not_found"
