"""Links without a host's credential are few, and are told apart before they are accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from compute_agent.contract.messages import Enrol
from portal.agents import link
from portal.routing import websocket_router
from tests.agent_link.test_link import CREDENTIAL, PATH, connect, enrol, hear, tell
from tests.support.sockets import HOST, WITHIN, Open, Socket, in_db, render

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _none_left() -> AsyncIterator[None]:
    yield
    assert not link.strangers._open


async def test_an_address_has_few_strangers_and_hosts_are_none_of_them(
    open_socket: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "MOST_OF_ADDRESS", 2)
    host = await enrol(open_socket)
    hosts = [await connect(open_socket, host) for _ in range(3)]
    first, second = await open_socket(PATH), await open_socket(PATH)
    assert (first.accepted, second.accepted) == (True, True)
    assert not (await open_socket(PATH)).accepted
    wrong = await open_socket(PATH, authorization="Bearer wrong", x_novella_host="h1")
    assert not wrong.accepted
    await first.disconnect()
    assert (await open_socket(PATH)).accepted
    for socket in [*hosts, second]:
        await socket.disconnect()


async def test_all_strangers_of_a_process_are_bounded(open_socket: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST", 1)
    assert (await open_socket(PATH)).accepted
    assert not (await open_socket(PATH)).accepted


async def test_the_web_server_is_notified_of_a_host_before_its_first_frame(open_socket: Open) -> None:
    await enrol(open_socket)
    for credential, expected in ((f"{CREDENTIAL}h1", 1), (f"{CREDENTIAL}h2", 0), ("", 0)):
        admitted = await _handshake(credential)
        assert len(admitted) == expected, credential


async def _handshake(credential: str) -> list[bool]:
    headers = [
        (b"host", HOST.encode()),
        (b"x-novella-host", b"h1"),
        (b"authorization", f"Bearer {credential}".encode()),
    ]
    socket = Socket(websocket_router(render), PATH, headers=headers)
    admitted: list[bool] = []
    socket.scope["admit"] = lambda: admitted.append(True)
    assert (await socket.connect(WITHIN))[0]
    await socket.disconnect()
    return admitted


async def test_a_host_that_has_enrolled_is_no_stranger(open_socket: Open) -> None:
    host = await enrol(open_socket)
    assert await in_db(lambda: host.name)() == "h1"
    socket = await open_socket(PATH)
    assert link.strangers._open.total() == 1
    await tell(socket, Enrol(join_token="nothing", host="h2", credential=CREDENTIAL))
    await hear(socket)
    assert await socket.closed() == link.REFUSED
