"""Consoles over the portal: what joins a person's socket with the host's, who is refused, and what ends it."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from compute_agent.contract.calls import CallError, ConsoleOpened
from compute_agent.contract.messages import CallReply
from compute_agent.contract.power import PowerState
from portal.common.websockets.consumer import HANG_UP
from portal.routing import websocket_router
from portal.sockets import follower, joined
from provisioning.common.errors import ForbiddenError
from provisioning.common.machine.machine_shares import shares
from provisioning.compute.models import ConsoleToken, Instance, InstanceAction
from provisioning.compute.services import remote_consoles
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import revoke_all
from tests.agent_link.test_link import CREDENTIAL, connect, enrol, hear, tell
from tests.support.cast import People, Person
from tests.support.roles import remove_role
from tests.support.sockets import HOST, ORIGIN, WITHIN, Open, Socket, in_db, render


def server_of(person: Person, host: Host | None, **columns: Any) -> Instance:
    now = timezone.now()
    values: dict[str, Any] = {"vm_state": "active", "task_state": None, "power_state": PowerState.RUNNING, **columns}
    return Instance.objects.create(
        project_id=person.project_id,
        user_id=person.user_id,
        name="web",
        hostname="web",
        host=host,
        flavor={},
        reservation_id="r-1",
        request_id="req-1",
        created_at=now,
        updated_at=now,
        **values,
    )


def ask(person: Person, server: Instance, protocol: str = "vnc", *, takes_over: bool = False) -> str:
    """A token for a console of the server, asked with a fresh token of the person."""
    issued = issue_token(person.user, person.project, ("password",))
    kind = "novnc" if protocol == "vnc" else protocol
    return remote_consoles.create_console(
        person.context, server.id, protocol, kind, issued.data, takes_over=takes_over
    ).token


class Cast:
    """A host with its link, and alice's server on it."""

    def __init__(self, opener: Open, people: People) -> None:
        self.open = opener
        self.people = people

    async def begin(self) -> Cast:
        self.host = await enrol(self.open)
        self.agent = await connect(self.open, self.host)
        self.server = await in_db(server_of)(self.people.alice, self.host)
        return self

    async def token(self, person: Person | None = None, protocol: str = "vnc") -> str:
        return str(await in_db(ask)(person or self.people.alice, self.server, protocol))

    async def look(self, token: str, **headers: str) -> Socket:
        return await self.open(f"/ws/console?token={token}", **{"origin": ORIGIN, **headers})

    async def dial(self, tunnel: str, host: str = "h1", credential: str | None = None) -> Socket:
        bearer = f"Bearer {CREDENTIAL}{host}" if credential is None else credential
        return await self.open(f"/ws/agent/consoles/{tunnel}", authorization=bearer, x_novella_host=host)

    async def accept_call(self) -> Any:
        """The host is asked and says yes."""
        call = await hear(self.agent)
        await tell(self.agent, CallReply(id=call.id, result=ConsoleOpened()))
        return call.body

    async def joined(self, protocol: str = "vnc", person: Person | None = None) -> tuple[Socket, Socket]:
        page = await self.look(await self.token(person, protocol))
        assert page.accepted
        question = await self.accept_call()
        assert (question.instance_id, question.protocol) == (str(self.server.id), protocol)
        far = await self.dial(question.tunnel)
        assert far.accepted
        return page, far


@pytest.fixture
async def cast(open_socket: Open, people: People) -> Cast:
    return await Cast(open_socket, people).begin()


async def closed_with(socket: Socket) -> tuple[int, str]:
    while True:
        message = await socket.receive_output(WITHIN)
        if message["type"] == "websocket.close":
            return int(message["code"]), str(message.get("reason", ""))


