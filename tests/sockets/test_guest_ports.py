"""Tunnels to ports of guests: who is let in, where they lead, what ends them, and what is written down."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from pytest_django import Settings

from compute_agent.contract.calls import CallError, OpenTunnelCall, TunnelOpened
from compute_agent.contract.messages import CallReply
from compute_agent.contract.power import PowerState
from portal.routing import websocket_router
from portal.sockets import follower, guest_ports, joined
from provisioning.common.machine.machine_shares import shares
from provisioning.compute import selectors
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.services import tunnels
from provisioning.compute.state_machine import state
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.users import revoke_all
from provisioning.network.models import FixedIP, Port
from provisioning.network.services import allocate, create_network, create_subnet
from tests.agent_link.test_link import CREDENTIAL, connect, enrol, eventually, hear, tell
from tests.sockets.test_consoles import closed_with, server_of
from tests.sockets.test_taken_away import robot
from tests.support.cast import People, Person
from tests.support.roles import remove_role
from tests.support.sockets import HOST, WITHIN, Open, Socket, in_db, render


class Cast:
    """A host with its link, and alice's server on it with an address."""

    def __init__(self, opener: Open, people: People) -> None:
        self.open = opener
        self.people = people

    async def begin(self) -> Cast:
        self.host = await enrol(self.open)
        self.agent = await connect(self.open, self.host)
        self.server, self.port = await in_db(self._records)()
        return self

    def _records(self) -> tuple[Instance, Port]:
        alice = self.people.alice
        server = server_of(alice, self.host)
        network = create_network(alice.project_id, "private")
        create_subnet(network, "10.9.0.0/24")
        requested = [{"network_id": str(network.id), "fixed_ip": "10.9.0.7"}]
        (port,) = allocate(server.id, alice.project_id, requested, [], self.host.name, "nova")
        return server, port

    async def look(self, query: str = "port=22", person: Person | None = None, **headers: str) -> Socket:
        if not headers:
            headers = {"x_auth_token": await in_db(lambda: (person or self.people.alice).token)()}
        return await self.open(f"/ws/servers/{self.server.id}/tunnel?{query}", **headers)

    async def dial(self, tunnel: str) -> Socket:
        bearer = f"Bearer {CREDENTIAL}h1"
        return await self.open(f"/ws/agent/tunnels/{tunnel}", authorization=bearer, x_novella_host="h1")

    async def accept_call(self) -> OpenTunnelCall:
        call = await hear(self.agent)
        await tell(self.agent, CallReply(id=call.id, result=TunnelOpened()))
        assert isinstance(call.body, OpenTunnelCall)
        return call.body

    async def joined(self, query: str = "port=22", **options: Any) -> tuple[Socket, Socket]:
        person = await self.look(query, **options)
        assert person.accepted
        far = await self.dial((await self.accept_call()).tunnel)
        assert far.accepted
        await far.send_to(bytes_data=b"hello")
        assert await person.receive_from(WITHIN) == b"hello"
        return person, far

    async def refused(self, query: str = "port=22", **options: Any) -> tuple[int, str]:
        return await closed_with(await self.look(query, **options))


@pytest.fixture
async def cast(open_socket: Open, people: People) -> Cast:
    return await Cast(open_socket, people).begin()


# ----- where it leads -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_host_is_asked_for_the_port_at_the_servers_own_address(cast: Cast) -> None:
    await cast.look("port=8080")
    requested = await cast.accept_call()
    assert (requested.instance_id, requested.port_id) == (str(cast.server.id), str(cast.port.id))
    assert (requested.address, requested.port, requested.share) == (
        "10.9.0.7",
        8080,
        f"user {cast.people.alice.user_id}",
    )


@pytest.mark.slow
async def test_bytes_pass_both_ways_and_an_empty_frame_is_an_end(cast: Cast) -> None:
    person, far = await cast.joined()
    await person.send_to(bytes_data=b"\x00\xff")
    assert await far.receive_from(WITHIN) == b"\x00\xff"
    await person.send_input({"type": "websocket.receive", "bytes": b""})
    assert await far.receive_from(WITHIN) == b""
    await far.send_to(bytes_data=b"the rest")
    assert await person.receive_from(WITHIN) == b"the rest"
    await far.send_input({"type": "websocket.receive", "bytes": b""})
    assert await person.receive_from(WITHIN) == b""
    await far.disconnect()
    assert (await closed_with(person))[0] == joined.OVER


@pytest.mark.slow
async def test_whoever_hangs_up_takes_the_other_along(cast: Cast) -> None:
    person, far = await cast.joined()
    await person.disconnect()
    assert await far.closed() == 1000


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "port=0", "port=65536", "port=-1", "port=x", "port=2²", "port=22&address=here"])
async def test_what_is_no_port_or_address_is_reported(cast: Cast, query: str) -> None:
    code, reason = await cast.refused(query)
    assert code == follower.INVALID
    assert "must be" in reason


@pytest.mark.slow
async def test_only_addresses_of_the_server_are_reached(cast: Cast) -> None:
    for address in ("10.9.0.8", "127.0.0.1", "169.254.169.254", "::1"):
        assert (await cast.refused(f"port=22&address={address}"))[0] == follower.NOT_FOUND
    await cast.joined("port=22&address=10.9.0.7")


