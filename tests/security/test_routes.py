"""Every route for everybody: who is let in, who learns nothing, and that a form needs its token.

The table is ``routes.txt``; a route without a row there fails, so that nobody forgets to say who may use a new one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.template.base import Template
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLResolver, get_resolver
from django.utils.safestring import SafeString
from pytest_django import Settings

from compute_agent.contract.messages import Enrol, Hello, encode
from portal.dashboard.frame import pages
from portal.routing import websocket_router
from provisioning.common.errors import NotAuthenticatedError
from provisioning.hosts import enrolment
from tests.security.conftest import PERSONS, SECRET, World
from tests.security.routes import Row, served, table
from tests.support.landing import in_turn
from tests.support.sockets import ORIGIN, Open, cookie_of

READ_BOTH_WAYS = {"/metrics"}
"""Nothing is done there, and both people and programs read it."""
ROWS = table()
OUTSIDE = ("nobody", "revoked", "expired", "other", "domain")
"""Who must not learn anything of alice's project."""
STRANGERS = ("nobody", "revoked", "expired")
"""Persons without a valid token."""
ALIKE = (STRANGERS, ("member", "operator"), ("reader", "domain"))
"""Persons of whom one asks at landing where all of them get the same."""
BY_POWER = ("reader", "member", "operator")
NOT_OPERATORS = (*OUTSIDE, "reader", "member")
"""Of whom the admin lets nobody in."""
SIGN_INS = {"/auth/login/", "/admin/login/", "/identity/v3/auth/tokens", "/identity/v3/users/<user>/password"}
"""Where passwords are taken: wrong ones are counted."""
OF_DOMAIN = ("/identity/", "/projects/", "/users/", "/groups/", "/domains/")
"""What the administrator of the domain sees of it, alice's project included."""
HEADERS = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"}
FRAMED = ("/console/",)
"""Pages that the portal's own pages show in a frame."""
DATA = b"x" * 512


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    """Passwords that are wrong cost little."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *settings.PASSWORD_HASHERS]


def _headers(row: Row, world: World, person: str) -> dict[str, str]:
    token = world.tokens[person]
    newest = {"OpenStack-API-Version": "volume latest"} if row.route.startswith("/volume/") else {}
    return {"X-Auth-Token": token, "X-Subject-Token": world.tokens["member"], **newest} if token else {}


def _send(client: Client, row: Row, world: World, headers: dict[str, str]) -> HttpResponse:
    """Ask, and undo what it did."""
    sent: dict[str, Any] = {"headers": headers}
    body = row.sent(world.ids)
    if row.method == "PUT" and row.route.endswith(("/file", "/stage", "/data/")):
        sent |= {"data": DATA, "content_type": "application/octet-stream"}
    elif not row.is_api:
        sent |= {"data": body or {}} if row.method == "POST" else {}
    elif body is not None:
        kind = "application/openstack-images-v2.1-json-patch" if isinstance(body, list) else "application/json"
        sent |= {"data": json.dumps(body), "content_type": kind}
    with transaction.atomic():
        answer: HttpResponse = getattr(client, row.method.lower())(row.path(world.ids), **sent)
        transaction.set_rollback(True)
    return answer


@contextlib.contextmanager
def _unrendered() -> Iterator[None]:
    """Leave templates empty: who may see a page is decided before it is drawn, which takes most of its time."""
    with mock.patch.object(Template, "render", return_value=SafeString("")):
        yield


def _ask(row: Row, world: World, person: str) -> HttpResponse:
    """Ask an API with the person's token, and anything else from the person's browser."""
    if row.is_api:
        return _send(world.browser("nobody"), row, world, _headers(row, world, person))
    return _send(world.browser(person), row, world, {})


def _wrong(row: Row, person: str, answer: HttpResponse, world: World) -> Iterator[str]:
    framed = {"X-Frame-Options": "SAMEORIGIN"} if row.route.startswith(FRAMED) else {}
    missing = [name for name, value in (HEADERS | framed).items() if answer.headers.get(name) != value]
    if missing or "default-src 'self'" not in answer.headers.get("Content-Security-Policy", ""):
        yield f"{row}: the answer to {person} lacks headers for browsers"
    if person in OUTSIDE and not (person == "domain" and row.route.startswith(OF_DOMAIN)):
        text, path = answer.content.decode("utf-8", "replace"), row.path(world.ids) + json.dumps(row.sent(world.ids))
        hidden = [SECRET, *(world.ids[name] for name in ("server", "image", "port", "group", "own_network"))]
        yield from (f"{row}: {person} is told {word}" for word in hidden if word in text and word not in path)


def test_every_route_has_a_row_and_every_row_a_route(db: None) -> None:
    rows, routes = {(row.method, row.route) for row in ROWS}, set(served())
    wrong = [f"no row:   {method:<6} {route}" for method, route in sorted(routes - rows)]
    wrong += [f"no route: {method:<6} {route}" for method, route in sorted(rows - routes)]
    assert not wrong, "\n" + "\n".join(wrong)


def _part(row: Row) -> str:
    """The part of the table that is asked together."""
    word = row.route.split("/")[1]
    return word if row.is_api or word == "admin" else "pages"


PARTS = sorted({_part(row) for row in ROWS})


def _persons(row: Row) -> list[str]:
    """The persons who ask for a row at landing."""
    if _part(row) == "admin":
        return in_turn(str(row), row.statuses, (), outside=NOT_OPERATORS)
    return in_turn(str(row), row.statuses, ALIKE, by_power=BY_POWER, outside=OUTSIDE)


@pytest.mark.parametrize("part", PARTS)
def test_at_landing_each_person_asks_for_rows_of_each_part(part: str) -> None:
    requested = Counter(person for row in ROWS if _part(row) == part for person in _persons(row))
    assert set(requested) == set(PERSONS)


def _answers(row: Row, world: World, written: list[str], *, everybody: bool) -> dict[str, HttpResponse]:
    """Ask for everybody, or for persons in turn; strangers see the whole page unless it is a refusal, for they must
    learn nothing by it.

    ``written`` gets what is written for those who have no token, or none any more.
    """
    answers = {}
    for person in PERSONS if everybody else _persons(row):
        drawn = person in OUTSIDE and row.statuses[person] != 403
        with contextlib.nullcontext() if everybody or drawn else _unrendered():
            if person not in STRANGERS or (row.route in SIGN_INS and row.method != "GET"):
                answers[person] = _ask(row, world, person)
                continue
            with CaptureQueriesContext(connection) as captured:
                answers[person] = _ask(row, world, person)
            written += [query["sql"] for query in captured if re.match("INSERT|UPDATE|DELETE", query["sql"])]
            connection.queries_log.clear()  # it holds no more than 9,000
    return answers


@pytest.fixture
def _asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same address leads to the same view for everybody, and whatever they do is undone."""
    resolver = get_resolver()
    monkeypatch.setattr(resolver, "resolve", functools.cache(resolver.resolve))
    monkeypatch.setattr(URLResolver, "_reverse_with_prefix", functools.cache(URLResolver._reverse_with_prefix))
    monkeypatch.setattr(pages, "entries_of", functools.cache(pages.entries_of))


