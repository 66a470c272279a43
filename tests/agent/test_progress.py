"""What the portal hears of a command that takes long, and when a host gives one up by its own clock."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from compute_agent.contract.build import ImageRef
from compute_agent.contract.messages import Command
from compute_agent.engine import runner, timing
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import StateStore
from compute_agent.images.cache import ImageCache
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long
from tests.agent.cast import PATIENCE, Gate, build, make_spec, make_stage, on_stage, power
from tests.agent.watched_driver import WatchedDriver


class Clock:
    """The machine's clock, in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(timing, "now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_a_command_that_goes_on_is_reported_as_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BEGUN_AFTER", 0.0)
    gate, command = Gate("fetch_image"), build(make_spec())
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        stage.host.accept(command)
        await stage.until(lambda: "begun" in [event.kind for event in stage.of(command)])
        gate.open.set()
        assert (await stage.end_of(command)).kind == "finished"


async def test_one_that_waits_for_a_worker_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BEGUN_AFTER", 0.0)
    gate = Gate("fetch_image")
    first, second = build(make_spec()), build(make_spec(number=2))
    async with on_stage(make_stage(tmp_path, after_step=gate, workers=1)) as stage:
        stage.host.accept(first)
        stage.host.accept(second)
        await gate.until_reached()
        await stage.until(lambda: stage.of(first))
        assert stage.of(second) == []
        gate.open.set()
        await stage.end_of(second)


async def test_a_quick_one_says_only_its_steps_and_its_end(tmp_path: Path) -> None:
    command = build(make_spec())
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(command)
        assert {event.kind for event in stage.of(command)} <= {"step_started", "step", "finished"}


async def test_one_that_waited_too_long_for_a_worker_is_not_begun(tmp_path: Path, clock: Clock) -> None:
    gate = Gate("fetch_image")
    first, late = build(make_spec()), build(make_spec(number=2), begin_within=60.0)
    async with on_stage(make_stage(tmp_path, after_step=gate, workers=1)) as stage:
        stage.host.accept(first)
        stage.host.accept(late)
        await gate.until_reached()
        clock.now += 61
        gate.open.set()
        end = await stage.end_of(late)
        assert (end.error_code, end.retryable, stage.steps(late)) == ("deadline_passed", True, [])


async def test_what_the_portal_awaits_no_more_is_not_begun(tmp_path: Path) -> None:
    """The link was away for long; what had begun goes on, for its end is passed over anyway."""
    gate = Gate("fetch_image")
    running, dropped, kept = (build(make_spec(number=number)) for number in (1, 2, 3))
    async with on_stage(make_stage(tmp_path, after_step=gate, workers=1)) as stage:
        for command in (running, dropped, kept):
            stage.host.accept(command)
        await gate.until_reached()
        stage.host._runner.withdraw([kept.id])
        gate.open.set()
        assert (await stage.end_of(dropped)).error_code == "deadline_passed"
        assert [(await stage.end_of(command)).kind for command in (running, kept)] == ["finished", "finished"]


async def test_a_restart_asks_the_portal_and_no_clock(tmp_path: Path) -> None:
    """However long the machine was off: what is awaited is carried out, what is not comes too late."""
    spec = make_spec()
    awaited, over = power(spec.uuid, "stop"), power(spec.uuid, "start")
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        stage.host.accept(awaited)
        stage.host.accept(over)
    async with on_stage(make_stage(tmp_path), awaited=[awaited.id]) as stage:
        assert (await stage.end_of(awaited)).kind == "finished"
        assert (await stage.end_of(over)).error_code == "deadline_passed"


# ----- progress -------------------------------------------------------------------------------------------------------


