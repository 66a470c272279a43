"""Tunnels to ports of guests through real sockets: a web server, an agent's dialler, a program in the guest's place and
a client at the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect

from portal.sockets.guest_ports import REFUSED
from portal.sockets.joined import OVER
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.network.selectors import port_refs
from provisioning.network.services import allocate, create_network, create_subnet
from tests.agent.cast import make_spec
from tests.agent_link.test_link import eventually
from tests.sockets.test_console_tunnels import CLIENT, Place, code_of, read
from tests.support.cast import People
from tests.support.sockets import in_db
from tests.web.conftest import Serve, port, serve, usual_server

pytestmark = pytest.mark.slow

__all__ = ["port", "serve", "usual_server"]
FLOOD = 64 << 20
MORE = 2 * FLOOD
"""More than the kernel holds on the three connections to a guest that does not read."""
NOBODY = ("127.0.0.1", 1)
"""Where nothing listens; a port that was free a moment ago may be in use by another test."""
Program = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Guest(Place):
    """A host with alice's server, whose every port leads to a program of the test."""

    async def start(self) -> None:
        await super().start()
        await in_db(self._addresses)()
        ports = await in_db(port_refs)(self.server.id)
        self.network.plug(replace(make_spec(str(self.server.id)), ports=ports))

    def _addresses(self) -> None:
        sizes = {"vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0, "swap_mb": 0}
        Instance.objects.update(flavor={"flavorid": "1", "name": "m1.nano", "extra_specs": {}, **sizes})
        network = create_network(self.people.alice.project_id, "private")
        create_subnet(network, "10.9.0.0/24")
        allocate(self.server.id, self.people.alice.project_id, [{"network_id": str(network.id)}], [], "h1", "nova")

    @contextlib.asynccontextmanager
    async def runs(self, program: Program) -> AsyncIterator[None]:
        """Run a program in the guest."""
        visits: set[asyncio.Task[Any] | None] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            visits.add(asyncio.current_task())
            try:
                await program(reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.network.listener = server.sockets[0].getsockname()
        try:
            yield
        finally:
            server.close()
            for visit in filter(None, visits):
                visit.cancel()
            await asyncio.gather(*filter(None, visits), return_exceptions=True)

    async def reach(self, **options: Any) -> ClientConnection:
        token = await in_db(lambda: self.people.alice.token)()
        url = f"ws://127.0.0.1:{self.port}/ws/servers/{self.server.id}/tunnel?port=22"
        return await connect(url, additional_headers={"X-Auth-Token": token}, **CLIENT, **options)


@pytest.fixture
async def guest(port: int, people: People, tmp_path: Path) -> AsyncIterator[Guest]:
    guest = Guest(port, people, tmp_path)
    await guest.start()
    try:
        yield guest
    finally:
        await guest.stop()


async def test_what_is_specified_comes_back(guest: Guest) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)

    async with guest.runs(echo), await guest.reach() as client:
        await client.send(b"\x00\xff" * 50_000)
        assert await read(client, 100_000) == b"\x00\xff" * 50_000


async def test_each_side_may_have_ended_before_the_other(guest: Guest) -> None:
    """As for ``ssh host cat <file`` or an HTTP/1.0 server: one direction ends, the other goes on."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(len(await reader.read())).encode())

    async with guest.runs(count), await guest.reach() as client:
        await client.send(b"x" * 200_000)
        await client.send(b"")
        assert await read(client, 6) == b"200000"
        assert await client.recv() == b""
        assert await code_of(client) == OVER
    values: list[dict[str, str]] = []

    def ended() -> bool:
        values[:] = [step.detail for step in InstanceActionEvent.objects.all()]
        return "bytes_to_guest" in values[0]

    await eventually(ended)
    assert (values[0]["bytes_to_guest"], values[0]["bytes_from_guest"]) == ("200000", "6")


async def test_the_guest_may_have_ended_first(guest: Guest) -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with guest.runs(greet), await guest.reach() as client:
        assert await read(client, 3) == b"bye"
        assert await client.recv() == b""
        await client.send(b"thanks")
        await client.send(b"")
        async with asyncio.timeout(60):
            assert await heard == b"thanks"
        assert await code_of(client) == OVER


async def test_a_connection_that_the_guest_cuts_has_no_end(guest: Guest) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with guest.runs(cut), await guest.reach() as client:
        await client.send(b"half")
        frames = []
        with contextlib.suppress(Exception):
            async for frame in client:
                frames.append(frame)
        assert (frames, await code_of(client)) == ([], OVER)


async def test_a_person_who_breaks_off_is_no_end_for_the_guest(guest: Guest) -> None:
    """Half an upload is not taken for the whole: the guest's connection is reset."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"go")
            await reader.read()
            ended.set_result("end")
        except ConnectionResetError:
            ended.set_result("reset")

    async with guest.runs(take):
        client = await guest.reach()
        await read(client, 2)
        await client.send(b"half")
        await client.close()
        async with asyncio.timeout(60):
            assert await ended == "reset"


async def test_a_port_where_nothing_listens(guest: Guest) -> None:
    guest.network.listener = NOBODY
    async with await guest.reach() as client:
        assert await code_of(client) == REFUSED
    assert not await in_db(InstanceActionEvent.objects.exists)()


async def test_a_client_that_does_not_read_holds_the_guest_up(guest: Guest) -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while sent < FLOOD:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with guest.runs(flood), await guest.reach(max_queue=1) as client:
        await read(client, 65536)
        last = -1
        async with asyncio.timeout(120):
            while last != sent:  # until everything on the way is full
                last = sent
                await asyncio.sleep(0.2)
        assert sent < FLOOD
        await read(client, FLOOD - 65536)
        assert await client.recv() == b""


@pytest.mark.deep
async def test_a_client_may_rest_for_longer_than_a_page(serve: Serve, people: People, tmp_path: Path) -> None:
    """Whoever reads a page or a console too slowly is disconnected; a program behind a tunnel may take its time."""
    done = asyncio.Event()

    async def much(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * FLOOD)
        await writer.drain()
        done.set()

    guest = Guest(serve(TESTS_STALLED="0.1"), people, tmp_path)
    try:
        await guest.start()
        async with guest.runs(much), await guest.reach(max_queue=1) as client:
            await read(client, 65536)
            await asyncio.sleep(1)
            assert not done.is_set()
            await read(client, FLOOD - 65536)
            assert await client.recv() == b""
    finally:
        await guest.stop()


@pytest.mark.deep
async def test_a_guest_that_does_not_read_holds_the_client_up(guest: Guest) -> None:
    go = asyncio.Event()
    taken = 0

    async def slow(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal taken
        await go.wait()
        while data := await reader.read(1 << 20):
            taken += len(data)

    async with guest.runs(slow), await guest.reach() as client:
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < MORE:
                await client.send(b"x" * 65536)
                sent += 65536
            await client.send(b"")

        sending = asyncio.create_task(send())
        last = -1
        async with asyncio.timeout(120):
            while last != sent:
                last = sent
                await asyncio.sleep(0.2)
        assert sent < MORE
        go.set()
        await sending
        assert await code_of(client) == OVER
    assert taken == MORE


async def test_one_user_has_a_part_of_a_hosts_tunnels(guest: Guest) -> None:
    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with guest.runs(wait):
        folder = Path(settings.RUN_DIR, "tunnels")
        folder.mkdir(parents=True, exist_ok=True)
        others = set(folder.iterdir())  # of a web process that was killed
        guest.consoles._forwards._of_one = 1
        async with await guest.reach():
            async with asyncio.timeout(120):
                while not guest.consoles._forwards._taken:  # otherwise the second could be the one that is admitted
                    await asyncio.sleep(0.01)
            async with await guest.reach() as second:
                assert await code_of(second) == 4423
        async with asyncio.timeout(120):
            while guest.consoles._forwards._taken:
                await asyncio.sleep(0.01)
        async with await guest.reach() as third:
            await third.send(b"x")
    async with asyncio.timeout(120):  # nothing is left of any of them
        while set(folder.iterdir()) - others:
            await asyncio.sleep(0.01)
