"""A cap of sockets for each user and each session."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.routing import websocket_router
from portal.sockets import follower
from provisioning.common.machine.machine_shares import shares
from tests.sockets.test_browser import PAGE, browser
from tests.sockets.test_taken_away import enter, script
from tests.support.cast import People
from tests.support.sockets import HOST, ORIGIN, Open, Socket, cookie_of, in_db, render

pytestmark = pytest.mark.usefixtures("plain_static")


async def closed_with(socket: Socket) -> tuple[int, str]:
    assert socket.accepted
    while True:
        message = await socket.receive_output(60)
        if message["type"] == "websocket.close":
            return int(message["code"]), str(message.get("reason", ""))


async def test_a_user_has_so_many_sockets_and_others_have_their_own(
    open_socket: Open, people: People, settings: Settings
) -> None:
    settings.SOCKETS_PER_USER = 3
    first = await browser(open_socket, people.alice)
    await browser(open_socket, people.alice)
    await script(open_socket, await in_db(lambda: people.alice.token)())
    code, reason = await closed_with(await browser(open_socket, people.alice))
    assert code == follower.TOO_MANY
    assert reason
    assert (await (await browser(open_socket, people.bob)).json())["hello"] >= 0
    await first.disconnect()
    assert (await (await browser(open_socket, people.alice)).json())["hello"] >= 0


async def test_a_session_has_so_many_sockets_and_the_users_other_one_its_own(
    open_socket: Open, people: People, settings: Settings
) -> None:
    settings.SOCKETS_PER_SESSION = 2
    one, other = await in_db(enter)(people.alice), await in_db(enter)(people.alice)
    for _ in range(2):
        await (await open_socket(PAGE, origin=ORIGIN, cookie=one)).json()
    assert (await closed_with(await open_socket(PAGE, origin=ORIGIN, cookie=one)))[0] == follower.TOO_MANY
    assert (await (await open_socket(PAGE, origin=ORIGIN, cookie=other)).json())["hello"] >= 0


async def test_a_socket_that_breaks_while_it_opens_leaves_its_place(
    transactional_db: None, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise OSError("the database is away")

    cookie = cookie_of(await in_db(lambda: people.alice.token)())
    headers = [(b"host", HOST.encode()), (b"origin", ORIGIN.encode()), (b"cookie", cookie.encode())]
    scope = Socket(websocket_router(render), PAGE, headers=headers).scope
    monkeypatch.setattr(follower.Follower, "_subscribe", breaks)

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    with pytest.raises(OSError, match="the database is away"):
        await websocket_router(render)(scope, receive, receive)
    assert not shares.held
