"""Moves in a chaos run: guests are followed on both hosts, hosts lose their power, connections of agents are cut."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from compute_agent.contract.migration import SendLiveRequest
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.processes import progress
from tests.agent.cast import make_spec
from tests.agent.driver_contract import VOLUME
from tools.chaos import plan
from tools.chaos.checks.journals import JOURNAL, Hypervisors, switch_off
from tools.chaos.clients import moves
from tools.chaos.clouds.cloud import Cloud
from tools.chaos.faults.detours import Detours
from tools.chaos.faults.frames import read_frame, text_frame

HOSTS = ["h1", "h2"]
WITHIN = 60
"""Seconds that a busy machine may take for a connection."""


def driver(folder: Path, host: str) -> FakeDriver:
    (folder / host).mkdir(exist_ok=True)
    made = FakeDriver(folder / host)
    made.init_host()
    return made


def build(made: FakeDriver, attempt: int) -> str:
    requested = make_spec("5f000000-0000-4000-8000-000000000001")
    made.create_disk(requested, None)
    made.define(requested, attempt)
    made.start(requested.uuid)
    return requested.uuid


# ----- what hosts have ------------------------------------------------------------------------------------------------


def test_a_guest_may_exist_on_two_hosts_and_runs_on_one(tmp_path: Path) -> None:
    old, new, followed = driver(tmp_path, "h1"), driver(tmp_path, "h2"), Hypervisors(tmp_path, HOSTS, lambda _: 7.5)
    uuid = build(old, 1)
    old.stop(uuid, 0)
    build(new, 2)
    seen = followed.seen()
    assert seen.twice == {}
    assert seen.domains[uuid][0] == "h2", "the newer one counts"
    assert seen.holders == {uuid: frozenset(HOSTS)}
    old.start(uuid)
    [overlap] = followed.seen().twice[uuid]
    assert str(overlap).startswith("h1 and h2 at")
    assert (overlap.silence, overlap.has_volumes, overlap.ended) == (7.5, False, None)
    old.stop(uuid, 0)
    assert followed.seen().twice[uuid][0].ended


def test_a_guest_that_leaves_runs_on_its_new_host_only(tmp_path: Path) -> None:
    old, new, followed = driver(tmp_path, "h1"), driver(tmp_path, "h2"), Hypervisors(tmp_path, HOSTS)
    uuid = build(old, 1)
    old.change_guest(uuid, leaving=True, power=PowerState.PAUSED)
    build(new, 2)
    assert followed.seen().twice == {}
    old.keep(uuid)
    assert uuid in followed.seen().twice


def test_a_volume_is_shared_only_by_guests_that_run(tmp_path: Path) -> None:
    """A host that is forced down has no say in who gets a volume, and its guest does not write to it."""
    old, new, followed = driver(tmp_path, "h1"), driver(tmp_path, "h2"), Hypervisors(tmp_path, HOSTS)
    for made, number in ((old, 1), (new, 2)):
        requested = replace(make_spec(f"5f000000-0000-4000-8000-00000000000{number}"), volumes=[VOLUME])
        made.create_disk(requested, None)
        made.define(requested, 1)
    switch_off(tmp_path / "h1" / JOURNAL)
    new.start("5f000000-0000-4000-8000-000000000002")
    assert followed.seen().shared == {}
    old.start("5f000000-0000-4000-8000-000000000001")
    assert VOLUME.id in followed.seen().shared


def test_guests_lose_their_power_and_nothing_else(tmp_path: Path) -> None:
    uuid = build(driver(tmp_path, "h1"), 3)
    with (tmp_path / "h1" / JOURNAL).open("ab") as journal:
        journal.write(b'{"uuid": "cut off by the power')
    switch_off(tmp_path / "h1" / JOURNAL)
    (guest,) = driver(tmp_path, "h1").guests()
    assert (guest.uuid, guest.attempt, guest.power_state) == (uuid, 3, PowerState.SHUTDOWN)
    switch_off(tmp_path / "none" / JOURNAL)


def test_a_simulated_host_reports_the_bytes_that_it_copies(tmp_path: Path) -> None:
    amounts: list[progress.Amount] = []
    with progress.heard_by(lambda: None, amounts.append):
        driver(tmp_path, "h1").receive_disks(make_spec(root_gb=2), None, GuestOrigin(), lambda *_: None)
    assert amounts[-1][:2] == (2 << 30, 2 << 30)
    assert [one.done for one in amounts] == sorted(one.done for one in amounts)


# ----- connections between agents -------------------------------------------------------------------------------------


def command(port: int, address: str = "127.0.0.1") -> bytes:
    body = {"type": SendLiveRequest.__struct_config__.tag, "address": address, "tcp_port": port}
    return json.dumps({"type": "command", "body": body}).encode()


async def test_a_migration_takes_a_detour_on_which_it_is_cut() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    detours = Detours(random.Random(1))  # noqa: S311
    async with asyncio.timeout(WITHIN), await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        led = json.loads((await detours.redirect(text_frame(command(port)))).payload)["body"]["tcp_port"]
        assert led != port
        reader, writer = await asyncio.open_connection("127.0.0.1", led)
        writer.write(b"a guest")
        assert await reader.readexactly(7) == b"a guest"
        detours.cut(0)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        writer.close()
        detours.close()


@pytest.mark.parametrize("text", [b'{"type": "welcome"}', command(4711, "192.0.2.1"), b"x" * 200, b"x" * 70_000])
async def test_other_frames_are_passed_on_as_they_are(text: bytes) -> None:
    frame = text_frame(text)
    assert await Detours(random.Random(1)).redirect(frame) is frame  # noqa: S311
    reader = asyncio.StreamReader()
    reader.feed_data(frame.raw)
    assert await read_frame(reader) == frame


# ----- the plan -------------------------------------------------------------------------------------------------------


def test_more_is_moved_if_requested() -> None:
    both = plan.make(7, 500, moves=True), plan.make(7, 500)
    counts = [sum(each.kind in plan.OF_MOVES for each in every.operations) for every in both]
    assert counts[0] > 2 * counts[1] > 0
    assert set(moves.SEND) <= set(plan.OF_MOVES)


def test_the_end_of_a_killed_program_is_left_to_the_supervisor() -> None:
    """Another kill at the same time must not collect it: the supervisor would wait for it without an end."""
    program = subprocess.Popen(["true"])
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    cloud = SimpleNamespace(_service=lambda name: SimpleNamespace(process=program))
    Cloud._signal_master(cloud, "agent", signal.SIGKILL)  # type: ignore[arg-type] # it uses nothing else
    assert os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT) is not None
    assert program.wait() == 0
