"""Consoles through real sockets: a web server, an agent's dialler on the fake driver, and a client at the other end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from compute_agent.contract.calls import OpenConsoleCall
from compute_agent.contract.messages import Enrol
from compute_agent.engine.threads import Threads
from compute_agent.host import Host as AgentHost
from compute_agent.link.console_dial import ConsoleDialer
from compute_agent.link.credential import Credential, store
from compute_agent.link.dial import here
from compute_agent.link.portal_link import PortalLink
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.fake.images import FakeImageCache
from provisioning.compute.models import Instance
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host
from tests.agent.cast import make_spec
from tests.agent_link.test_link import CREDENTIAL, eventually
from tests.sockets.test_consoles import ask, server_of
from tests.support.cast import People
from tests.support.sockets import cookie_of, in_db
from tests.web.conftest import port, serve, usual_server

pytestmark = pytest.mark.slow

__all__ = ["port", "serve", "usual_server"]
FLOOD = 64 << 20
CLIENT: dict[str, Any] = {"compression": None, "proxy": None, "open_timeout": 120, "ping_timeout": None}
"""A web server that has just started may take its time."""


class FloodDriver(FakeDriver):
    """A guest whose screen sends without end, and counts what was taken from it."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.sent = 0
        self.path = state_dir / "flood.sock"

    async def listen(self) -> asyncio.Server:
        async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while self.sent < FLOOD:
                    writer.write(b"x" * 65536)
                    await writer.drain()
                    self.sent += 65536
            except OSError:
                return
            finally:
                writer.close()

        return await asyncio.start_unix_server(flood, str(self.path))

    def console_socket(self, uuid: str, protocol: str) -> Path:
        return self.path


class Place:
    """One host on the web server, with alice's server on it."""

    def __init__(self, port: int, people: People, folder: Path) -> None:
        self.port, self.people = port, people
        self.settings = AgentSettings(host="h1", state_dir=folder, portal_url=f"http://127.0.0.1:{port}", driver="fake")
        self.threads = Threads(1)
        self.driver: ComputeDriver = FakeDriver(folder)
        self.network = FakeNetwork()

    async def start(self) -> None:
        self.host, self.server = await in_db(self._records)()
        folder = self.settings.state_dir
        store(folder, Credential(host="h1", secret=f"{CREDENTIAL}h1", enrolled=True))
        self.consoles = ConsoleDialer(self.settings, here, self.threads)
        parts = HostServices(self.driver, self.network, FakeImageCache(), self.threads, consoles=self.consoles)
        self.agent = AgentHost("h1", parts, folder / "agent.sqlite3", durable=False)
        await self.agent.start()
        spec = make_spec(str(self.server.id))
        self.driver.define(spec, 0)
        self.driver.start(spec.uuid)
        self.link = asyncio.ensure_future(PortalLink(self.settings, self.agent, self.threads, here).run())
        await eventually(lambda: Host.objects.get().connected)

    def _records(self) -> tuple[Host, Instance]:
        token = enrolment.create_join_token("h1")
        host = enrolment.enrol(Enrol(join_token=token, host="h1", credential=f"{CREDENTIAL}h1"))
        return host, server_of(self.people.alice, host, launched_at=timezone.now())

    async def stop(self) -> None:
        self.link.cancel()
        await asyncio.gather(self.link, return_exceptions=True)
        await self.agent.stop(0.5)
        self.threads.close()

    async def look(self, protocol: str, **options: Any) -> ClientConnection:
        token = await in_db(ask)(self.people.alice, self.server, protocol)
        url = f"ws://127.0.0.1:{self.port}/ws/console?token={token}"
        return await connect(url, subprotocols=["binary"], **CLIENT, **options)  # type: ignore[list-item]

    async def follow(self, query: str = "") -> ClientConnection:
        cookie = cookie_of(await in_db(lambda: self.people.alice.token)())
        url = f"ws://127.0.0.1:{self.port}/ws/dashboard/servers/{self.server.id}/console-log{query}"
        headers = {"Cookie": cookie}
        origin = Origin(f"http://127.0.0.1:{self.port}")
        return await connect(url, origin=origin, additional_headers=headers, **CLIENT)


