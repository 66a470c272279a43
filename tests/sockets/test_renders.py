"""Pages drawn for sockets: once for everybody who is sent the same, never for others, and not in the links' way."""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from compute_agent.contract.messages import Heartbeat
from portal.dashboard.live import render as real_render
from portal.sockets import renders as module
from portal.sockets.renders import GATHER, Renders
from provisioning.common.context import RequestContext
from provisioning.common.processes.threads import RENDERS
from provisioning.events.selectors import LoggedEvent, latest_id
from provisioning.hosts.models import Host
from provisioning.identity.policy import PersonalRuleError
from provisioning.images.models import Image
from tests.agent_link.test_link import connect, enrol, eventually, tell
from tests.sockets.test_browser import browser, happen
from tests.sockets.test_console_log import server_of
from tests.support.cast import People, context_of, make_user
from tests.support.sockets import Open, in_db

Drawn = tuple[str, list[int], RequestContext]


class Drawings:
    """A page that remembers what it was drawn for."""

    def __init__(self) -> None:
        self.made: list[Drawn] = []

    def __call__(self, page: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
        self.made.append((page, [event.id for event in events], context))
        return f"{page} {sorted(context.roles)} {len(self.made)}"


def event(number: int) -> LoggedEvent:
    return LoggedEvent(number, "project:p", "instance", {"id": str(uuid.UUID(int=number)), "name": "web"})


def caller(name: str, *roles: str, project: int = 1) -> RequestContext:
    return RequestContext(uuid.uuid4(), name, uuid.UUID(int=project), roles=frozenset(roles))


async def test_sockets_with_the_same_rights_share_one_frame() -> None:
    drawings = Drawings()
    renders = Renders(drawings)
    callers = [caller(f"user {number}", "member") for number in range(10)]
    frames = await asyncio.gather(*(renders.html("instances", [event(1)], each) for each in callers))
    assert len(set(frames)) == len(drawings.made) == 1


async def test_what_is_shared_knows_no_person() -> None:
    drawings = Drawings()
    alice = replace(caller("alice", "member"), audit_id="a", sign_in_id=uuid.uuid4(), user_domain_id="d")
    await Renders(drawings).html("instances", [event(1)], alice)
    _, _, context = drawings.made[0]
    result = (context.user_name, context.audit_id, context.sign_in_id, context.user_domain_id, context.request_id)
    assert result == ("", "", None, "", "")
    assert context.user_id != alice.user_id
    assert (context.project_id, context.roles) == (alice.project_id, alice.roles)


async def test_other_rights_other_projects_and_other_pages_never_share() -> None:
    drawings = Drawings()
    renders = Renders(drawings)
    member, admin = caller("alice", "member"), caller("root", "member", "admin")
    elsewhere = caller("charlie", "member", project=2)
    requested = [("instances", member), ("instances", admin), ("instances", elsewhere), ("overview", member)]
    frames = await asyncio.gather(*(renders.html(page, [event(1)], each) for page, each in requested))
    assert len({frame.rsplit(" ", 1)[1] for frame in frames}) == 4
    assert frames[0].startswith("instances ['member']")
    assert frames[1].startswith("instances ['admin', 'member']")


async def test_what_one_reader_missed_is_sent_to_no_other() -> None:
    drawings = Drawings()
    renders = Renders(drawings)
    one, other = caller("alice", "member"), caller("bob", "member")
    await asyncio.gather(
        renders.html("instances", [event(1), event(2)], one, caught_up=True),
        renders.html("instances", [event(9)], other),
    )
    assert sorted(numbers for _, numbers, _ in drawings.made) == [[1, 2], [9]]


async def test_a_frame_that_is_being_drawn_is_too_old_for_what_comes_now() -> None:
    """It may have read the state before."""
    go_on, begun, made = threading.Event(), threading.Event(), list[list[int]]()

    def slow(_: str, events: Sequence[LoggedEvent], __: RequestContext) -> str:
        made.append([event.id for event in events])
        begun.set()
        go_on.wait(60)
        return str(len(made))

    renders = Renders(slow)
    alice = caller("alice", "member")
    first = asyncio.ensure_future(renders.html("instances", [event(1)], alice))
    await asyncio.to_thread(begun.wait, 60)
    later = [asyncio.ensure_future(renders.html("instances", [event(number)], alice)) for number in (2, 3)]
    await asyncio.sleep(0)
    go_on.set()
    assert [await first, *await asyncio.gather(*later)] == ["1", "2", "2"]
    assert made == [[1], [2, 3]]


async def test_a_rule_that_asks_for_the_person_makes_each_draw_its_own() -> None:
    def personal(_: str, __: Sequence[LoggedEvent], context: RequestContext) -> str:
        if not context.user_name:
            raise PersonalRuleError("some rule")
        return context.user_name

    renders = Renders(personal)
    callers = [caller("alice", "member"), caller("bob", "member")]
    assert await asyncio.gather(*(renders.html("images", [event(1)], each) for each in callers)) == ["alice", "bob"]


async def test_what_fails_fails_for_all_and_the_next_is_drawn() -> None:
    broken = True

    def render(*_: Any) -> str:
        if broken:
            raise LookupError
        return "whole"

    renders = Renders(render)
    requested = [renders.html("images", [event(1)], caller(name, "member")) for name in ("alice", "bob")]
    failed = await asyncio.gather(*requested, return_exceptions=True)
    assert [type(each) for each in failed] == [LookupError, LookupError]
    broken = False
    assert await renders.html("images", [event(2)], caller("alice", "member")) == "whole"


@pytest.mark.parametrize(("took", "limited"), [(0.001, False), (100.0, True)])
async def test_a_page_waits_for_its_share_of_a_core_only_when_it_has_used_more(
    monkeypatch: pytest.MonkeyPatch, took: float, *, limited: bool
) -> None:
    used, pauses = itertools.count(step=took), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    renders = Renders(Drawings())
    monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: next(used)))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))
    for number in range(3):
        await renders.html("instances", [event(number)], caller("alice", "member"))
    assert pauses[0] == GATHER
    assert [pause > 10 for pause in pauses[1:]] == [limited] * len(pauses[1:])
    assert len(pauses) >= 3