@pytest.mark.slow
@pytest.mark.parametrize("everybody", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["in turn", "everybody"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.usefixtures("_asked_again")
def test_everybody_gets_what_the_table_says(world: World, part: str, everybody: bool) -> None:
    """Nobody writes anything who is a stranger.  When ``everybody`` asks for everything, all pages are drawn."""
    wrong, written = [], list[str]()
    for row in (row for row in ROWS if _part(row) == part):
        try:
            answers = _answers(row, world, written, everybody=everybody)
        except KeyError as error:
            wrong.append(f"{row}: make_world has no id for {error}")
            continue
        result = {person: answer.status_code for person, answer in answers.items()}
        differs = ", ".join(person for person in result if result[person] != row.statuses[person])
        if differs:
            wrong.append(f"the table is wrong about {differs}; found:\n{row.line(row.statuses | result)}")
        wrong += [text for person, answer in answers.items() for text in _wrong(row, person, answer, world)]
    assert not wrong, "\n" + "\n".join(wrong)
    assert written == []


NAMES_ITS_RULE = ("/action", "/v3/credentials", "/OS-TRUST/trusts")
"""Ends of routes where the policy rule depends on a name in the body."""


def _forbidden() -> Iterator[tuple[Row, str]]:
    """Yield the changes through an API with a person whom the policy refuses."""
    for row in ROWS:
        refused = [person for person in ("reader", "member", "other", "domain") if row.statuses[person] == 403]
        if row.is_api and row.method in {"POST", "PUT", "PATCH"} and refused:
            yield row, refused[0]


def _spoiled(body: Any) -> Any:
    """Return the body with an unknown member in its object; None without an object."""
    if not isinstance(body, dict):
        return None
    inside = {name: value | {"nonsense": [None]} for name, value in body.items() if isinstance(value, dict)}
    return body | inside if inside else None


@pytest.mark.slow
@pytest.mark.parametrize("data", ["{", "[]", ""])
def test_the_policy_is_checked_before_the_body(data: str, world: World) -> None:
    wrong, requested = [], 0
    for row, person in _forbidden():
        body = data or json.dumps(_spoiled(row.sent(world.ids)))
        if body == "null" or (data and row.route.endswith(NAMES_ITS_RULE)):
            continue
        requested += 1
        send = getattr(world.browser("nobody"), row.method.lower())
        headers = _headers(row, world, person)
        answer = send(row.path(world.ids), data=body, content_type="application/json", headers=headers)
        if answer.status_code != 403:
            wrong.append(f"{row}: {person} gets {answer.status_code} instead of 403")
    assert not wrong, "\n" + "\n".join(wrong)
    assert requested > 100


@pytest.mark.slow
@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.deep)])
def test_a_session_opens_no_api_and_a_token_no_page(world: World, share: int) -> None:
    """An API that took the session's cookie could be used by every other site that the browser visits."""
    wrong = []
    for row in ROWS[::share]:
        if row.route in READ_BOTH_WAYS:
            continue
        if row.is_api:
            answer = _send(world.browser("operator"), row, world, {})
        else:
            answer = _send(world.browser("nobody"), row, world, _headers(row, world, "operator"))
        if answer.status_code != row.statuses["nobody"]:
            wrong.append(f"{row}: {answer.status_code} instead of {row.statuses['nobody']}")
        wrong += _wrong(row, "nobody", answer, world)
    assert wrong == []


