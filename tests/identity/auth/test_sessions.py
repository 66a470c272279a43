"""Sessions: one row for each browser and each program; to end one ends its tokens and no others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from portal.common.sign_in import token_of_cookies
from provisioning.common.errors import NotAuthenticatedError
from provisioning.events.models import Event
from provisioning.identity.models import SignIn
from provisioning.identity.selectors.tokens import context_for_token, sign_ins_of, token_data
from provisioning.identity.services import sign_ins
from provisioning.identity.services.application_credentials import (
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.sign_ins import Client, end_other_sign_ins, end_sign_in, record_client
from provisioning.identity.services.users import revoke_all, set_user_enabled
from provisioning.identity.tokens.tokens import KEPT_AFTER_END
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import PASSWORD, Api, People, Person
from tests.support.tables import each_row

WRITES = ("INSERT", "UPDATE", "DELETE")


def issue(person: Person, program: str = "openstacksdk", scope: Any = None) -> str:
    response = Api(None).post(TOKENS, by_password(person, scope), User_Agent=program)
    assert response.status_code == 201
    return str(response["X-Subject-Token"])


def enter(person: Person, program: str = "Firefox") -> tuple[Browser, str]:
    browser = Browser(headers={"User-Agent": program})
    assert browser.post("/auth/login/", {"user_name": person.user.name, "password": PASSWORD}).status_code == 303
    return browser, token_of_cookies({"novella_session": browser.cookies["novella_session"].value})


def is_good(value: str) -> bool:
    try:
        context_for_token(value)
    except NotAuthenticatedError:
        return False
    return True


def test_program_has_one_row_however_many_tokens_it_asks_for(alice: Person) -> None:
    values = [issue(alice, scope=in_project(alice)) for _ in range(3)]
    (session,) = sign_ins_of(alice.user_id)
    assert (session.browser, session.program, session.address) == (False, "openstacksdk", "127.0.0.1")
    assert (session.methods, session.project) == (["password"], alice.project)
    assert session.expires_at >= token_data(values[-1]).expires_at - timedelta(minutes=1)
    end_sign_in(session)
    assert [is_good(value) for value in values] == [False] * 3
    assert list(sign_ins_of(alice.user_id)) == []
    assert is_good(issue(alice)), "it may come again"


def test_programs_are_distinguished(people: People) -> None:
    alice = people.alice
    record, secret = create_application_credential(alice.user, alice.project, "robot")
    client = Client.of("192.0.2.1", "curl")
    rows = [
        record_client(alice.user, ("password",), client),
        record_client(alice.user, ("password",), Client.of("192.0.2.1", "sdk")),
        record_client(alice.user, ("password",), Client.of("192.0.2.2", "curl")),
        record_client(alice.user, ("password", "totp"), client),
        record_client(alice.user, ("application_credential",), client, application_credential=record),
        record_client(people.bob.user, ("password",), client),
    ]
    assert len({row.id for row in rows}) == 6
    assert record_client(alice.user, ("password",), client).id == rows[0].id
    delete_application_credential(record)
    assert SignIn.objects.filter(user=alice.user).count() == 4, "its session falls with it"
    assert secret


def test_to_end_one_leaves_the_others(alice: Person) -> None:
    sdk, curl = issue(alice, "sdk"), issue(alice, "curl")
    _, page = enter(alice)
    session = next(each for each in sign_ins_of(alice.user_id) if each.program == "curl")
    seen = Event.objects.filter(topic="auth").count()
    end_sign_in(session)
    assert [is_good(value) for value in (sdk, curl, page)] == [True, False, True]
    assert Event.objects.filter(topic="auth").count() == seen + 1, "open sockets look again"


def test_what_is_got_by_a_token_belongs_to_its_session(alice: Person) -> None:
    first = issue(alice, "sdk", "unscoped")
    response = Api(None).post(TOKENS, by_token(first, in_project(alice)), User_Agent="another program")
    second = response["X-Subject-Token"]
    assert [each.program for each in sign_ins_of(alice.user_id)] == ["sdk"]
    end_sign_in(sign_ins_of(alice.user_id)[0])
    assert [is_good(first), is_good(second)] == [False, False]


def test_end_all_others(people: People) -> None:
    alice = people.alice
    program, (_, kept), (_, other) = issue(alice), enter(alice), enter(alice)
    bobs = issue(people.bob)
    assert end_other_sign_ins(alice.user, keep=token_data(kept).sign_in) == 2
    assert [is_good(value) for value in (program, kept, other, bobs)] == [False, True, False, True]


def test_program_is_written_down_once_a_minute_at_most(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        issue(alice)
        body = by_password(alice)
        for seconds, written in ((0, False), (59, False), (1, True), (1, False), (3600, True)):
            clock.shift(timedelta(seconds=seconds))
            with CaptureQueriesContext(connection) as captured:
                assert Api(None).post(TOKENS, body, User_Agent="openstacksdk").status_code == 201
            assert any(query["sql"].startswith(WRITES) for query in captured.captured_queries) is written
        (session,) = sign_ins_of(alice.user_id)
        assert session.last_used_at == timezone.now()


def test_sessions_have_an_end_and_their_rows_go(people: People, settings: Settings) -> None:
    settings.TOKEN_LIFETIME = 600
    with time_machine.travel(timezone.now(), tick=False) as clock:
        issue(people.alice, "old")
        enter(people.alice)
        clock.shift(timedelta(seconds=601))
        assert list(sign_ins_of(people.alice.user_id)) == []
        clock.shift(KEPT_AFTER_END + timedelta(minutes=3))
        issue(people.bob)
        assert [each.user_id for each in SignIn.objects.all()] == [people.bob.user.id]


def test_token_outlives_no_row_that_was_written_a_minute_before(alice: Person, settings: Settings) -> None:
    settings.TOKEN_LIFETIME = 600
    with time_machine.travel(timezone.now(), tick=False) as clock:
        issue(alice)
        clock.shift(timedelta(seconds=55))
        value = issue(alice)
        clock.shift(timedelta(seconds=599))
        record_client(alice.user, ("password",), Client.of("", "prunes"))
        assert is_good(value)


def test_rows_of_a_user_are_bounded(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sign_ins.MOST_PROGRAMS + sign_ins.MOST_BROWSERS == 100
    monkeypatch.setattr(sign_ins, "MOST_PROGRAMS", 5)
    monkeypatch.setattr(sign_ins, "MOST_BROWSERS", 3)
    rows = [record_client(alice.user, ("password",), Client.of("", f"p{number}")) for number in range(9)]
    assert len({row.id for row in rows}) == 5
    assert {row.program for row in rows[4:]} == {sign_ins.OTHERS}
    assert record_client(alice.user, ("password",), Client.of("", "p0")).id == rows[0].id
    with time_machine.travel(timezone.now()) as clock:
        pages = []
        for _ in range(5):
            clock.shift(timedelta(seconds=1))
            pages.append(enter(alice)[1])
    assert [is_good(value) for value in pages] == [False, False, True, True, True]
    assert SignIn.objects.filter(user=alice.user).count() == 8


@each_row(("address", "program"), [("x" * 500, "y" * 5000), ("", ""), ("a\0", "b\0"), ("é", "\ud800x")])
def test_whatever_a_client_calls_itself_is_kept(alice: Person, address: str, program: str) -> None:
    row = record_client(alice.user, ("password",), Client.of(address, program))
    row.refresh_from_db()
    assert "\0" not in row.program + row.address
    assert (len(row.address) <= 64, len(row.program) <= 255) == (True, True)


ENDS: dict[str, Callable[[Person], object]] = {
    "everything ended": lambda alice: revoke_all(alice.user),
    "locked out": lambda alice: set_user_enabled(alice.user, enabled=False),
    "password set": lambda alice: set_password(alice.user, "another one"),
}


@pytest.mark.parametrize("way", ENDS)
def test_list_shows_only_what_is_worth_something(alice: Person, way: str) -> None:
    with time_machine.travel(timezone.now()) as clock:
        issue(alice)
        enter(alice)
        clock.shift(timedelta(seconds=1))
        ENDS[way](alice)
        alice.user.refresh_from_db()
        assert list(sign_ins_of(alice.user_id)) == []


def test_session_that_goes_on_after_everything_ended_is_listed_again(alice: Person) -> None:
    with time_machine.travel(timezone.now()) as clock:
        issue(alice)
        clock.shift(timedelta(seconds=1))
        revoke_all(alice.user)
        clock.shift(timedelta(seconds=1))
        value = issue(alice)
        alice.user.refresh_from_db()
        assert [each.id for each in sign_ins_of(alice.user_id)] == [token_data(value).sign_in]


def test_session_that_is_ended_while_its_program_comes_again_stays_ended(
    alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    with time_machine.travel(timezone.now()) as clock:
        old = issue(alice)
        clock.shift(timedelta(minutes=2))
        again = sign_ins._again

        def ended_meanwhile(row: SignIn, *arguments: Any) -> bool:
            SignIn.objects.filter(id=row.id).delete()
            return again(row, *arguments)

        monkeypatch.setattr(sign_ins, "_again", ended_meanwhile)
        new = issue(alice)
        assert [is_good(old), is_good(new)] == [False, True]


@pytest.mark.usefixtures("plain_static")
class TestBrowsers:
    def test_each_has_its_own(self, alice: Person) -> None:
        (one, first), (_, second) = enter(alice), enter(alice, "Firefox")
        assert len(sign_ins_of(alice.user_id)) == 2
        one.post("/auth/logout/")
        assert [is_good(first), is_good(second)] == [False, True]
        (left,) = sign_ins_of(alice.user_id)
        assert (left.browser, left.program, left.project) == (True, "Firefox", alice.project)

    def test_one_that_is_ended_elsewhere_is_out_at_its_next_request(self, alice: Person) -> None:
        browser, _ = enter(alice)
        assert browser.get("/images/").status_code == 200
        end_sign_in(sign_ins_of(alice.user_id)[0])
        assert browser.get("/images/").status_code == 302

    def test_switching_projects_stays_in_the_session(self, people: People) -> None:
        assign_role(people.alice.user, people.charlie.project, "reader")
        browser, first = enter(people.alice)
        browser.post(f"/auth/project/{people.charlie.project.id}/")
        second = token_of_cookies({"novella_session": browser.cookies["novella_session"].value})
        (session,) = sign_ins_of(people.alice.user_id)
        assert session.project == people.charlie.project
        assert token_data(second).sign_in == session.id == token_data(first).sign_in
        browser.post("/auth/logout/")
        assert [is_good(first), is_good(second)] == [False, False]

    def test_signing_in_again_ends_the_session_before(self, people: People) -> None:
        browser, first = enter(people.alice)
        browser.post("/auth/login/", {"user_name": "bob", "password": PASSWORD})
        assert not is_good(first)
        assert list(sign_ins_of(people.alice.user_id)) == []
        assert len(sign_ins_of(people.bob.user_id)) == 1

    def test_admin_has_a_session_too(self, people: People) -> None:
        browser = Browser()
        browser.post("/admin/login/?next=/admin/", {"username": "operator", "password": PASSWORD})
        assert browser.get("/admin/").status_code == 200
        (session,) = sign_ins_of(people.operator.user_id)
        end_sign_in(session)
        assert browser.get("/admin/").status_code == 302

    def test_new_password_ends_all_but_the_browser_that_set_it(self, alice: Person) -> None:
        (browser, mine), (_, other), program = enter(alice), enter(alice), issue(alice)
        sent = {"original": PASSWORD, "password": "a longer one", "again": "a longer one"}
        assert browser.post("/settings/password/", sent).status_code in {302, 303}
        assert [is_good(value) for value in (mine, other, program)] == [False] * 3
        assert browser.get("/images/").status_code == 200
        assert len(sign_ins_of(alice.user_id)) == 1
