"""Passcodes of authenticator apps, and rules that ask for more than one method."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.test import Client
from pytest_django import Settings

from provisioning.identity.services.credentials import create_credential, update_credential
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import PASSWORD, Api, People, Person
from tests.support.tables import each_row

SECRET = b"twenty bytes of key!"
BOTH = [["password", "totp"]]


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC), tick=False) as clock:
        yield clock


@pytest.fixture
def alice(people: People, settings: Settings, clock: object) -> Person:
    settings.TOTP = True
    alice = people.alice
    create_credential(alice.user, kind="totp", blob=base64.b32encode(SECRET).decode())
    return alice


def passcode(clock: time_machine.Coordinates, steps: int = 0) -> str:
    now = datetime.now(tz=UTC).timestamp() + 30 * steps
    return TOTP(SECRET, 6, SHA1(), 30).generate(int(now)).decode()  # noqa: S303


def by_passcode(person: Person, code: str, *, password: str | None = None, scope: Any = None) -> dict[str, Any]:
    body = by_password(person, scope, password=password or "")
    identity = body["auth"]["identity"]
    if password is None:
        identity |= {"methods": ["totp"]}
        del identity["password"]
    else:
        identity |= {"methods": ["password", "totp"]}
    identity["totp"] = {"user": {"name": person.user.name, "domain": {"id": "default"}, "passcode": code}}
    return body


def issue(body: Any) -> Any:
    return Api(None).post(TOKENS, body)


def rules(person: Person, requested: list[list[str]], *, enabled: bool = True) -> None:
    person.user.options = {"multi_factor_auth_enabled": enabled, "multi_factor_auth_rules": requested}
    person.user.save(update_fields=["options"])


def test_passcode_alone_and_beside_the_password(alice: Person, clock: Any) -> None:
    response = issue(by_passcode(alice, passcode(clock)))
    assert response.status_code == 201
    assert response.json()["token"]["methods"] == ["totp"]
    clock.shift(timedelta(seconds=30))
    response = issue(by_passcode(alice, passcode(clock), password=PASSWORD, scope=in_project(alice)))
    assert response.json()["token"]["methods"] == ["password", "totp"]


def test_method_is_not_there_unless_the_operator_wants_it(alice: Person, clock: Any, settings: Settings) -> None:
    settings.TOTP = False
    response = issue(by_passcode(alice, passcode(clock)))
    assert response.status_code == 401
    assert "unsupported method" in response.json()["error"]["message"]
    assert response.json()["error"]["identity"] == {"methods": ["application_credential", "password", "token"]}


@each_row(("steps", "status"), [(-3, 401), (-2, 401), (-1, 201), (0, 201), (1, 401)])
def test_passcode_is_good_for_its_time_and_the_step_after(alice: Person, clock: Any, steps: int, status: int) -> None:
    assert issue(by_passcode(alice, passcode(clock, steps))).status_code == status


def test_passcode_works_once(alice: Person, clock: Any) -> None:
    code = passcode(clock)
    assert [issue(by_passcode(alice, code)).status_code for _ in range(2)] == [201, 401]
    clock.shift(timedelta(seconds=30))
    assert issue(by_passcode(alice, code)).status_code == 401
    assert issue(by_passcode(alice, passcode(clock))).status_code == 201


def test_passcode_beside_a_wrong_password_is_not_used_up(alice: Person, clock: Any) -> None:
    code = passcode(clock)
    assert issue(by_passcode(alice, code, password="wrong")).status_code == 401
    assert issue(by_passcode(alice, code, password=PASSWORD)).status_code == 201


@pytest.mark.parametrize("code", ["", "000000", "abcdef", "12345", "٠١٢٣٤٥", "1" * 255])
def test_wrong_passcode_reads_like_a_wrong_password(alice: Person, people: People, code: str) -> None:
    refused = issue(by_passcode(alice, code or " "))
    assert refused.status_code == 401
    assert refused.json() == issue(by_password(people.bob, password="wrong")).json()


def test_nobody_elses_passcode(alice: Person, people: People, clock: Any) -> None:
    assert issue(by_passcode(people.bob, passcode(clock))).status_code == 401
    mixed = by_passcode(alice, passcode(clock), password=PASSWORD)
    mixed["auth"]["identity"]["password"] = by_password(people.bob)["auth"]["identity"]["password"]
    assert issue(mixed).status_code == 401


def test_guessing_passcodes_is_slowed_down_though_the_password_is_right(alice: Person, clock: Any) -> None:
    wrong = f"{(int(passcode(clock)) + 1) % 1_000_000:06}"
    assert wrong != passcode(clock, -1)
    statuses = [issue(by_passcode(alice, wrong, password=PASSWORD)).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]


@pytest.mark.parametrize("blob", ["not base32!", "", "===="])
def test_secret_that_is_none_lets_nobody_in(people: People, settings: Settings, clock: Any, blob: str) -> None:
    settings.TOTP = True
    record = create_credential(people.bob.user, kind="totp", blob="AAAA")
    update_credential(record, blob=blob or " ")
    now = int(datetime.now(tz=UTC).timestamp())
    empty = TOTP(b"", 6, SHA1(), 30, enforce_key_length=False).generate(now)  # noqa: S303
    assert issue(by_passcode(people.bob, empty.decode())).status_code == 401


class TestRules:
    def test_all_methods_of_one_rule_are_needed(self, alice: Person, clock: Any) -> None:
        rules(alice, BOTH)
        assert issue(by_password(alice)).status_code == 401
        assert issue(by_passcode(alice, passcode(clock))).status_code == 401
        clock.shift(timedelta(seconds=30))
        assert issue(by_passcode(alice, passcode(clock), password=PASSWORD)).status_code == 201

    @pytest.mark.parametrize(
        ("wanted", "enabled"), [(BOTH, False), ([], True), ([["totp"], ["password"]], True), ([[]], True)]
    )
    def test_password_is_enough_where_no_rule_asks_for_more(
        self, alice: Person, wanted: list[list[str]], enabled: bool
    ) -> None:
        rules(alice, wanted, enabled=enabled)
        assert issue(by_password(alice)).status_code == 201

    def test_token_brings_its_methods_along(self, alice: Person, clock: Any) -> None:
        plain = issue(by_password(alice))["X-Subject-Token"]
        rules(alice, BOTH)
        assert issue(by_token(plain)).status_code == 401
        full = issue(by_passcode(alice, passcode(clock), password=PASSWORD))["X-Subject-Token"]
        assert issue(by_token(full)).status_code == 201

    def test_version_2_opens_no_side_door(self, alice: Person) -> None:
        rules(alice, BOTH)
        body = {"auth": {"passwordCredentials": {"username": "alice", "password": PASSWORD}}}
        assert Api(None).post("/identity/v2.0/tokens", body).status_code == 401

    def test_pages_ask_for_the_passcode(self, alice: Person, clock: Any, plain_static: None) -> None:
        rules(alice, BOTH)

        def enter(code: str) -> Any:
            return Client().post("/auth/login/", {"user_name": "alice", "password": PASSWORD, "passcode": code})

        assert b'name="passcode"' in Client().get("/auth/login/").content
        assert enter("").status_code == 401
        assert enter("000000").status_code == 401
        assert enter(passcode(clock)).status_code == 303
        assert enter(passcode(clock)).status_code == 401

    def test_admins_own_form_knows_no_passcode_and_lets_nobody_in_without(
        self, alice: Person, people: People, plain_static: None
    ) -> None:
        rules(people.operator, BOTH)
        client = Client()
        client.post("/admin/login/?next=/admin/", {"username": "operator", "password": PASSWORD})
        assert client.get("/admin/").status_code == 302