@pytest.fixture
async def place(port: int, people: People, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(port, people, tmp_path)
    try:
        yield place
    finally:
        await place.stop()


async def read(client: ClientConnection, count: int) -> bytes:
    data = bytearray()
    async with asyncio.timeout(120):
        while len(data) < count:
            frame = await client.recv()
            assert isinstance(frame, bytes)
            data += frame
    return bytes(data)


async def code_of(client: ClientConnection) -> int:
    async with asyncio.timeout(120):
        while True:
            try:
                await client.recv()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else 1006


async def test_a_screen_and_a_line_through_everything(place: Place) -> None:
    await place.start()
    async with await place.look("vnc") as screen:
        assert screen.subprotocol == "binary"
        assert await read(screen, 12) == b"RFB 003.008\n"
        await screen.send(b"RFB 003.008\n")
        assert await read(screen, 2) == b"\x01\x01"
    async with await place.look("serial") as line:
        assert b"web-1 login: " in await read(line, 15)
        await line.send(b"hello")
        assert await read(line, 5) == b"hello"
        async with await place.look("serial") as second:
            assert await code_of(line) == 4410, "a newer window of the same person takes over"
            assert b"web-1 login: " in await read(second, 15)
            await second.send(b"mine")
            assert await read(second, 4) == b"mine"
    async with await place.look("serial") as again:
        assert b"login" in await read(again, 15)
        place.driver.stop(str(place.server.id), 0)
        assert await code_of(again) in {4000, 4409}


async def test_a_console_log_through_everything(place: Place) -> None:
    await place.start()
    async with await place.follow() as page:
        first = json.loads(await page.recv())
        assert (first["start"], first["offset"]) == (0, len(first["text"]))
        text = first["text"]
        async with asyncio.timeout(120):
            while "Linux version" not in text:
                text += json.loads(await page.recv())["text"]
            place.driver.stop(str(place.server.id), 0)
            place.driver.start(str(place.server.id))
            while text.count("Linux version") < 2:
                text += json.loads(await page.recv())["text"]
        async with await place.follow(f"?offset={first['offset']}") as second:
            assert json.loads(await second.recv())["start"] == first["offset"]
        place.driver.destroy(str(place.server.id))
    async with asyncio.timeout(120):
        while place.consoles._readers._taken:
            await asyncio.sleep(0.01)


@pytest.mark.deep
async def test_a_client_that_does_not_read_holds_the_guest_up_and_nothing_grows(place: Place, port: int) -> None:
    driver = FloodDriver(place.settings.state_dir)
    place.driver = driver
    listener = await driver.listen()
    await place.start()
    async with listener, await place.look("vnc", max_queue=1) as client:
        await read(client, 65536)
        last = -1
        async with asyncio.timeout(120):
            while last != driver.sent:  # until everything on the way is full
                last = driver.sent
                await asyncio.sleep(0.2)
        assert driver.sent < FLOOD
        await read(client, FLOOD - 65536)
        assert driver.sent == FLOOD


async def test_the_dial_finds_the_process_that_waits(place: Place) -> None:
    """Until then it is refused; what nobody waits for is given up."""
    await place.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compute_agent.link.console_dial.DIAL_WITHIN", 0.2)
        answer = await place.agent.answer(
            OpenConsoleCall(instance_id=str(place.server.id), protocol="serial", tunnel="nobody-waits")
        )
        assert type(answer).__name__ == "ConsoleOpened"
        async with asyncio.timeout(120):
            while (await _again(place)) == "busy":
                await asyncio.sleep(0.05)


async def _again(place: Place) -> str:
    call = OpenConsoleCall(instance_id=str(place.server.id), protocol="serial", tunnel="nobody-waits")
    return str(getattr(await place.agent.answer(call), "code", ""))
