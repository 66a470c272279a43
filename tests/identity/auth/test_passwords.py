"""Rules for passwords: how long, for how long, whose first one, and who may change which."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity.errors import PasswordExpiredError
from provisioning.identity.models import User
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.passwords import authenticate_password, set_password
from provisioning.identity.services.users import create_user, set_user_enabled
from tests.identity.bodies import TOKENS, by_password, in_project
from tests.support.cast import PASSWORD, Api, People, Person
from tests.support.tables import each_row

NEW = "another horse"


def expire(person: Person, **options: Any) -> None:
    User.objects.filter(id=person.user.id).update(
        password_expires_at=timezone.now() - timedelta(seconds=1), options=options
    )
    person.user.refresh_from_db()


def change(person: Person | str, original: str = PASSWORD, password: str = NEW, **headers: str) -> Any:
    user_id = person if isinstance(person, str) else person.user.id.hex
    body = {"user": {"original_password": original, "password": password}}
    return Api(None).post(f"/identity/v3/users/{user_id}/password", body, **headers)


def issue(person: Person, password: str = PASSWORD) -> Any:
    return Api(None).post(TOKENS, by_password(person, in_project(person), password=password))


@each_row(("password", "good"), [("a" * 7, False), ("a" * 8, True), ("a" * 1024, True), ("a" * 1025, False)])
def test_length(people: People, password: str, good: bool) -> None:
    response = change(people.alice, password=password)
    assert response.status_code == (204 if good else 400)
    if not good:
        assert "password must have at" in response.json()["error"]["message"]
        assert password not in response.content.decode()
    for set_it in (
        lambda: set_password(people.bob.user, password),
        lambda: create_user(people.bob.user.domain, "new", password=password),
    ):
        if good:
            set_it()
        else:
            with pytest.raises(InvalidInputError) as caught:
                set_it()
            assert caught.value.field == "password"


def test_operators_choose_the_length(people: People, settings: Settings) -> None:
    settings.PASSWORD_MIN_LENGTH = 20
    assert change(people.alice).status_code == 400
    assert change(people.alice, password="a" * 20).status_code == 204


def test_changing_needs_no_token_and_ends_every_token(people: People) -> None:
    value = issue(people.alice)["X-Subject-Token"]
    assert change(people.alice).status_code == 204
    assert Api(None).get("/identity/v3/auth/projects", X_Auth_Token=value).status_code == 401
    assert issue(people.alice).status_code == 401
    assert issue(people.alice, NEW).status_code == 201


@each_row("who", ["alice", "nobody", "0" * 32, "%00", "a" * 300])
def test_changing_with_a_wrong_password_tells_nothing(people: People, who: str) -> None:
    response = change(people.alice if who == "alice" else who, original="wrong")
    assert response.status_code == 401
    assert response.json() == issue(people.bob, "wrong").json()


def test_changing_is_slowed_down_like_signing_in(people: People) -> None:
    statuses = [change(people.alice, original="wrong").status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]


@each_row(
    "body",
    [{}, {"user": {}}, {"user": {"password": NEW}}, {"user": {"original_password": PASSWORD, "password": 7}}, []],
)
def test_body_that_cannot_be_right_is_400(people: People, body: Any) -> None:
    response = Api(None).post(f"/identity/v3/users/{people.alice.user.id.hex}/password", body)
    assert response.status_code == 400


class TestExpiry:
    def test_only_who_knows_it_is_notified(self, people: People) -> None:
        expire(people.alice)
        right, wrong = issue(people.alice), issue(people.alice, "wrong")
        assert (right.status_code, wrong.status_code) == (401, 401)
        assert right.json()["error"]["message"] == (
            f"The password is expired and needs to be changed for user: {people.alice.user.id.hex}."
        )
        assert wrong.json()["error"]["message"] == "The request you have made requires authentication."
        set_user_enabled(people.alice.user, enabled=False)
        assert issue(people.alice).json() == wrong.json()

    def test_another_one_is_chosen_and_signs_in(self, people: People) -> None:
        expire(people.alice)
        assert change(people.alice, password=PASSWORD).status_code == 400, "the same again is none"
        assert change(people.alice).status_code == 204
        assert issue(people.alice, NEW).status_code == 201

    def test_every_change_begins_the_days_anew(self, people: People, settings: Settings) -> None:
        settings.PASSWORD_EXPIRES_DAYS = 30
        with time_machine.travel(timezone.now(), tick=False) as clock:
            change(people.alice)
            clock.shift(timedelta(days=29))
            assert issue(people.alice, NEW).status_code == 201
            clock.shift(timedelta(days=2))
            assert "expired" in issue(people.alice, NEW).json()["error"]["message"]

    def test_without_the_setting_it_lasts(self, people: People) -> None:
        change(people.alice)
        people.alice.user.refresh_from_db()
        assert people.alice.user.password_expires_at is None

    def test_programs_may_be_exempt(self, people: People) -> None:
        expire(people.alice, ignore_password_expiry=True)
        response = issue(people.alice)
        assert response.status_code == 201
        assert response.json()["token"]["user"]["password_expires_at"] is None

    def test_tokens_got_before_go_on(self, people: People) -> None:
        value = people.alice.token
        expire(people.alice)
        assert context_for_token(value).user_name == "alice"

    def test_version_2_and_the_admin_know_it(self, people: People, plain_static: None) -> None:
        expire(people.operator)
        body = {"auth": {"passwordCredentials": {"username": "operator", "password": PASSWORD}}}
        assert Api(None).post("/identity/v2.0/tokens", body).status_code == 401
        client = Client()
        client.post("/admin/login/?next=/admin/", {"username": "operator", "password": PASSWORD})
        assert client.get("/admin/").status_code == 302


class TestFirstUse:
    @pytest.fixture(autouse=True)
    def _wanted(self, settings: Settings) -> None:
        settings.PASSWORD_CHANGE_ON_FIRST_USE = True

    def test_what_somebody_else_set_has_to_be_changed(self, people: People) -> None:
        set_password(people.alice.user, NEW, by_admin=True)
        assert "expired" in issue(people.alice, NEW).json()["error"]["message"]
        assert change(people.alice, NEW, PASSWORD).status_code == 204
        assert issue(people.alice).status_code == 201

    def test_new_user_too(self, people: People) -> None:
        user = create_user(people.alice.user.domain, "eve", password=PASSWORD)
        with pytest.raises(PasswordExpiredError):
            authenticate_password(user_id=user.id.hex, password=PASSWORD, source="")

    def test_reset_by_the_api_too(self, people: People) -> None:
        path = f"/identity/v3/users/{people.alice.user.id.hex}"
        assert Api(people.operator).patch(path, {"user": {"password": NEW}}).status_code == 200
        assert "expired" in issue(people.alice, NEW).json()["error"]["message"]

    def test_programs_may_be_exempt(self, people: People) -> None:
        people.alice.user.options = {"ignore_change_password_upon_first_use": True}
        set_password(people.alice.user, NEW, by_admin=True)
        assert issue(people.alice, NEW).status_code == 201


def test_locked_password_is_changed_by_administrators_only(people: People) -> None:
    people.alice.user.options = {"lock_password": True}
    people.alice.user.save()
    response = change(people.alice)
    assert response.status_code == 400
    assert "administrator" in response.json()["error"]["message"]
    assert change(people.alice, "wrong").status_code == 401, "nothing is told to others"
    set_password(people.alice.user, NEW, by_admin=True)
    assert issue(people.alice, NEW).status_code == 201


@pytest.mark.usefixtures("plain_static")
class TestPages:
    def enter(self, client: Client, password: str = PASSWORD, **more: str) -> Any:
        return client.post("/auth/login/", {"user_name": "alice", "password": password, "next": "/images/", **more})

    def choose(self, client: Client, original: str = PASSWORD, password: str = NEW, again: str = NEW) -> Any:
        fields = {"user_name": "alice", "original": original, "password": password, "again": again}
        return client.post("/auth/password/", {**fields, "next": "/images/"})

    def test_sign_in_leads_to_a_new_password_and_on(self, people: People) -> None:
        expire(people.alice)
        client = Client()
        page = self.enter(client)
        assert page.status_code == 401
        shown = page.content.decode()
        assert "Choose a new password" in shown
        assert 'value="alice"' in shown
        assert PASSWORD not in shown
        assert "novella_session" not in client.cookies
        answer = self.choose(client)
        assert (answer.status_code, answer["Location"]) == (303, "/images/")
        assert client.get("/images/").status_code == 200

    def test_wrong_password_leads_nowhere(self, people: People) -> None:
        expire(people.alice)
        assert "Choose a new password" not in self.enter(Client(), "wrong").content.decode()
        answer = self.choose(Client(), original="wrong")
        assert answer.status_code == 401
        assert "The name or the password is wrong." in answer.content.decode()
        with pytest.raises(NotAuthenticatedError):
            authenticate_password(user_name="alice", domain_id="default", password=NEW, source="")

    @pytest.mark.parametrize(
        ("password", "again", "field"),
        [(NEW, "other", "again"), ("short", "short", "password"), (PASSWORD, PASSWORD, "password")],
    )
    def test_what_cannot_be_is_reported_at_its_field(
        self, people: People, password: str, again: str, field: str
    ) -> None:
        expire(people.alice)
        answer = self.choose(Client(), password=password, again=again)
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == [field]
        assert f'aria-describedby="{field}_error"' in answer.content.decode()

    def test_page_itself(self, people: People) -> None:
        assert Client().get("/auth/password/").status_code == 200
        for away in ("//evil.example", "https://evil.example/"):
            assert "evil" not in Client().get(f"/auth/password/?next={away}").content.decode()

    def test_forms_of_other_sites_are_refused(self, people: People) -> None:
        client = Client(enforce_csrf_checks=True)
        expire(people.alice)
        assert self.enter(client).status_code in {302, 403}
        assert self.choose(client).status_code in {302, 403}
        people.alice.user.refresh_from_db()
        assert people.alice.user.check_password(PASSWORD)
        assert "novella_session" not in client.cookies

    def test_first_domain_under_another_name(self, people: People) -> None:
        domain = people.alice.user.domain
        domain.name = "Acme"
        domain.save()
        assert self.enter(Client()).status_code == 303
        assert self.enter(Client(), domain="Acme").status_code == 303
        assert self.enter(Client(), domain="Elsewhere").status_code == 401