@pytest.mark.slow
async def test_bytes_pass_both_ways(cast: Cast) -> None:
    page, far = await cast.joined()
    await far.send_to(bytes_data=b"RFB 003.008\n")
    assert await page.receive_from(WITHIN) == b"RFB 003.008\n"
    await page.send_to(bytes_data=b"\x00\xff")
    assert await far.receive_from(WITHIN) == b"\x00\xff"
    await page.send_to(text_data="ä")
    assert await far.receive_from(WITHIN) == "ä".encode()


async def test_what_is_typed_before_the_host_is_there_arrives(cast: Cast) -> None:
    page = await cast.look(await cast.token())
    await page.send_to(bytes_data=b"early")
    far = await cast.dial((await cast.accept_call()).tunnel)
    assert await far.receive_from(WITHIN) == b"early"


async def test_the_end_of_either_side_ends_the_other(cast: Cast) -> None:
    page, far = await cast.joined()
    await far.disconnect()
    assert (await closed_with(page))[0] == joined.OVER
    page, far = await cast.joined()
    await page.disconnect()
    assert await far.closed() == 1000
    only = {f"consoles of user {cast.people.alice.user.id}": 1}
    async with asyncio.timeout(120):
        while (taken := shares.acquire(only)) is None:
            await asyncio.sleep(0.01)
    shares.release(taken)


# ----- who is refused -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_token_opens_once(cast: Cast) -> None:
    token = await cast.token()
    await cast.look(token)
    again = await cast.look(token)
    code, reason = await closed_with(again)
    assert code == follower.ENDED
    assert "used" in reason


@pytest.mark.parametrize("token", ["", "guess", "x" * 5000, "%00", "%ff"])
async def test_a_guessed_token_opens_nothing(cast: Cast, token: str) -> None:
    await cast.token()
    assert (await closed_with(await cast.look(token)))[0] == follower.ENDED
    program = await cast.open(f"/ws/console?token={token}")
    assert program.accepted
    assert await program.receive_output(WITHIN) == {"type": "websocket.close", "code": HANG_UP}


@pytest.mark.slow
async def test_two_at_once_with_one_token_are_one(cast: Cast) -> None:
    token = await cast.token()
    first, second = await asyncio.gather(cast.look(token), cast.look(token))
    await cast.accept_call()
    ends = [asyncio.ensure_future(closed_with(socket)) for socket in (first, second)]
    refused, (joining,) = await asyncio.wait(ends, timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
    assert [end.result()[0] for end in refused] == [follower.ENDED]
    assert await cast.agent.receive_nothing(0.1)
    assert (await in_db(ConsoleToken.objects.get)()).used_at is not None
    joining.cancel()


async def test_an_expired_token_opens_nothing(cast: Cast) -> None:
    token = await cast.token()
    await in_db(ConsoleToken.objects.update)(expires_at=timezone.now())
    assert (await closed_with(await cast.look(token)))[0] == follower.ENDED


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"{ORIGIN}.evil.example", ""])
async def test_a_page_of_another_site_opens_nothing_and_uses_nothing_up(cast: Cast, origin: str) -> None:
    token = await cast.token()
    assert not (await cast.look(token, origin=origin)).accepted
    assert (await in_db(ConsoleToken.objects.get)()).used_at is None


async def test_a_program_without_an_origin_speaks_binary(cast: Cast) -> None:
    token = await cast.token(protocol="serial")
    socket = Socket(
        websocket_router(render),
        f"/ws/console?token={token}",
        headers=[(b"host", HOST.encode())],
        subprotocols=["binary", "other"],
    )
    accepted, subprotocol = await socket.connect()
    assert (accepted, subprotocol) == (True, "binary")
    assert (await cast.accept_call()).protocol == "serial"
    await socket.disconnect()


async def test_a_token_of_who_lost_the_right_opens_nothing(cast: Cast) -> None:
    alice = cast.people.alice
    token = await cast.token()
    await in_db(remove_role)(alice.user, alice.project, "member")
    assert (await closed_with(await cast.look(token)))[0] in {follower.ENDED, follower.FORBIDDEN}
    assert (await in_db(ConsoleToken.objects.get)()).used_at is None


