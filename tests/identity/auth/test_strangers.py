"""Who is not signed in writes nothing to the database, whatever is asked of whom."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.identity.lockout import throttle
from provisioning.identity.services.users import set_user_enabled
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import PASSWORD, Api, People, make_user

pytestmark = pytest.mark.usefixtures("plain_static")
WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "SAVEPOINT", "BEGIN")
V2 = "/identity/v2.0"
V3 = "/identity/v3"


def written(captured: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in captured.captured_queries if query["sql"].lstrip().upper().startswith(WRITES)]


def requests(people: People) -> list[tuple[str, str, Any]]:
    alice, nobody = by_password(people.alice, in_project(people.alice), password="wrong"), by_password(people.alice)
    nobody["auth"]["identity"]["password"]["user"]["name"] = "nobody"
    credential = {"id": "0" * 32, "secret": "wrong"}
    code = {"user": {"id": people.alice.user.id.hex, "passcode": "000000"}}
    change = {"user": {"original_password": "wrong", "password": "another horse"}}
    form = {"user_name": "alice", "password": "wrong"}
    return [
        ("json", TOKENS, alice),
        ("json", TOKENS, nobody),
        ("json", TOKENS, by_token("nonsense")),
        ("json", TOKENS, _identity("application_credential", credential)),
        ("json", TOKENS, _identity("totp", code)),
        ("json", f"{V3}/users/{people.alice.user.id.hex}/password", change),
        ("json", f"{V3}/users/nobody/password", change),
        ("json", f"{V2}/tokens", {"auth": {"passwordCredentials": {"username": "alice", "password": "wrong"}}}),
        ("json", f"{V2}/tokens", {"auth": {"token": {"id": "nonsense"}}}),
        ("json", f"{V3}/ec2tokens", {"credentials": {"access": "x", "signature": "y", "host": "h", "verb": "GET"}}),
        ("json", f"{V3}/projects", {"project": {"name": "x"}}),
        ("form", "/auth/login/", form),
        ("form", "/auth/login/", {**form, "user_name": "nobody", "domain": "nowhere"}),
        ("form", "/auth/password/", {**form, "original": "wrong", "password": "a" * 9, "again": "a" * 9}),
        ("form", "/auth/logout/", {}),
        ("form", "/admin/login/", {"username": "operator", "password": "wrong"}),
        *(("get", path, None) for path in ("/", "/auth/login/", "/auth/password/", "/admin/", "/instances/?x=1")),
        *(("get", path, None) for path in ("/identity", V3, V2, TOKENS, f"{V3}/users", f"{V2}/tenants")),
        *(("get", f"{path}", None) for path in ("/compute/v2.1/servers", "/image/v2/images", "/network/v2.0/networks")),
    ]


def _identity(method: str, given: Any) -> Any:
    return {"auth": {"identity": {"methods": [method], method: given}}}


def send(kind: str, path: str, body: Any) -> Any:
    if kind == "json":
        return Api(None).post(path, body)
    client = Client(raise_request_exception=False)
    return client.get(path) if kind == "get" else client.post(path, body)


@pytest.mark.slow
def test_nothing_that_a_stranger_asks_writes(
    people: People, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TOTP = True
    monkeypatch.setattr(throttle, "FREE", 10_000)
    settings.LOCKOUT_ATTEMPTS = 3  # some of them meet a name that is locked out
    for kind, path, body in requests(people):
        with CaptureQueriesContext(connection) as captured:
            response = send(kind, path, body)
        assert written(captured) == [], (kind, path)
        assert response.status_code < 500, (kind, path)
        assert response.status_code not in {200, 201} or kind == "get" or "csrf" in response.content.decode()


def test_who_has_to_wait_costs_no_look_at_the_database(people: People) -> None:
    for number in range(throttle.FREE_OF_ADDRESS):
        with throttle.Attempt(f"name {number}", "127.0.0.1"):
            pass
    with CaptureQueriesContext(connection) as captured:
        response = Api(None).post(TOKENS, by_password(people.alice))
    assert (response.status_code, captured.captured_queries) == (429, [])


@pytest.mark.parametrize(
    "what", ["right but disabled", "right but locked out", "right but expired", "right but no role"]
)
def test_right_password_that_lets_nobody_in_writes_nothing(people: People, settings: Settings, what: str) -> None:
    settings.LOCKOUT_ATTEMPTS = 1
    user = make_user("eve", default_project=people.alice.project)
    body = by_password(people.alice, in_project(people.alice))
    body["auth"]["identity"]["password"]["user"] = {"id": user.id.hex, "password": PASSWORD}
    if what == "right but disabled":
        set_user_enabled(user, enabled=False)
    elif what == "right but locked out":
        Api(None).post(TOKENS, _identity("password", {"user": {"id": user.id.hex, "password": "wrong"}}))
    elif what == "right but expired":
        user.password_expires_at = user.created_at
        user.save()
    with CaptureQueriesContext(connection) as captured:
        assert Api(None).post(TOKENS, body).status_code == 401
    assert written(captured) == []
