"""The outbox and the store below it: numbers that only rise, nothing forgotten before it is recorded."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from compute_agent.contract.messages import AgentEvent
from compute_agent.engine.outbox import FRAME_EVENTS, Outbox, StepReport
from compute_agent.engine.outcomes import Failure, Outcome
from compute_agent.engine.store import KEEP_DONE, KEEP_REMOVED, SEQ_LEAP, StateStore
from compute_agent.engine.subjects import subject_of
from compute_agent.servers.records import ServerRecords, described
from tests.agent.cast import build, destroy, make_spec

STEP = StepReport("plug_network", 1.0, 2.0, {})


async def frame(outbox: Outbox) -> list[AgentEvent]:
    async with asyncio.timeout(120):
        return await outbox.next_frame()


async def test_what_is_ready_together_travels_together() -> None:
    outbox = Outbox(StateStore(None))
    command = build(make_spec())
    for _ in range(8):
        outbox.step(command, STEP)
    outbox.end(command, Outcome(power_state=1))
    events = await frame(outbox)
    assert [event.kind for event in events] == ["step"] * 8 + ["finished"]


async def test_a_step_alone_does_not_wait_for_ever() -> None:
    outbox = Outbox(StateStore(None))
    outbox.step(build(make_spec()), STEP)
    assert [event.step for event in await frame(outbox)] == ["plug_network"]


async def test_an_announcement_not_yet_sent_gives_way_to_the_end_of_its_step() -> None:
    outbox = Outbox(StateStore(None))
    command = build(make_spec())
    outbox.step(command, STEP, replaces=outbox.step_started(command, "plug_network", 1.0))
    assert [event.kind for event in await frame(outbox)] == ["step"]
    announced = outbox.step_started(command, "fetch_image", 2.0)
    assert [event.kind for event in await frame(outbox)] == ["step_started"]
    outbox.step(command, STEP, replaces=announced)
    assert [event.kind for event in await frame(outbox)] == ["step"]


async def test_large_news_is_cut_into_frames() -> None:
    outbox = Outbox(StateStore(None))
    command = build(make_spec())
    for _ in range(FRAME_EVENTS + 5):
        outbox.step(command, STEP)
    assert [len(await frame(outbox)), len(await frame(outbox))] == [FRAME_EVENTS, 5]


async def test_a_new_connection_is_sent_everything_not_recorded() -> None:
    outbox = Outbox(StateStore(None))
    command = build(make_spec())
    for _ in range(3):
        outbox.step(command, STEP)
    first = await frame(outbox)
    outbox.acknowledged(first[0].seq)
    outbox.rewind()
    assert await frame(outbox) == first[1:]
    outbox.acknowledged(first[-1].seq)
    outbox.acknowledged(first[-1].seq)
    assert outbox._store.events() == []
    outbox.rewind()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await outbox.next_frame()


async def test_events_outlive_the_process_and_numbers_never_come_back(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = StateStore(path)
    outbox, command = Outbox(store), build(make_spec())
    outbox.step(command, STEP)
    outbox.step_started(command, "fetch_image", 1.0)
    outbox.end(command, Outcome(Failure("x", "It failed.", retryable=True)))
    received = await frame(outbox)
    store.close()
    again = StateStore(path)
    kept = await frame(Outbox(again))
    assert kept == [event for event in received if event.kind != "step_started"]
    assert again.next_seq() > received[-1].seq
    again.close()
    (tmp_path / "store").unlink()
    assert StateStore(path).next_seq() >= int(time.time())


async def test_numbers_given_out_before_a_power_failure_are_not_given_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = StateStore(path)
    given = max(store.next_seq() for _ in range(3 * SEQ_LEAP))  # nothing else is written
    assert StateStore(path).next_seq() > given


def test_a_store_of_an_open_process_can_be_read_after_it_died(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "store")
    command = build(make_spec())
    assert store.accept(command)
    assert not store.accept(command)
    (kept,) = StateStore(tmp_path / "store").unfinished()
    assert (kept.command, kept.begun) == (command, False)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    StateStore(tmp_path / "store")
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o600


async def test_what_ended_long_ago_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path / "store")
    outbox = Outbox(store)
    old, gone, new = build(make_spec()), destroy(make_spec().uuid), build(make_spec())
    for command in (old, gone, new):
        store.accept(command)
    store.describe(subject_of(old), described(old.body.instance))
    outbox.end(old, Outcome(power_state=1))
    outbox.end(gone, Outcome(power_state=0, gone=True))
    now = time.time()
    monkeypatch.setattr("compute_agent.engine.store.time.time", lambda: now + KEEP_DONE + KEEP_REMOVED)
    store.prune()
    assert [stored.command for stored in store.unfinished()] == [new]
    assert store.accept(old)  # its number is free again
    assert store.subject(subject_of(gone)) is None
    assert ServerRecords(store).images() == {old.body.instance.image.id}
    assert set(ServerRecords(store).specs()) == {old.subject_id}
