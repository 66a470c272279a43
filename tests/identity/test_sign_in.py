"""Signing in to the pages and to the admin: the session is worth what its token is worth."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from portal.common.http.redirects import safe_next
from portal.common.sign_in import _set_caller, token_of_cookies
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.selectors.tokens import context_for_token, token_data
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.tokens import revoke_token
from provisioning.identity.services.users import revoke_all, set_user_enabled
from tests.support.cast import PASSWORD, Api, People, Person
from tests.support.roles import remove_role
from tests.support.tables import each_row

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.identity.pages"),
    pytest.mark.usefixtures("plain_static"),
]
COOKIE = django_settings.SESSION_COOKIE_NAME


def enter(client: Client, person: Person, **more: str) -> Any:
    return client.post("/in", {"user_name": person.user.name, "password": PASSWORD, **more})


def who(client: Client) -> Any:
    return client.get("/who").json()


@pytest.mark.both_databases("locks")
def test_signing_in_and_out(people: People) -> None:
    client = Client()
    assert who(client)["name"] is None
    answer = enter(client, people.alice)
    assert (answer.json()["name"], answer.json()["project"]) == ("alice", "wonderland")
    assert who(client)["user"] == "alice"
    assert who(client)["request_id"].startswith("req-")
    kept = dict(client.cookies)
    assert client.post("/out").json()["name"] is None
    assert who(client)["name"] is None
    client.cookies.load({name: morsel.value for name, morsel in kept.items()})
    assert who(client)["name"] is None, "a copy of the cookie is worth nothing after signing out"


def test_cookie_is_kept_from_scripts_and_other_sites(people: People, settings: Settings) -> None:
    settings.SESSION_COOKIE_SECURE = True
    cookie = enter(Client(), people.alice).cookies[COOKIE]
    assert cookie["httponly"]
    assert cookie["secure"]
    assert cookie["samesite"] == "Lax"
    assert 0 < int(cookie["max-age"]) <= settings.TOKEN_LIFETIME


def test_anonymous_requests_write_nothing_and_set_no_cookie(people: People) -> None:
    client = Client()
    with CaptureQueriesContext(
        connection,
    ) as captured:
        for path in ("/who", "/plain", "/who?next=/" + "a" * 500):
            response = client.get(path)
            assert not response.cookies
    assert captured.captured_queries == []
    client.cookies[COOKIE] = "made-up"
    with CaptureQueriesContext(connection) as captured:
        assert client.get("/who").json()["name"] is None
    assert captured.captured_queries == []


@each_row("cookie", ["", "x", "a:b:c", "." * 4000, "gAAAA"])
def test_cookie_that_is_not_ours_is_nobody(people: People, cookie: str) -> None:
    client = Client()
    client.cookies[COOKIE] = cookie
    assert who(client)["name"] is None
    assert token_of_cookies({COOKIE: cookie}) == ""


def test_planted_session_does_not_become_the_victims(people: People) -> None:
    attacker, victim = Client(), Client()
    session = attacker.session
    session["planted"] = "by charlie"
    session["token"] = people.charlie.token
    session.save()
    victim.cookies[COOKIE] = session.session_key
    assert victim.session["planted"] == "by charlie"
    response = enter(victim, people.alice)
    assert who(victim)["name"] == "alice"
    assert "planted" not in victim.session
    assert "novella_csrf" in response.cookies, "the forms' secret is a new one"
    attacker.cookies[COOKIE] = session.session_key
    assert who(attacker)["name"] in {"charlie", None}


@each_row(
    ("name", "password", "more"),
    [
        ("alice", "wrong", {}),
        ("nobody", PASSWORD, {}),
        ("", "", {}),
        ("nul\0", PASSWORD, {}),
        ("alice", PASSWORD, {"domain": "elsewhere"}),
        ("alice", PASSWORD, {"domain": "nul\0"}),
        ("alice", "a" * 100_000, {}),
    ],
)
def test_wrong_name_and_wrong_password_read_alike(people: People, name: str, password: str, more: Any) -> None:
    client = Client()
    response = client.post("/in", {"user_name": name, "password": password, **more})
    assert response.status_code == 401
    assert response.json() == {"error": "The name or the password is wrong.", "code": "not_authenticated"}
    assert COOKIE not in client.cookies


def test_guessing_is_slowed_down(people: People) -> None:
    client = Client()
    answers = [client.post("/in", {"user_name": "alice", "password": "wrong"}).json() for _ in range(6)]
    assert answers[-1] == {"error": "Too many failed sign-ins. Try again in 1 second.", "code": "too_many_attempts"}


def test_user_without_a_project_is_notified(people: People) -> None:
    remove_role(people.bob.user, people.bob.project, "reader")
    response = enter(Client(), people.bob)
    assert response.json()["code"] == "forbidden"
    assert "no role on any project" in response.json()["error"]


def test_domain_by_name_or_id_and_project(people: People) -> None:
    assign_role(people.alice.user, people.charlie.project, "reader")
    assert enter(Client(), people.alice, domain="Default").status_code == 200
    assert enter(Client(), people.alice, domain="default").status_code == 200
    client = Client()
    enter(client, people.alice, project=people.charlie.project.id.hex)
    assert who(client)["project"] == "factory"
    assert enter(Client(), people.alice, project=people.operator.project.id.hex).json()["code"] == "forbidden"


@pytest.mark.slow
def test_switching_projects_keeps_the_end_and_dies_with_the_session(people: People) -> None:
    assign_role(people.alice.user, people.charlie.project, "reader")
    client = Client()
    enter(client, people.alice)
    first = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    assert client.post(f"/switch/{people.charlie.project.id.hex}").json()["project"] == "factory"
    second = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    assert token_data(second).expires_at <= token_data(first).expires_at
    for _ in range(20):
        for project in (people.alice.project, people.charlie.project):
            assert client.post(f"/switch/{project.id}").json()["project"] == project.name
    third = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    client.post("/out")
    for value in (first, second, third):
        with pytest.raises(NotAuthenticatedError):
            context_for_token(value)


def test_switching_to_anybody_elses_project_is_refused(people: People) -> None:
    client = Client()
    enter(client, people.alice)
    for project in (people.charlie.project.id.hex, "0" * 32, "no id"):
        assert client.post(f"/switch/{project}").json()["code"] == "forbidden"
    assert who(client)["project"] == "wonderland"
    assert Client().post(f"/switch/{people.alice.project.id.hex}").json()["code"] == "not_authenticated"


@each_row("way", ["password", "locked out", "role", "everywhere", "by the API"])
def test_open_browser_is_out_at_its_next_request(people: People, way: str) -> None:
    alice, client = people.alice, Client()
    enter(client, alice)
    value = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    if way == "password":
        set_password(alice.user, "a new one")
    elif way == "locked out":
        set_user_enabled(alice.user, enabled=False)
    elif way == "role":
        remove_role(alice.user, alice.project, "member")
    elif way == "everywhere":
        revoke_all(alice.user)
    else:
        revoke_token(token_data(value))
    assert who(client) == {"name": None, "project": None, "request_id": None, "user": "AnonymousUser"}
    assert client.cookies[COOKIE].value == ""


@each_row(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "/%09/evil.example" + "a" * 3000,
        "/\t/evil.example",
        "\n/instances/",
        "instances",
        "",
    ],
)
def test_next_leads_nowhere_else(target: str) -> None:
    request = RequestFactory().get("/in", {"next": target})
    assert safe_next(request) == "/"


@each_row("target", ["/", "/instances/", "/instances/?page=2", "/images/#top"])
def test_next_leads_to_pages_of_ours(target: str) -> None:
    assert safe_next(RequestFactory().post("/in", {"next": target})) == target
    assert safe_next(RequestFactory().get("/in", {"next": target})) == target


def log_in_to_admin(client: Client, name: str, password: str = PASSWORD) -> Any:
    return client.post("/admin/login/?next=/admin/", {"username": name, "password": password, "next": "/admin/"})


@pytest.mark.slow
def test_operator_signs_in_to_the_admin(people: People) -> None:
    client = Client()
    response = log_in_to_admin(client, "operator")
    assert (response.status_code, response["Location"]) == (302, "/admin/")
    assert client.get("/admin/").status_code == 200
    assert who(client)["name"] == "operator"
    value = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    assert context_for_token(value).is_admin
    client.post("/admin/logout/")
    assert client.get("/admin/").status_code == 302
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)


@pytest.mark.slow
def test_session_of_the_pages_opens_the_admin_to_operators_only(people: People) -> None:
    for person, status in ((people.operator, 200), (people.alice, 302)):
        client = Client()
        enter(client, person)
        assert client.get("/admin/").status_code == status


@pytest.mark.slow
@pytest.mark.parametrize(("name", "password"), [("alice", PASSWORD), ("operator", "wrong"), ("nobody", "wrong")])
def test_nobody_else_signs_in_to_the_admin(people: People, name: str, password: str) -> None:
    client = Client()
    assert log_in_to_admin(client, name, password).status_code == 200
    assert client.get("/admin/").status_code == 302
    assert who(client)["name"] is None


@pytest.mark.slow
def test_operator_who_signs_in_over_somebody_elses_session_replaces_it(people: People) -> None:
    client = Client()
    enter(client, people.alice)
    old = token_of_cookies({COOKIE: client.cookies[COOKIE].value})
    log_in_to_admin(client, "operator")
    assert who(client)["name"] == "operator"
    with pytest.raises(NotAuthenticatedError):
        context_for_token(old)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["password", "role", "locked out"])
def test_open_admin_closes_with_the_token(people: People, way: str) -> None:
    client = Client()
    assign_role(people.bob.user, people.operator.project, "admin")
    log_in_to_admin(client, "operator")
    if way == "password":
        set_password(people.operator.user, "a new one")
    elif way == "role":
        remove_role(people.operator.user, people.operator.project, "admin")
    else:
        set_user_enabled(people.operator.user, enabled=False)
    assert client.get("/admin/").status_code == 302


def test_every_answer_has_the_headers_that_shut_others_out(people: People) -> None:
    response = Client().get("/plain")
    policy = response["Content-Security-Policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "object-src 'none'", "form-action 'self'"):
        assert part in policy
    assert "unsafe" not in policy
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert Api(None).get("/plain")["X-Openstack-Request-Id"].startswith("req-")


def test_auser_is_the_user(people: People) -> None:
    request: Any = RequestFactory().get("/")
    for person in (people.operator, people.alice):
        _set_caller(request, person.context)
        known = async_to_sync(request.auser)()
        assert (known, known.is_staff) == (request.user, request.user.is_staff)
        assert known.is_staff == (person is people.operator)
    _set_caller(request, dataclasses.replace(people.alice.context, user_id=uuid.uuid4()))
    assert async_to_sync(request.auser)().is_anonymous
    _set_caller(request, None)
    assert async_to_sync(request.auser)().is_anonymous
