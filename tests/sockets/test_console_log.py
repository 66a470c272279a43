"""The console log's socket: its host is asked again and again; foreign servers do not exist."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.messages import Call, CallError, CallReply, ConsoleOutput
from portal.sockets import console_log, follower
from provisioning.compute.models import Instance
from provisioning.hosts import calls
from provisioning.hosts.models import Host
from tests.agent_link.test_link import connect, enrol, hear, tell
from tests.support.cast import People, Person
from tests.support.sockets import ORIGIN, Open, Socket, cookie_of, in_db


def server_of(person: Person, host: Host | None) -> Instance:
    now = timezone.now()
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
    )


async def console(open_socket: Open, person: Person, instance_id: Any, query: str = "") -> Socket:
    token = await in_db(lambda: person.token)()
    path = f"/ws/dashboard/servers/{instance_id}/console-log{query}"
    return await open_socket(path, origin=ORIGIN, cookie=cookie_of(token))


async def test_what_the_guest_writes_follows_live(open_socket: Open, people: People) -> None:
    host = await enrol(open_socket)
    agent = await connect(open_socket, host)
    server = await in_db(server_of)(people.alice, host)
    page = await console(open_socket, people.alice, server.id)
    first = await hear(agent)
    assert (first.body.instance_id, first.body.offset, first.body.lines) == (str(server.id), None, 400)
    await tell(agent, CallReply(id=first.id, result=ConsoleOutput(text="<b>boot\n", offset=108)))
    assert await page.json() == {"text": "<b>boot\n", "offset": 108}
    second = await hear(agent)
    assert (second.body.offset, second.body.lines) == (108, None)
    await tell(agent, CallReply(id=second.id, result=ConsoleOutput(text="", offset=108, start=108)))
    third = await hear(agent)
    await tell(agent, CallReply(id=third.id, result=ConsoleOutput(text="more", offset=112, start=108)))
    assert await page.json() == {"text": "more", "offset": 112}


async def test_a_question_that_was_just_answered_is_not_put_again(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, before = calls.pending_calls, list[Call]()

    def read_before_the_answer_was_written(host_id: uuid.UUID) -> list[Call]:
        now = pending(host_id)
        late = [call for call in before if call not in now]
        before[:] = now
        return [*late, *now]

    monkeypatch.setattr(calls, "pending_calls", read_before_the_answer_was_written)
    host = await enrol(open_socket)
    agent = await connect(open_socket, host)
    server = await in_db(server_of)(people.alice, host)
    await console(open_socket, people.alice, server.id)
    for offset in (None, 108, 216):
        question = await hear(agent)
        assert question.body.offset == offset
        await tell(agent, CallReply(id=question.id, result=ConsoleOutput(text="more", offset=(offset or 0) + 108)))


async def test_a_page_goes_on_where_it_was(open_socket: Open, people: People) -> None:
    host = await enrol(open_socket)
    agent = await connect(open_socket, host)
    server = await in_db(server_of)(people.alice, host)
    await console(open_socket, people.alice, server.id, "?offset=50")
    assert (await hear(agent)).body.offset == 50


async def test_a_server_without_a_guest_yet_is_waited_for(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_log, "NOT_YET_PAUSE", 0.02)
    host = await enrol(open_socket)
    agent = await connect(open_socket, host)
    server = await in_db(server_of)(people.alice, None)
    page = await console(open_socket, people.alice, server.id)
    await in_db(Instance.objects.filter(id=server.id).update)(host=host)
    question = await hear(agent)
    await tell(agent, CallReply(id=question.id, result=CallError(code="not_found", message="no such guest")))
    again = await hear(agent)
    await tell(agent, CallReply(id=again.id, result=ConsoleOutput(text="up", offset=2)))
    assert (await page.json())["text"] == "up"


async def test_a_host_that_is_away_is_said_in_a_sentence(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_log, "ANSWER_WITHIN", 0.1)
    host = await enrol(open_socket)
    server = await in_db(server_of)(people.alice, host)
    page = await console(open_socket, people.alice, server.id)
    assert await page.json() == {"error": "The host does not answer."}


async def test_another_projects_server_does_not_exist(open_socket: Open, people: People) -> None:
    server = await in_db(server_of)(people.alice, None)
    for instance_id in (server.id, uuid.uuid4()):
        page = await console(open_socket, people.charlie, instance_id)
        assert await page.closed() == follower.NOT_FOUND


async def test_a_deleted_server_closes_the_page(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_log, "NOT_YET_PAUSE", 0.02)
    server = await in_db(server_of)(people.alice, None)
    page = await console(open_socket, people.alice, server.id)
    await in_db(Instance.objects.filter(id=server.id).update)(vm_state="deleted")
    assert await page.closed() == follower.NOT_FOUND
