"""A page's socket: who gets in, what it is sent, how it catches up, and when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from portal.sockets import browser as pages
from portal.sockets import follower
from provisioning.common.context import RequestContext
from provisioning.events.models import Event
from provisioning.events.selectors import EVERYBODY, OPERATORS, LoggedEvent, latest_id, of_user
from provisioning.events.services import record
from provisioning.events.tailer import tailer
from provisioning.identity import policy
from provisioning.identity.selectors.tokens import token_data
from provisioning.identity.services.tokens import issue_token, revoke_token
from tests.agent_link.test_link import eventually
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.roles import remove_role
from tests.support.sockets import ORIGIN, WITHIN, Open, Socket, cookie_of, in_db, render

PAGE = "/ws/dashboard?page=instances"


def happen(person: Person, *numbers: int) -> None:
    with transaction.atomic():
        for number in numbers:
            record(f"project:{person.project_id}", "instance", {"n": number})


async def browser(open_socket: Open, person: Person, path: str = PAGE, **more: Any) -> Socket:
    token = await in_db(lambda: person.token)()
    return await open_socket(path, origin=ORIGIN, cookie=cookie_of(token), **more)


async def test_a_change_of_the_project_arrives_rendered_for_the_page(open_socket: Open, people: People) -> None:
    socket = await browser(open_socket, people.alice)
    hello = await socket.json()
    assert hello == {"hello": await in_db(latest_id)()}
    await in_db(happen)(people.charlie, 1)
    await in_db(happen)(people.alice, 2)
    frame = await socket.json()
    assert frame == {"id": await in_db(latest_id)(), "html": "instances|wonderland|2"}


async def test_one_frame_has_the_page_and_the_tray(open_socket: Open, people: People) -> None:
    @transaction.atomic
    def both() -> None:
        record(of_user(people.alice.user_id), "batch", {"n": 1, "project_id": str(people.alice.project_id)})
        happen(people.alice, 2)

    await in_db(happen)(people.alice, 0)
    before = await in_db(latest_id)()
    await in_db(both)()
    socket = await browser(open_socket, people.alice, f"{PAGE}&since={before}")
    await socket.json()
    frame = await socket.json()
    assert frame["html"] == "instances|wonderland|2instances|wonderland|1tray|wonderland|1"


async def test_every_page_of_the_project_is_reported(open_socket: Open, people: People) -> None:
    sockets = [await browser(open_socket, person) for person in (people.alice, people.bob, people.alice)]
    for socket in sockets:
        await socket.json()
    await in_db(happen)(people.alice, 7)
    assert [(await socket.json())["html"] for socket in sockets] == [
        "instances|wonderland|7",
        "instances|wonderland|7",
        "instances|wonderland|7",
    ]


async def test_what_everybody_sees_is_reported_to_every_project(open_socket: Open, people: People) -> None:
    socket = await browser(open_socket, people.alice)
    await socket.json()
    await in_db(transaction.atomic(lambda: record(EVERYBODY, "network", {"n": 3})))()
    frame = await socket.json()
    assert frame["html"] == "instances|wonderland|3"
    late = await browser(open_socket, people.charlie, f"{PAGE}&since={frame['id'] - 1}")
    await late.json()
    assert (await late.json())["html"].endswith("|3")


async def test_the_page_of_an_instance_follows_its_project(open_socket: Open, people: People) -> None:
    """Operators open instances of other projects; nobody else is told of them."""
    server = await in_db(lambda: Cloud.make().launch(people.alice.context))()
    path = f"/ws/dashboard?page=instance/{server.id}/activity"
    operator, charlie = [await browser(open_socket, each, path) for each in (people.operator, people.charlie)]
    for socket in (operator, charlie):
        await socket.json()
    await in_db(happen)(people.alice, 4)
    await in_db(happen)(people.charlie, 5)
    assert (await operator.json())["html"].endswith("|4")
    assert (await charlie.json())["html"].endswith("|5")


@pytest.mark.parametrize("page", sorted(pages.OF_OPERATORS))
async def test_the_lists_of_operators_follow_all_projects(open_socket: Open, people: People, page: str) -> None:
    path = f"/ws/dashboard?page={page}%3Fq=web"
    operator, charlie = [await browser(open_socket, each, path) for each in (people.operator, people.charlie)]
    for socket in (operator, charlie):
        await socket.json()
    await in_db(transaction.atomic(lambda: record(OPERATORS, "host", {"n": 4})))()
    await in_db(happen)(people.charlie, 5)
    assert (await operator.json())["html"].endswith("|4")
    assert (await charlie.json())["html"].endswith("|5")


async def test_a_list_without_events_is_drawn_again_and_sent_if_it_has_changed(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = pages.OF_OPERATORS["hosts"]
    often = {**pages.OF_OPERATORS, "hosts": replace(hosts, seconds=0.01)}
    monkeypatch.setattr(pages, "OF_OPERATORS", often)
    drawn: list[str] = []

    def draw(_: str, events: Sequence[LoggedEvent], __: RequestContext) -> str:
        drawn.append(events[0].kind)
        if len(drawn) == 6:
            raise ValueError("for this test")
        return "idle" if len(drawn) < 4 else "busy"

    socket = await browser(open_socket, people.operator, "/ws/dashboard?page=hosts", page=draw)
    await socket.json()
    assert [(await socket.json())["html"] for _ in range(2)] == ["idle", "busy"]
    assert (await socket.json())["resync"] is True
    assert set(drawn) == {"host"}


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null", ""])
async def test_another_sites_page_is_refused(open_socket: Open, people: People, origin: str) -> None:
    cookie = cookie_of(await in_db(lambda: people.alice.token)())
    socket = await open_socket(PAGE, origin=origin, cookie=cookie)
    assert not socket.accepted


async def test_a_host_that_is_not_ours_is_refused(open_socket: Open, people: People) -> None:
    cookie = cookie_of(await in_db(lambda: people.alice.token)())
    socket = await open_socket(PAGE, host="rebound.example", origin="http://rebound.example", cookie=cookie)
    assert not socket.accepted


@pytest.mark.parametrize("cookie", ["", "novella_session=nonsense", "novella_session", 'novella_session="'])
async def test_without_a_session_the_page_is_instructed_to_sign_in(open_socket: Open, cookie: str) -> None:
    socket = await open_socket(PAGE, origin=ORIGIN, cookie=cookie)
    assert await socket.closed() == follower.ENDED


async def test_an_unscoped_token_follows_nothing(open_socket: Open, people: People) -> None:
    token = await in_db(issue_token)(people.alice.user, None, ("password",))
    socket = await open_socket(PAGE, origin=ORIGIN, cookie=cookie_of(token.value))
    assert await socket.closed() == follower.FORBIDDEN


async def test_a_revoked_token_closes_the_socket_and_no_other(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.alice.token)()
    socket = await open_socket(PAGE, origin=ORIGIN, cookie=cookie_of(token))
    other = await browser(open_socket, people.alice)
    await other.json()
    data = await in_db(token_data)(token)
    await in_db(revoke_token)(data)
    assert await socket.closed() == follower.ENDED
    await in_db(happen)(people.alice, 3)
    assert (await other.json())["html"] == "instances|wonderland|3"


async def test_a_lost_role_closes_the_socket(open_socket: Open, people: People) -> None:
    socket = await browser(open_socket, people.bob)
    await in_db(remove_role)(people.bob.user, people.bob.project, "reader")
    assert await socket.closed() in {follower.ENDED, follower.FORBIDDEN}


async def test_the_socket_ends_with_its_token(
    open_socket: Open, people: People, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_EVERY", 0.05)
    socket = await browser(open_socket, people.alice)
    assert (await socket.json())["hello"] >= 0
    now, lifetime = timezone.now, timedelta(seconds=settings.TOKEN_LIFETIME)
    monkeypatch.setattr(timezone, "now", lambda: now() + lifetime)
    assert await socket.closed() == follower.ENDED


async def test_what_was_missed_comes_first(open_socket: Open, people: People) -> None:
    await in_db(happen)(people.alice, 1)
    seen = await in_db(latest_id)()
    await in_db(happen)(people.alice, 2, 3)
    await in_db(happen)(people.charlie, 4)
    socket = await browser(open_socket, people.alice, f"{PAGE}&since={seen}")
    await socket.json()
    assert (await socket.json())["html"] == "instances|wonderland|2,3"
    await in_db(happen)(people.alice, 5)
    assert (await socket.json())["html"] == "instances|wonderland|5"


async def test_a_page_older_than_the_log_is_fetched_anew(open_socket: Open, people: People) -> None:
    await in_db(happen)(people.alice, 1, 2, 3)
    first = await in_db(lambda: Event.objects.order_by("id").first())()
    await in_db(lambda: Event.objects.filter(id__lte=first.id + 1).delete())()
    socket = await browser(open_socket, people.alice, f"{PAGE}&since={first.id - 1}")
    await socket.json()
    assert (await socket.json())["resync"] is True


async def test_a_page_from_another_time_is_fetched_anew(open_socket: Open, people: People) -> None:
    socket = await browser(open_socket, people.alice, f"{PAGE}&since={10**9}")
    await socket.json()
    assert (await socket.json())["resync"] is True


@pytest.mark.parametrize("since", ["NaN", "-1", "9" * 40, "1e3", "%00", "٣"])
async def test_a_senseless_number_is_no_number(open_socket: Open, people: People, since: str) -> None:
    socket = await browser(open_socket, people.alice, f"{PAGE}&since={since}")
    await socket.json()
    await in_db(happen)(people.alice, 1)
    assert (await socket.json())["html"] == "instances|wonderland|1"


@pytest.mark.slow
async def test_a_burst_makes_few_frames_and_loses_nothing(open_socket: Open, people: People) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(*given: Any) -> str:
        begun.set()
        go_on.wait(WITHIN)
        return render(*given)

    socket = await browser(open_socket, people.alice, page=slow)
    await socket.json()
    await in_db(happen)(people.alice, 0)
    assert await in_db(begun.wait, thread_sensitive=False)(WITHIN)
    for number in range(1, 60):
        await in_db(happen)(people.alice, number)
    go_on.set()
    numbers: list[int] = []
    frames = 0
    while len(numbers) < 60:
        numbers += [int(n) for n in (await socket.json())["html"].rsplit("|", 1)[1].split(",")]
        frames += 1
    assert numbers == list(range(60))
    assert frames < 60


@pytest.mark.slow
async def test_a_reader_that_falls_far_behind_starts_anew(open_socket: Open, people: People) -> None:
    go_on = threading.Event()
    begun = threading.Event()

    def slow(*_: Any) -> str:
        begun.set()
        go_on.wait(WITHIN)
        return "slow"

    socket = await browser(open_socket, people.alice, page=slow)
    await socket.json()
    await in_db(happen)(people.alice, 0)
    assert await in_db(begun.wait, thread_sensitive=False)(WITHIN)
    many = follower.MOST_PENDING + 50
    await in_db(happen)(people.alice, *range(many))
    await in_db(happen)(people.alice, -1)
    newest = await in_db(latest_id)()
    await eventually(lambda: tailer().cursor >= newest)
    go_on.set()
    assert (await socket.json())["html"] == "slow"
    assert (await socket.json())["resync"] is True


async def test_a_page_that_cannot_be_rendered_is_fetched_anew(open_socket: Open, people: People) -> None:
    def broken(*_: Any) -> str:
        raise LookupError

    socket = await browser(open_socket, people.alice, page=broken)
    await socket.json()
    await in_db(happen)(people.alice, 0)
    assert (await socket.json())["resync"] is True


async def test_an_unknown_path_is_refused(open_socket: Open) -> None:
    for path in ("/ws", "/ws/dashboard/", "/ws/other", "/"):
        assert not (await open_socket(path, origin=ORIGIN)).accepted


async def test_a_script_gets_the_events_of_its_project(open_socket: Open, people: People) -> None:
    await in_db(happen)(people.alice, 0)
    seen = await in_db(latest_id)()
    await in_db(happen)(people.alice, 1)
    token = await in_db(lambda: people.bob.token)()
    socket = await open_socket(f"/ws/v1/events?since={seen}", x_auth_token=token)
    await socket.json()
    first = await socket.json()
    assert (first["kind"], first["payload"]) == ("instance", {"n": 1})
    await in_db(happen)(people.charlie, 2)
    await in_db(happen)(people.alice, 3)
    second = await socket.json()
    assert (second["id"], second["payload"]) == (await in_db(latest_id)(), {"n": 3})


@pytest.mark.parametrize("token", ["", "nonsense", "gAAAAA"])
async def test_a_script_without_a_good_token_is_let_go(open_socket: Open, token: str) -> None:
    socket = await open_socket("/ws/v1/events", x_auth_token=token)
    assert await socket.closed() == follower.ENDED


async def test_other_rules_fetch_the_page_anew(
    open_socket: Open, people: People, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buttons are drawn by the rules, so an open page shows old ones until it is drawn again."""
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    for module, name in ((policy, "LOOK_EVERY"), (policy, "AT_REST"), (follower, "LOOK_EVERY")):
        monkeypatch.setattr(module, name, 0.02)
    socket = await browser(open_socket, people.alice)
    await socket.json()
    settings.POLICY_FILE.write_text('"os_compute_api:servers:stop": "!"\n')
    assert await socket.json() == {"resync": True, "id": await in_db(latest_id)()}