async def test_a_token_is_void_for_another_guest(cast: Cast) -> None:
    token, later = await cast.token(), await cast.token()
    now = timezone.now()
    await in_db(InstanceAction.objects.create)(
        instance=cast.server, action="rebuild", request_id="req-2", started_at=now
    )
    assert (await closed_with(await cast.look(token)))[0] == follower.NOT_FOUND
    await in_db(InstanceAction.objects.all().delete)()
    await in_db(Instance.objects.update)(attempt=7)
    assert (await closed_with(await cast.look(later)))[0] == follower.NOT_FOUND


async def test_a_server_that_stopped_has_no_console(cast: Cast) -> None:
    token = await cast.token()
    await in_db(Instance.objects.update)(power_state=PowerState.SHUTDOWN)
    code, reason = await closed_with(await cast.look(token))
    assert (code, reason) == (joined.NO_GUEST, f"Instance {cast.server.id} is not ready")


@pytest.mark.slow
async def test_one_user_has_so_many_consoles(cast: Cast, settings: Settings) -> None:
    settings.CONSOLES_PER_USER = 1
    page, _ = await cast.joined()
    assert (await closed_with(await cast.look(await cast.token())))[0] == follower.TOO_MANY
    await page.disconnect()
    await cast.joined()


# ----- the host's side ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_only_the_host_that_was_asked_dials_and_once(cast: Cast, open_socket: Open) -> None:
    await enrol(open_socket, "h2")
    page = await cast.look(await cast.token())
    tunnel = (await cast.accept_call()).tunnel
    assert not (await cast.dial(tunnel, "h2")).accepted
    assert not (await cast.dial(tunnel, credential="Bearer wrong")).accepted
    assert not (await cast.dial(tunnel, credential="")).accepted
    assert not (await cast.dial("guessed")).accepted
    far = await cast.dial(tunnel)
    assert far.accepted
    assert not (await cast.dial(tunnel)).accepted
    await far.send_to(bytes_data=b"still mine")
    assert await page.receive_from(WITHIN) == b"still mine"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("busy", joined.BUSY),
        ("not_found", joined.NO_GUEST),
        ("unsupported", joined.NO_GUEST),
        ("failed", joined.NO_HOST),
    ],
)
async def test_what_the_host_refuses_is_reported(cast: Cast, answer: str, code: int) -> None:
    page = await cast.look(await cast.token(protocol="serial"))
    call = await hear(cast.agent)
    await tell(cast.agent, CallReply(id=call.id, result=CallError(code=answer, message="Somebody else has it.")))
    result, reason = await closed_with(page)
    assert result == code
    assert reason


async def test_a_host_that_does_not_dial_is_not_waited_for(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "DIAL_WITHIN", 0.05)
    page = await cast.look(await cast.token())
    tunnel = (await cast.accept_call()).tunnel
    assert (await closed_with(page))[0] == joined.NO_HOST
    assert not (await cast.dial(tunnel)).accepted


async def test_a_host_that_does_not_answer_is_not_waited_for(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "ANSWER_WITHIN", 0.05)
    page = await cast.look(await cast.token())
    assert (await closed_with(page))[0] == joined.NO_HOST


# ----- what ends an open console --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_is_taken_from_the_person_closes_it(cast: Cast) -> None:
    page, far = await cast.joined()
    await in_db(revoke_all)(cast.people.alice.user)
    assert (await closed_with(page))[0] == follower.ENDED
    assert await far.closed() == 1000


async def test_what_is_taken_from_others_does_not(cast: Cast) -> None:
    page, far = await cast.joined()
    await in_db(revoke_all)(cast.people.charlie.user)
    await far.send_to(bytes_data=b"on")
    assert await page.receive_from(WITHIN) == b"on"