class Copies(WatchedDriver):
    """A disk whose bytes come in pieces, when the test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.piece, self.taken = threading.Semaphore(0), threading.Semaphore(0)
        self.begun = threading.Event()
        self.pieces = self.total = 0

    def create_seed(self, spec: object) -> None:
        self.begun.set()
        for number in range(self.pieces):
            self.piece.acquire()
            progress.moved(number + 1, self.total)
            self.taken.release()
        super().create_seed(spec)  # type: ignore[arg-type]

    async def move(self) -> None:
        self.piece.release()
        await asyncio.to_thread(self.taken.acquire)


async def test_moved_bytes_are_reported_now_and_then(tmp_path: Path, clock: Clock) -> None:
    driver = Copies(tmp_path)
    driver.pieces = 6
    command = build(make_spec(), timeout=600, total=2400)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        stage.host.accept(command)
        for _ in range(6):
            clock.now += 6
            await driver.move()
        assert (await stage.end_of(command)).kind == "finished"
        assert [event.kind for event in stage.of(command)].count("progress") <= 2
        await stage.until(lambda: "progress" in [event.kind for event in stage.of(command)])


async def test_how_far_a_copy_is_goes_with_the_reports(tmp_path: Path, clock: Clock) -> None:
    driver = Copies(tmp_path)
    driver.pieces, driver.total = 4, 5
    command = build(make_spec(), timeout=600, total=2400)
    async with on_stage(make_stage(tmp_path, driver=driver)) as stage:
        stage.host.accept(command)
        assert await asyncio.to_thread(driver.begun.wait, PATIENCE)  # its reports are counted from its beginning
        for number in range(4):
            clock.now += timing.COUNTED_EVERY
            await driver.move()
            wanted = {"done": str(number + 1), "total": "5"}
            await stage.until(lambda wanted=wanted: wanted in [event.detail for event in stage.of(command)])  # type: ignore[misc]
        assert (await stage.end_of(command)).kind == "finished"


@pytest.mark.slow
def test_a_program_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.virt.processes.programs.POLL", 0.02)
    size, heard = 32 << 20, list[progress.Amount]()
    (tmp_path / "disk").write_bytes(b"x" * size)
    words = ("-f", "raw", "-O", "raw", str(tmp_path / "disk"), str(tmp_path / "copy"))
    with progress.heard_by(lambda: None, heard.append):
        run_long("qemu-img", "convert", "-p", "-r", "16M", "-m", "1", *words, limits=Limits(), stopped=bool, total=size)
    assert heard == sorted(heard)
    assert len({amount for amount in heard if 0 < amount.done < size}) > 1
    assert {amount.total for amount in heard} == {size}


def timed(**seconds: float) -> Command:
    return build(make_spec(), **seconds)


def test_a_command_is_late_by_the_machines_own_clock(clock: Clock) -> None:
    waits = timing.Timing(timed(begin_within=60, timeout=100, total=250))
    clock.now += 59
    assert not waits.late
    clock.now += 2
    assert waits.late
    works = timing.Timing(timed(begin_within=60, timeout=100, total=250))
    works.begin()
    for _ in range(2):
        clock.now += 99
        assert not works.late
        works.moved()
    clock.now += 53
    assert works.late, "it moves, and has taken too long in all"
    still = timing.Timing(timed(timeout=100, total=250))
    still.begin()
    clock.now += 101
    assert still.late, "it stands still"
    assert not timing.Timing(timed()).late


def test_little_patience_is_reported_more_often(clock: Clock) -> None:
    work = timing.Timing(timed(timeout=8))
    work.begin()
    reports = []
    for _ in range(8):
        clock.now += 1
        reports.append(work.moved())
    assert reports == [False, True] * 4


def test_only_the_newest_sign_of_life_waits_for_a_link(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "agent.sqlite3")
    outbox, command, seq = Outbox(store), timed(), None
    for _ in range(50):
        seq = outbox.alive(command, "progress", replaces=seq)
    assert list(outbox._pending) == [seq]
    assert store.events() == []


class Counted:
    """Counts what moves while something is done."""

    def __init__(self) -> None:
        self.moved = 0

    def __call__(self) -> None:
        self.moved += 1


@dataclass
class Rests:
    """Says whether nothing has moved while it was asked a number of times."""

    ENOUGH: ClassVar[int] = 15
    counted: Counted
    seen: int = 0
    looks: int = 0

    def __call__(self) -> bool:
        self.looks = self.looks + 1 if self.counted.moved == self.seen else 0
        self.seen = self.counted.moved
        return self.looks >= self.ENOUGH


@pytest.mark.slow
def test_a_program_that_copies_moves_and_one_that_waits_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.virt.processes.programs.POLL", 0.02)
    copies, waits = Counted(), Counted()
    with progress.heard_by(copies), pytest.raises(ProgramError):
        run_long("dd", "if=/dev/zero", "of=/dev/null", limits=Limits(), stopped=lambda: copies.moved > 5)
    assert copies.moved > 5
    rests = Rests(waits)
    with progress.heard_by(waits), pytest.raises(ProgramError):
        run_long("sleep", "600", limits=Limits(), stopped=rests)
    assert rests.looks >= Rests.ENOUGH, "it moves only while it starts: that reads its libraries"


def test_fetching_an_image_moves(tmp_path: Path) -> None:
    bits = [b"kernel" * 1000] * 5
    whole = b"".join(bits)
    image = ImageRef(
        id="9c000000-0000-4000-8000-000000000009",
        name="linux",
        disk_format="aki",
        size=len(whole),
        hash_algo="sha512",
        hash_value=hashlib.sha512(whole).hexdigest(),
    )

    def fetch(_image: ImageRef, _instance: str) -> Iterator[bytes]:
        yield from bits

    (tmp_path / "_base").mkdir()
    counted = Counted()
    with progress.heard_by(counted):
        ImageCache(tmp_path, fetch, tmp_path / "disks").get(image, "someone")
    assert counted.moved == len(bits)


def test_who_waits_for_anothers_fetch_sees_it_grow(tmp_path: Path) -> None:
    part, counted, watched = tmp_path / "image.fetched", Counted(), progress.Watched()
    with progress.heard_by(counted):
        watched.look(progress.size_on_disk(part))
        for size in (10, 20, 20, 30):
            part.write_bytes(b"x" * size)
            watched.look(progress.size_on_disk(part))
    assert counted.moved == 2