@pytest.mark.slow
def test_no_page_does_anything_for_a_form_of_another_site(world: World) -> None:
    rows = [row for row in ROWS if not row.is_api and row.method != "GET"]
    browser = world.browser("operator", checks=True)
    result = [(row, _send(browser, row, world, {}).status_code) for row in rows]
    # Agents show a credential in a header, which no form can: theirs is no page.
    wrong = [
        str(row) for row, status in result if status not in ({401, 405} if row.route.startswith("/agent/") else {403})
    ]
    assert wrong == []


def test_a_stranger_s_enrolment_does_not_even_hold_the_database(db: None) -> None:
    frame = Enrol(join_token="guessed", host="h9", credential="c" * 40)
    with CaptureQueriesContext(connection) as captured, pytest.raises(NotAuthenticatedError):
        enrolment.enrol(frame)
    assert [query["sql"] for query in captured if not query["sql"].startswith("SELECT")] == []


@pytest.mark.slow
def test_a_page_speaks_to_this_portal_only(world: World) -> None:
    """A script that got in could otherwise send what it reads to any WebSocket."""
    for host in ("127.0.0.1:8000", "localhost"):
        policy = world.browser("member").get("/", headers={"host": host}).headers["Content-Security-Policy"]
        assert f"connect-src 'self' ws://{host} wss://{host}" in policy
    refused = world.browser("member").get("/", headers={"host": "evil.example; script-src *"})
    assert refused.status_code == 400
    assert "evil.example" not in refused.headers["Content-Security-Policy"]


SOCKETS: dict[str, tuple[int, ...]] = {
    "ws/dashboard": (4401, 4401, 4401, 0, 0, 0, 4403, 0),
    "ws/dashboard/servers/<uuid:instance_id>/console-log": (4401, 4401, 4401, 4403, 0, 4404, 4403, 0),
    "ws/v1/events": (4401, 4401, 4401, 0, 0, 0, 4403, 0),
    "ws/console": (4401, 4401, 4401, 4401, 4401, 4401, 4401, 4401),
    "ws/servers/<uuid:instance_id>/tunnel": (4401, 4401, 4401, 4403, 4400, 4404, 4403, 4400),
    "ws/agent/consoles/<str:tunnel>": (403, 403, 403, 403, 403, 403, 403, 403),
    "ws/agent/tunnels/<str:tunnel>": (403, 403, 403, 403, 403, 403, 403, 403),
    "ws/agent": (4401, 4401, 4401, 4401, 4401, 4401, 4401, 4401),
}
"""The code with which a socket is closed for each of PERSONS; 0: it stays open."""


async def _knock(
    open_socket: Open, route: str, world: World, person: str, origin: str = ORIGIN, *, stays: bool = False
) -> int:
    """Open a socket with all that the person could show; return the code that closes it, 403 when it never opens and 0
    when something is said.  One that ``stays`` open is looked at for a moment only.
    """
    token = world.tokens[person]
    headers = {"origin": origin}
    if token:
        headers |= {"cookie": cookie_of(token), "x_auth_token": token, "authorization": f"Bearer {token}"}
    path = route.replace("<uuid:instance_id>", world.ids["server"])
    socket: Any = await open_socket(f"/{path}?page=instances", x_novella_host="h1", **headers)
    if not socket.accepted:
        return 403
    if route == "ws/agent":
        await socket.send_to(encode(Hello(host="h1")).decode())
        return int(await socket.closed())
    if stays and await socket.receive_nothing(0.2):
        return 0
    first = await socket.receive_output()
    return 0 if first["type"] == "websocket.send" else int(first["code"])


def test_every_socket_has_a_row() -> None:
    routes = [str(route.pattern) for route in websocket_router(lambda *_: "").routes]
    assert {route for route in routes if route} == set(SOCKETS)


@pytest.mark.slow
async def test_sockets_let_in_whom_the_table_says(stored_world: World, open_socket: Open) -> None:
    wrong = []
    for route, codes in SOCKETS.items():
        for person, expected in zip(PERSONS, codes, strict=True):
            result = await _knock(open_socket, route, stored_world, person, stays=not expected)
            if result != expected:
                wrong.append(f"{route}: {person} gets {result} instead of {expected}")
    assert wrong == []


@pytest.mark.slow
async def test_no_other_site_opens_a_page_s_socket(stored_world: World, open_socket: Open) -> None:
    origins = ("http://evil.example", "null", "", f"{ORIGIN}.evil.example", f"{ORIGIN}@evil.example")
    routes = ("ws/dashboard", "ws/dashboard/servers/<uuid:instance_id>/console-log")
    result = {
        (route, origin): await _knock(open_socket, route, stored_world, "member", origin)
        for route in routes
        for origin in origins
    }
    assert {requested for requested, code in result.items() if code != 403} == set()
