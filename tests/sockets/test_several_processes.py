"""A person, an agent's link and the host's dial, each at a web process of its own."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from compute_agent.link import console_dial
from portal.common.websockets import tunnel_relay
from portal.common.websockets.tunnel_relay import Pipe
from tests.jobs.conftest import eventually
from tests.sockets.test_console_tunnels import CLIENT, FLOOD, FloodDriver, Place, read
from tests.sockets.test_guest_port_streams import Guest
from tests.support.cast import People
from tests.support.sockets import in_db
from tests.web.conftest import Several, several

__all__ = ["several"]


@pytest.fixture
async def place(several: Callable[..., Several], people: People, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(several().port, people, tmp_path)
    try:
        yield place
    finally:
        await place.stop()


@pytest.mark.slow
async def test_a_host_dials_once_whatever_process_takes_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many consoles, some have their two ends at different processes."""
    monkeypatch.setattr(console_dial, "DIAL_WITHIN", 0.0)
    await place.start()
    for _ in range(8):
        async with await place.look("vnc") as screen:
            assert await read(screen, 12) == b"RFB 003.008\n"
            await screen.send(b"RFB 003.008\n")
            assert await read(screen, 2) == b"\x01\x01"
    async with await place.follow() as page:
        assert "text" in json.loads(await page.recv())


@pytest.mark.slow
@pytest.mark.deep
async def test_a_person_who_does_not_read_holds_the_guest_up(place: Place) -> None:
    driver = FloodDriver(place.settings.state_dir)
    place.driver = driver
    listener = await driver.listen()
    await place.start()
    async with listener, await place.look("vnc", max_queue=1, close_timeout=0.2) as client:
        await read(client, 65536)
        last = -1
        async with asyncio.timeout(120):
            while last != driver.sent:  # until everything on the way is full
                last = driver.sent
                await asyncio.sleep(0.2)
        assert driver.sent < FLOOD // 2


@pytest.mark.slow
@pytest.mark.deep
async def test_a_tunnels_ends_are_reported_from_process_to_process(
    several: Callable[..., Several], people: People, tmp_path: Path
) -> None:
    """Of so many tunnels, some are passed on between processes."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{len(await reader.read())}".encode())

    guest = Guest(several().port, people, tmp_path)
    try:
        await guest.start()
        async with guest.runs(count):
            for _ in range(8):
                async with await guest.reach() as client:
                    await client.send(b"x" * 100_000)
                    await client.send(b"")
                    assert (await read(client, 6), await client.recv()) == (b"100000", b"")
    finally:
        await guest.stop()


@pytest.mark.deep
@pytest.mark.slow
async def test_orders_and_questions_reach_the_link_from_every_process(place: Place) -> None:
    """The API asks the host from whichever process it is, and what one process changes wakes the sockets of all."""
    await place.start()
    token = await in_db(lambda: place.people.alice.token)()
    url = f"ws://127.0.0.1:{place.port}/ws/v1/events"
    header = {"X-Auth-Token": token}
    sockets = [await connect(url, additional_headers=header, **CLIENT) for _ in range(4)]
    for socket in sockets:
        assert "hello" in json.loads(await socket.recv())

    def act(action: dict[str, object]) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", place.port, timeout=120)
        path = f"/compute/v2.1/servers/{place.server.id}/action"
        client.request("POST", path, json.dumps(action), {"X-Auth-Token": token, "Content-Type": "application/json"})
        answer = client.getresponse()
        result = answer.status, answer.read()
        client.close()
        return result

    for _ in range(4):
        status, body = await asyncio.to_thread(act, {"os-getConsoleOutput": {"length": 5}})
        assert status == 200, body
    assert (await asyncio.to_thread(act, {"os-stop": None}))[0] == 202
    for socket in sockets:
        async with asyncio.timeout(120), socket:
            while str(place.server.id) not in str(await socket.recv()):
                pass


@pytest.mark.slow
@pytest.mark.deep
async def test_a_link_comes_back_through_another_process(
    several: Callable[..., Several], people: People, tmp_path: Path
) -> None:
    """Whichever process is killed, the host is asked and answers through the one that is left."""
    web = several()
    place = Place(web.port, people, tmp_path)
    try:
        await place.start()
        for pid in web.pids:
            await asyncio.to_thread(eventually, lambda: len(web.pids) == 2, "both processes")
            os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(eventually, lambda pid=pid: pid not in web.pids, "the end of one")
            async with await place.look("vnc") as screen:
                assert await read(screen, 12) == b"RFB 003.008\n"
    finally:
        await place.stop()


async def test_a_tunnel_is_joined_once_by_its_host() -> None:
    host, came = uuid.uuid4(), []

    def joined(found: uuid.UUID, pipe: Pipe) -> tunnel_relay.Read | None:
        came.append(found)
        if found != host:
            return None

        async def echo() -> None:
            async for frame in pipe.frames():
                await pipe.deliver(frame)

        return echo

    name = uuid.uuid4().hex
    async with tunnel_relay.listening(name, joined):
        assert await tunnel_relay.join(name, uuid.uuid4()) is None
        pipe = await tunnel_relay.join(name, host)
        assert pipe is not None
        for frame in (b"x" * 300_000, b"", b"last"):
            await pipe.deliver(frame)
        frames = pipe.frames()
        assert [await anext(frames) for _ in range(3)] == [b"x" * 300_000, b"", b"last"]
        await pipe.close()
    assert came[-1] == host
    assert await tunnel_relay.join(name, host) is None
    assert not tunnel_relay._path(name).exists()