async def test_a_server_without_an_address_or_a_guest(cast: Cast) -> None:
    await in_db(Instance.objects.update)(power_state=PowerState.SHUTDOWN)
    assert await cast.refused() == (follower.CONFLICT, f"Instance {cast.server.id} is not ready")
    await in_db(Instance.objects.update)(power_state=PowerState.RUNNING)
    await in_db(FixedIP.objects.all().delete)()
    assert await cast.refused() == (follower.CONFLICT, f"Instance {cast.server.id} has no address.")


# ----- who is let in --------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_without_a_good_token_nobody(cast: Cast) -> None:
    for headers in ({"x_auth_token": "guess"}, {"authorization": "Bearer guess"}, {"cookie": "sessionid=guess"}):
        assert (await cast.refused(**headers))[0] == follower.ENDED


async def test_another_projects_server_is_not_there(cast: Cast) -> None:
    code, reason = await cast.refused(person=cast.people.charlie)
    assert (code, reason) == (follower.NOT_FOUND, f"Instance {cast.server.id} could not be found.")


@pytest.mark.slow
async def test_a_reader_may_not(cast: Cast) -> None:
    assert (await cast.refused(person=cast.people.bob))[0] == follower.FORBIDDEN


@pytest.mark.slow
async def test_a_page_of_another_site_opens_nothing(cast: Cast) -> None:
    token = await in_db(lambda: cast.people.alice.token)()
    assert not (await cast.look(x_auth_token=token, origin="http://evil.example")).accepted


@pytest.mark.slow
async def test_a_token_may_come_as_bearer_or_as_a_subprotocol(cast: Cast) -> None:
    token = await in_db(lambda: cast.people.alice.token)()
    await cast.joined(authorization=f"Bearer {token}")
    offered = [guest_ports.SUBPROTOCOL, guest_ports.TOKEN_PREFIX + token.rstrip("=")]
    path = f"/ws/servers/{cast.server.id}/tunnel?port=22"
    socket = Socket(websocket_router(render), path, headers=[(b"host", HOST.encode())], subprotocols=offered)
    assert await socket.connect(WITHIN) == (True, guest_ports.SUBPROTOCOL)
    assert (await cast.accept_call()).port == 22
    await socket.disconnect()


@pytest.mark.slow
async def test_an_application_credential_opens_one_until_it_is_deleted(cast: Cast) -> None:
    record, token = await in_db(robot)(cast.people.alice)
    person, _ = await cast.joined(x_auth_token=token)
    await in_db(delete_application_credential)(record)
    assert (await closed_with(person))[0] == follower.ENDED


@pytest.mark.slow
async def test_one_user_has_so_many_and_others_have_theirs(cast: Cast, settings: Settings) -> None:
    settings.TUNNELS_PER_USER, settings.SOCKETS_PER_SESSION = 2, 1
    token = await in_db(lambda: cast.people.alice.token)()
    first, _ = await cast.joined(x_auth_token=token)
    await cast.joined(x_auth_token=token)
    code, reason = await cast.refused(x_auth_token=token)
    assert (code, "tunnels" in reason) == (follower.TOO_MANY, True)
    await cast.joined(person=cast.people.operator)
    await first.disconnect()
    only = {f"tunnels of user {cast.people.alice.user_id}": 2}
    async with asyncio.timeout(WITHIN):
        while (taken := shares.acquire(only)) is None:
            await asyncio.sleep(0.01)
    shares.release(taken)
    await cast.joined(x_auth_token=token)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        ("refused", guest_ports.REFUSED, "The guest does not accept connections at port 22 of 10.9.0.7."),
        ("unreachable", guest_ports.REFUSED, "The guest does not answer at port 22 of 10.9.0.7."),
        ("busy", joined.BUSY, "Full."),
        ("unsupported", joined.NO_GUEST, "Full."),
        ("not_found", joined.NO_GUEST, "Full."),
        ("failed", joined.NO_HOST, "The server's host could not open the tunnel."),
    ],
)
async def test_what_the_host_refuses_is_reported_and_not_logged(
    cast: Cast, answer: str, code: int, reason: str
) -> None:
    person = await cast.look()
    call = await hear(cast.agent)
    await tell(cast.agent, CallReply(id=call.id, result=CallError(code=answer, message="Full.")))
    assert await closed_with(person) == (code, reason)
    assert not await in_db(InstanceAction.objects.exists)()


# ----- what ends it ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_revoked_token_ends_its_own_tunnel(cast: Cast) -> None:
    alice = cast.people.alice
    issued, other = await in_db(lambda: [issue_token(alice.user, alice.project, ("password",)) for _ in "12"])()
    person, far = await cast.joined(x_auth_token=issued.value)
    kept, _ = await cast.joined(x_auth_token=other.value)
    await in_db(revoke_token)(issued.data)
    assert (await closed_with(person))[0] == follower.ENDED
    assert await far.closed() == 1000
    assert await kept.receive_nothing(0.05)