@pytest.mark.parametrize(
    ("columns", "code"),
    [({"power_state": int(PowerState.SHUTDOWN)}, joined.NO_GUEST), ({"vm_state": "deleted"}, follower.NOT_FOUND)],
)
async def test_the_end_of_the_guest_closes_it(cast: Cast, columns: dict[str, Any], code: int) -> None:
    page, far = await cast.joined()
    await in_db(lambda: state.update(Instance.objects.get(), columns))()
    assert (await closed_with(page))[0] == code
    assert await far.closed() == 1000


async def test_an_operator_s_console_of_another_project_ends_with_the_guest_too(cast: Cast) -> None:
    page, _ = await cast.joined(person=cast.people.operator)
    await in_db(lambda: state.update(Instance.objects.get(), {"power_state": int(PowerState.SHUTDOWN)}))()
    assert (await closed_with(page))[0] == joined.NO_GUEST


async def test_silence_closes_it(cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CONSOLE_IDLE_TIMEOUT = 3  # seconds: what is said first may take its time
    page, far = await cast.joined()
    assert (await closed_with(page))[0] == joined.IDLE
    assert await far.closed() == 1000


# ----- taking a console over ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_another_user_takes_a_serial_console_over_only_on_request(cast: Cast) -> None:
    """The one who has the console is closed with a reason; a busy host is asked again until it is free."""
    alice, operator = cast.people.alice, cast.people.operator
    page, far = await cast.joined("serial", alice)
    second = await cast.look(await in_db(ask)(operator, cast.server, "serial"))
    call = await hear(cast.agent)
    await tell(cast.agent, CallReply(id=call.id, result=CallError(code="busy", message="Another user has it open.")))
    assert (await closed_with(second))[0] == joined.BUSY
    await far.send_to(bytes_data=b"still hers")
    assert await page.receive_from(WITHIN) == b"still hers"

    third = await cast.look(await in_db(ask)(operator, cast.server, "serial", takes_over=True))
    call = await hear(cast.agent)
    await tell(cast.agent, CallReply(id=call.id, result=CallError(code="busy", message="Another user has it open.")))
    assert (await closed_with(page))[0] == joined.TAKEN
    await cast.accept_call()
    assert await third.receive_nothing(0.1)


async def test_a_second_window_of_the_same_user_replaces_the_first(cast: Cast) -> None:
    page, _ = await cast.joined("serial")
    await cast.look(await cast.token(protocol="serial"))
    assert (await closed_with(page))[0] == joined.TAKEN


async def test_the_policy_decides_who_takes_over(cast: Cast, settings: Settings, tmp_path: Path) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text('"novella:servers:replace_console": "role:admin"\n')
    settings.POLICY_FILE = rules
    with pytest.raises(ForbiddenError):
        await in_db(ask)(cast.people.alice, cast.server, "serial", takes_over=True)
    await in_db(ask)(cast.people.operator, cast.server, "serial", takes_over=True)
    assert await in_db(ConsoleToken.objects.count)() == 1


# ----- tokens ---------------------------------------------------------------------------------------------------------


async def test_the_record_holds_no_token(cast: Cast) -> None:
    token = await cast.token()
    row = await in_db(ConsoleToken.objects.values().get)()
    assert token not in str(row)
    assert uuid.UUID(str(row["user_id"])) == cast.people.alice.user_id


@pytest.mark.slow
async def test_old_tokens_make_room_and_expired_ones_go(cast: Cast) -> None:
    tokens = [await cast.token() for _ in range(remote_consoles.MOST_UNUSED + 2)]
    assert await in_db(ConsoleToken.objects.count)() == remote_consoles.MOST_UNUSED
    assert (await closed_with(await cast.look(tokens[0])))[0] == follower.ENDED
    await in_db(ConsoleToken.objects.update)(expires_at=timezone.now())
    assert await in_db(remote_consoles.flush)() == remote_consoles.MOST_UNUSED
