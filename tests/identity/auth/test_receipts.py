"""Receipts: who has to prove several things may do so one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from provisioning.identity.models import RevokedToken, SignIn
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.users import revoke_all
from tests.identity.auth.test_application_credential_tokens import body as by_credential
from tests.identity.auth.test_passcodes import BOTH, alice, by_passcode, clock, passcode, rules
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import PASSWORD, Api, People, Person

__all__ = ["alice", "clock"]
HEADER = "Openstack-Auth-Receipt"


def ask(body: Any, receipt: str | None = None) -> Any:
    return Api(None, **({} if receipt is None else {HEADER: receipt})).post(TOKENS, body)


@pytest.fixture(autouse=True)
def _two_factors(alice: Person) -> None:
    rules(alice, BOTH)


def test_password_and_then_passcode(alice: Person, clock: Any) -> None:
    first = ask(by_password(alice))
    assert first.status_code == 401
    assert first["WWW-Authenticate"].startswith("Keystone uri=")
    assert first.json() == {
        "receipt": {
            "methods": ["password"],
            "user": {"id": alice.user_id.hex, "name": "alice", "domain": {"id": "default", "name": "Default"}},
            "issued_at": "2026-06-01T12:00:01.000000Z",
            "expires_at": "2026-06-01T12:05:01.000000Z",
        },
        "required_auth_methods": BOTH,
    }
    second = ask(by_passcode(alice, passcode(clock), scope=in_project(alice)), first[HEADER])
    assert second.status_code == 201
    assert sorted(second.json()["token"]["methods"]) == ["password", "totp"]
    assert second.json()["token"]["project"]["id"] == alice.project_id.hex
    assert HEADER not in second


def test_passcode_and_then_password_uses_the_code_up(alice: Person, clock: Any) -> None:
    first = ask(by_passcode(alice, passcode(clock)))
    assert first.json()["receipt"]["methods"] == ["totp"]
    assert HEADER not in ask(by_passcode(alice, passcode(clock))), "the code was used"
    assert ask(by_password(alice), first[HEADER]).status_code == 201


def test_three_steps(alice: Person, clock: Any) -> None:
    rules(alice, [["password", "totp", "smoke"], ["smoke"], ["totp", "totp", "smoke"]])
    first = ask(by_password(alice))
    assert first.json()["required_auth_methods"] == [["password", "totp", "smoke"]]
    second = ask(by_passcode(alice, passcode(clock)), first[HEADER])
    assert sorted(second.json()["receipt"]["methods"]) == ["password", "totp"]
    assert second.json()["required_auth_methods"] == [["password", "totp", "smoke"], ["totp", "smoke"]]


def test_no_row_is_written_for_one(alice: Person) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert HEADER in ask(by_password(alice))
    assert not [each["sql"] for each in queries if not each["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE"))]
    assert not SignIn.objects.exists()
    assert not RevokedToken.objects.exists()


@pytest.mark.parametrize("way", ["expired", "other", "password", "signed out", "cut", "none", "long", "token", "odd"])
def test_worth_nothing(alice: Person, people: People, clock: Any, settings: Settings, way: str) -> None:
    settings.RECEIPT_LIFETIME = 60
    value = ask(by_password(alice))[HEADER]
    password = PASSWORD
    if way == "expired":
        clock.shift(timedelta(seconds=60))
    elif way == "other":
        rules(people.bob, BOTH)
        value = ask(by_password(people.bob))[HEADER]
    elif way == "password":
        clock.shift(timedelta(seconds=1))
        set_password(alice.user, password := "another password")
    elif way == "signed out":
        clock.shift(timedelta(seconds=1))
        revoke_all(alice.user)
    else:
        value = {"cut": value[:-4], "none": "", "long": value * 20, "token": alice.token, "odd": "\xe9"}[way]
    answer = ask(by_passcode(alice, passcode(clock)), value)
    assert (answer.status_code, HEADER in answer) == (401, False)
    assert answer.json() == ask(by_password(people.charlie, password="wrong")).json()
    assert HEADER in ask(by_password(alice, password=password)), "one begins anew"


def test_receipt_is_no_token(alice: Person, clock: Any) -> None:
    value = ask(by_password(alice))[HEADER]
    assert ask(by_token(value)).status_code == 401
    assert Api(None, **{"X-Auth-Token": value}).get("/identity/v3/auth/projects").status_code == 401


def test_wrong_proofs_beside_it_are_slowed_down(alice: Person, clock: Any) -> None:
    value, wrong = ask(by_password(alice))[HEADER], f"{(int(passcode(clock)) + 1) % 1_000_000:06}"
    answers = [ask(by_passcode(alice, wrong), value) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert not any(HEADER in answer for answer in answers)


def test_what_is_bound_is_not_freed_by_one(alice: Person, clock: Any) -> None:
    """A receipt for a token or an application credential would bring a token that is not bound as they are."""
    rules(alice, [])
    short = ask(by_password(alice))["X-Subject-Token"]
    record, secret = create_application_credential(alice.user, alice.project, "robot")
    rules(alice, [["token", "totp"], ["application_credential", "totp"], ["password", "totp"]])
    for body in (by_token(short), by_credential(secret, id=record.id.hex)):
        answer = ask(body)
        assert (answer.status_code, HEADER in answer) == (401, False)
    both = by_password(alice)
    both["auth"]["identity"] |= {"methods": ["token", "password"], "token": {"id": short}}
    assert ask(both).json()["receipt"]["methods"] == ["password"]


def test_version_2_knows_none(alice: Person) -> None:
    body = {"auth": {"passwordCredentials": {"username": "alice", "password": PASSWORD}}}
    answer = Api(None).post("/identity/v2.0/tokens", body)
    assert (answer.status_code, HEADER in answer) == (401, False)
    assert "receipt" not in answer.json()


def test_one_that_is_not_needed_must_be_good_too(alice: Person, clock: Any) -> None:
    both = by_passcode(alice, passcode(clock), password=PASSWORD)
    assert ask(both, "nonsense").status_code == 401
    clock.shift(timedelta(seconds=30))
    assert (
        ask(by_passcode(alice, passcode(clock), password=PASSWORD), ask(by_password(alice))[HEADER]).status_code == 201
    )