@pytest.mark.slow
async def test_a_burst_at_ten_sockets_draws_little(open_socket: Open, people: People) -> None:
    drawings = Drawings()
    sockets = [await browser(open_socket, people.alice, page=drawings) for _ in range(10)]
    for socket in sockets:
        await socket.json()
    for number in range(20):
        await in_db(happen)(people.alice, number)
    newest = await in_db(latest_id)()
    for socket in sockets:
        while (await socket.json())["id"] < newest:
            continue
    assert len(drawings.made) <= 40  # each for itself: up to 200


async def test_pages_that_are_slow_to_draw_hold_up_no_heartbeat(open_socket: Open, people: People) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def slow(*_: Any) -> str:
        begun.release()
        go_on.wait(60)
        return "slow"

    host = await enrol(open_socket)
    agent = await connect(open_socket, host)
    pages = [f"/ws/dashboard?page={number}" for number in range(8)]
    sockets = [await browser(open_socket, people.alice, path, page=slow) for path in pages]
    for socket in sockets:
        await socket.json()
    await in_db(happen)(people.alice, 1)
    try:
        for _ in range(RENDERS.size):
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        await in_db(Host.objects.filter(id=host.id).update)(last_seen_at=None)
        await tell(agent, Heartbeat())
        await eventually(lambda: Host.objects.get(id=host.id).last_seen_at is not None)
        assert not begun.acquire(blocking=False)  # none is drawn in another thread
    finally:
        go_on.set()
    assert [(await socket.json())["html"] for socket in sockets] == ["slow"] * 8


@pytest.mark.parametrize("role", ["reader", "member", "admin"])
@pytest.mark.parametrize("page", ["overview", "instances", "instance", "images"])
def test_pages_look_the_same_without_the_person(people: People, page: str, role: str) -> None:
    """What the sockets of a project share is what each would have drawn for itself."""
    server = server_of(people.alice, None)
    context = context_of(make_user("ada", {people.alice.project: role}), people.alice.project)
    name = f"instance/{server.id}" if page == "instance" else page
    kind, shown_id = "instance", server.id
    if page == "images":
        kind, shown_id = "image", Image.objects.create(project_id=people.alice.project_id, name="small").id
    happened = [LoggedEvent(1, "", kind, {"id": str(shown_id), "name": "web"})]
    shown = real_render(name, happened, context)
    assert str(shown_id) in shown or page == "overview"
    assert shown == real_render(name, happened, context.without_person())


def test_a_rule_of_the_operators_own_about_the_person_is_not_answered_without_one(
    people: People, settings: Settings, tmp_path: Path
) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text(f'"os_compute_api:servers:stop": "user_id:{people.alice.user_id.hex}"\n')
    server = server_of(people.alice, None)
    happened = [LoggedEvent(1, "", "instance", {"id": str(server.id), "name": "web"})]
    page = f"instance/{server.id}"
    with pytest.raises(PersonalRuleError):
        real_render(page, happened, people.alice.context.without_person())
    assert str(server.id) in real_render(page, happened, people.alice.context)