@pytest.mark.slow
async def test_whoever_may_no_more_is_cut_off(cast: Cast) -> None:
    alice = cast.people.alice
    person, far = await cast.joined()
    await in_db(remove_role)(alice.user, alice.project, "member")
    assert (await closed_with(person))[0] in {follower.ENDED, follower.FORBIDDEN}
    assert await far.closed() == 1000


@pytest.mark.slow
async def test_all_tokens_revoked(cast: Cast) -> None:
    person, _ = await cast.joined()
    await in_db(revoke_all)(cast.people.alice.user)
    assert (await closed_with(person))[0] == follower.ENDED


@pytest.mark.slow
async def test_an_expired_token_ends_it(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = cast.people.alice
    issued = await in_db(issue_token)(alice.user, alice.project, ("password",))
    person, _ = await cast.joined(x_auth_token=issued.value)

    def expired(*_: Any, **__: Any) -> None:
        raise follower.NotAuthenticatedError("The token has expired.")

    monkeypatch.setattr(follower, "context_for_token", expired)
    await in_db(lambda: state.update(Instance.objects.get(), {"description": "any change makes it look"}))()
    assert (await closed_with(person))[0] == follower.ENDED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"power_state": int(PowerState.SHUTDOWN)}, follower.CONFLICT),
        ({"vm_state": "deleted"}, follower.NOT_FOUND),
        ({"attempt": 9}, follower.CONFLICT),
    ],
)
async def test_the_end_of_the_guest_ends_it(cast: Cast, columns: dict[str, Any], code: int) -> None:
    person, far = await cast.joined()
    await in_db(lambda: state.update(Instance.objects.get(), columns))()
    assert (await closed_with(person))[0] == code
    assert await far.closed() == 1000


@pytest.mark.slow
async def test_an_address_that_was_taken_away_ends_it(cast: Cast) -> None:
    person, _ = await cast.joined()
    await in_db(FixedIP.objects.all().delete)()
    await in_db(lambda: state.update(Instance.objects.get(), {"description": "changed"}))()
    assert (await closed_with(person))[0] == follower.NOT_FOUND


@pytest.mark.slow
async def test_silence_ends_it(cast: Cast, settings: Settings) -> None:
    settings.TUNNEL_IDLE_TIMEOUT = 3  # seconds: what is said first may take its time
    person, far = await cast.joined()
    assert (await closed_with(person))[0] == joined.IDLE
    assert await far.closed() == 1000


# ----- what is written down -------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_servers_log_says_who_reached_which_port(cast: Cast) -> None:
    alice = cast.people.alice
    person, _ = await cast.joined()
    (row,) = await in_db(lambda: selectors.actions_for(alice.context, cast.server.id))()
    assert (row.action, row.user_id, row.project_id) == ("open_tunnel", alice.user_id, alice.project_id)
    assert (row.finished_at is not None, row.message) == (True, None)
    await person.send_to(bytes_data=b"123")
    await person.disconnect()
    await eventually(lambda: "bytes_to_guest" in InstanceActionEvent.objects.get().detail)
    step = await in_db(InstanceActionEvent.objects.get)()
    assert step.detail == {
        "address": "10.9.0.7",
        "port": "22",
        "connections": "1",
        "bytes_to_guest": "3",
        "bytes_from_guest": "5",
    }


@pytest.mark.slow
async def test_connections_that_follow_each_other_are_one_entry(cast: Cast) -> None:
    for query in ("port=80", "port=80", "port=81"):
        person, _ = await cast.joined(query)
        await person.disconnect()
    await cast.joined("port=80", person=cast.people.operator)
    result = await in_db(lambda: [step.detail for step in InstanceActionEvent.objects.order_by("id")])()
    assert [(step["port"], step["connections"]) for step in result] == [("80", "2"), ("81", "1"), ("80", "1")]


@pytest.mark.slow
async def test_every_connection_is_reported(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    notifications: list[tuple[str, Any]] = []
    monkeypatch.setattr(tunnels, "notify", lambda instance, name, note: notifications.append((name, note)))
    person, _ = await cast.joined("port=443")
    await person.disconnect()
    async with asyncio.timeout(WITHIN):
        while len(notifications) < 2:
            await asyncio.sleep(0.01)
    assert [name for name, _ in notifications] == ["open_tunnel.start", "open_tunnel.end"]
    start, end = (note.more for _, note in notifications)
    assert (start["port"], start["address"], start["bytes_from_guest"]) == (443, "10.9.0.7", None)
    assert (end["bytes_from_guest"], notifications[1][1].context.user_id) == (5, cast.people.alice.user_id)


@pytest.mark.both_databases("locks")
async def test_a_server_deleted_meanwhile_leaves_no_trouble(cast: Cast) -> None:
    target = tunnels.TunnelTarget(cast.server, uuid.uuid4(), "10.9.0.7", 22)
    opening = await in_db(lambda: tunnels.record_opened(cast.people.alice.context, target))()
    await in_db(InstanceAction.objects.all().delete)()
    await in_db(tunnels.record_closed)(opening, tunnels.Passed(1, 1))
    assert not await in_db(InstanceActionEvent.objects.exists)()
