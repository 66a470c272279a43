"""Tokens of application credentials: bound to one project, to some roles, and to some kinds of request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.events.models import Event
from provisioning.identity.models import ApplicationCredential
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.selectors.tokens import context_for_token, context_of, token_data
from provisioning.identity.services.application_credentials import (
    RequestPattern,
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.users import revoke_all, set_user_enabled
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import Api, People, Person
from tests.support.roles import remove_role
from tests.support.tables import each_row

PROJECTS = "/identity/v3/auth/projects"


def make(person: Person, **options: Any) -> tuple[ApplicationCredential, str]:
    return create_application_credential(person.user, person.project, options.pop("name", "robot"), **options)


def body(secret: str, scope: Any = None, **named: Any) -> dict[str, Any]:
    auth: dict[str, Any] = {
        "identity": {"methods": ["application_credential"], "application_credential": {"secret": secret, **named}}
    }
    if scope is not None:
        auth["scope"] = scope
    return {"auth": auth}


def issue(sent: Any) -> Any:
    return Api(None).post(TOKENS, sent)


def value_of(record: ApplicationCredential, secret: str) -> str:
    response = issue(body(secret, id=record.id.hex))
    assert response.status_code == 201, response.content
    return str(response["X-Subject-Token"])


@pytest.mark.parametrize("by", ["id", "name and user id", "name and user name", "user of a domain by id"])
def test_ways_to_name_one(people: People, by: str) -> None:
    record, secret = make(people.alice)
    user = {
        "id": {},
        "name and user id": {"id": people.alice.user.id.hex},
        "name and user name": {"name": "alice", "domain": {"name": "Default"}},
        "user of a domain by id": {"name": "alice", "domain": {"id": "default"}},
    }[by]
    named = {"id": record.id.hex} if by == "id" else {"name": "robot", "user": user}
    response = issue(body(secret, **named))
    assert response.status_code == 201
    token = response.json()["token"]
    assert token["methods"] == ["application_credential"]
    assert token["project"]["name"] == "wonderland"
    assert token["application_credential"] == {"id": record.id.hex, "name": "robot", "restricted": True}
    shown = Api(people.operator).get(TOKENS, X_Subject_Token=response["X-Subject-Token"])
    assert shown.json() == response.json()


def test_roles_are_those_given_with_what_they_imply(people: People) -> None:
    record, secret = make(people.operator, roles=role_records(["member"]), unrestricted=True)
    token = issue(body(secret, id=record.id.hex)).json()["token"]
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert token["application_credential"]["restricted"] is False
    value = value_of(record, secret)
    assert Api(None).get("/identity/v3/users", X_Auth_Token=value).status_code == 403


@pytest.mark.parametrize("what", ["secret", "id", "name", "user", "expired", "disabled", "project closed", "role lost"])
def test_what_is_wrong_is_refused_alike(people: People, what: str) -> None:
    record, secret = make(people.alice, expires_at=timezone.now() + timedelta(hours=1))
    sent = body(secret, id=record.id.hex)
    given = sent["auth"]["identity"]["application_credential"]
    when = timezone.now() + timedelta(hours=2 if what == "expired" else 0)
    if what == "secret":
        given["secret"] = "wrong"
    elif what == "id":
        given["id"] = "0" * 32
    elif what in {"name", "user"}:
        sent = body(secret, name="nobody" if what == "name" else "robot", user={"id": people.bob.user.id.hex})
    elif what == "disabled":
        set_user_enabled(people.alice.user, enabled=False)
    elif what == "project closed":
        set_project_enabled(people.alice.project, enabled=False)
    elif what == "role lost":
        remove_role(people.alice.user, people.alice.project, "member")
    with time_machine.travel(when, tick=False):
        response = issue(sent)
    wrong = issue(by_password(people.bob, password="wrong"))
    assert response.status_code == 401
    assert response.json() == wrong.json()


@each_row("scope", ["unscoped", {"system": {"all": True}}, {"domain": {"id": "default"}}, "own", "other"])
def test_takes_no_scope(people: People, scope: Any) -> None:
    assign_role(people.alice.user, people.charlie.project, "member")
    record, secret = make(people.alice)
    requested = {"own": in_project(people.alice), "other": in_project(people.charlie)}.get(str(scope), scope)
    response = issue(body(secret, requested, id=record.id.hex))
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "Application credentials cannot request a scope."


def test_there_is_no_way_out_of_its_project(people: People) -> None:
    assign_role(people.alice.user, people.charlie.project, "member")
    grant(role_records(["member"])[0], user=people.alice.user, system=True)
    value = value_of(*make(people.alice))
    for scope in ("unscoped", {"system": {"all": True}}, in_project(people.charlie), {"domain": {"id": "default"}}):
        assert issue(by_token(value, scope)).status_code == 403, scope
    assert [each["name"] for each in Api(None).get(PROJECTS, X_Auth_Token=value).json()["projects"]] == ["wonderland"]
    assert Api(None).get("/identity/v3/auth/system", X_Auth_Token=value).json()["system"] == []


@pytest.mark.parametrize("scope", [None, "own"])
def test_what_is_got_by_its_token_is_bound_as_well(people: People, scope: str | None) -> None:
    record, secret = make(people.alice, roles=role_records(["reader"]))
    response = issue(by_token(value_of(record, secret), in_project(people.alice) if scope else None))
    assert response.status_code == 201
    token = response.json()["token"]
    assert token["application_credential"]["id"] == record.id.hex
    assert [role["name"] for role in token["roles"]] == ["reader"]
    delete_application_credential(record)
    assert Api(None).get(PROJECTS, X_Auth_Token=response["X-Subject-Token"]).status_code == 401


def test_password_beside_it_must_be_of_the_same_person_and_frees_nothing(people: People) -> None:
    record, secret = make(people.alice, roles=role_records(["reader"]))
    sent = body(secret, id=record.id.hex)
    identity = sent["auth"]["identity"]
    identity["methods"].append("password")
    identity["password"] = by_password(people.alice)["auth"]["identity"]["password"]
    response = issue(sent)
    assert [role["name"] for role in response.json()["token"]["roles"]] == ["reader"]
    identity["password"] = by_password(people.bob)["auth"]["identity"]["password"]
    assert issue(sent).status_code == 401


def test_two_credentials_do_not_mix(people: People) -> None:
    weak, strong = make(people.alice, roles=role_records(["reader"])), make(people.alice, name="other")
    sent = body(strong[1], id=strong[0].id.hex)
    sent["auth"]["identity"]["methods"].append("token")
    sent["auth"]["identity"]["token"] = {"id": value_of(*weak)}
    assert issue(sent).status_code == 401


@pytest.mark.parametrize("way", ["deleted", "expired", "role lost", "project closed", "signed out everywhere"])
def test_token_ends_with_it(people: People, way: str) -> None:
    record, secret = make(people.alice, expires_at=timezone.now() + timedelta(hours=1))
    data = token_data(value_of(record, secret))
    assert data.expires_at <= record.expires_at
    when = timezone.now() + timedelta(hours=2 if way == "expired" else 0)
    seen = Event.objects.filter(topic="auth").count()
    if way == "deleted":
        delete_application_credential(record)
    elif way == "role lost":
        remove_role(people.alice.user, people.alice.project, "member")
    elif way == "project closed":
        set_project_enabled(people.alice.project, enabled=False)
    elif way == "signed out everywhere":
        revoke_all(people.alice.user)
    with time_machine.travel(when, tick=False), pytest.raises(NotAuthenticatedError):
        context_of(data)
    assert (Event.objects.filter(topic="auth").count() > seen) is (way != "expired"), "open sockets look again"


def test_guessing_secrets_is_slowed_down(people: People) -> None:
    record, _ = make(people.alice)
    statuses = [issue(body("wrong", id=record.id.hex)).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]


@each_row(
    "named",
    [
        {},
        {"name": "robot"},
        {"name": "robot", "user": {}},
        {"name": "robot", "user": {"name": "alice"}},
        {"id": 7},
        {"name": ["robot"], "user": {"id": "x"}},
    ],
)
def test_body_that_cannot_be_right_is_400(people: People, named: Any) -> None:
    response = issue(body("secret", **named))
    assert response.status_code == 400
    assert "Expecting" in response.json()["error"]["message"] or "Invalid input" in response.json()["error"]["message"]


class TestAccessRules:
    RULES = (
        RequestPattern("compute", "GET", "/v2.1/servers"),
        RequestPattern("compute", "GET", "/v2.1/servers/{id}"),
        RequestPattern("image", "GET", "/v2/**"),
    )

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("get", "/compute/v2.1/servers", 200),
            ("get", "/compute/v2.1/servers?limit=1", 200),
            ("get", "/compute/v2.1/servers/" + "0" * 32, 404),
            ("get", "/compute/v2.1/servers/detail", 200),
            ("get", "/compute/v2.1/servers/x/metadata", 401),
            ("post", "/compute/v2.1/servers", 401),
            ("get", "/compute/v2.1/flavors", 401),
            ("get", "/image/v2/images", 200),
            ("delete", "/image/v2/images/x", 401),
            ("get", "/network/v2.0/networks", 401),
            ("get", PROJECTS, 401),
        ],
    )
    def test_only_these_requests(self, people: People, method: str, path: str, status: int) -> None:
        value = value_of(*make(people.alice, access_rules=self.RULES))
        response = getattr(Api(None), method)(path, X_Auth_Token=value)
        assert response.status_code == status, response.content
        if status == 401:
            assert "access rules" in response.json()["error"]["message"]

    def test_they_stand_in_the_token(self, people: People) -> None:
        record, secret = make(people.alice, access_rules=self.RULES)
        token = issue(body(secret, id=record.id.hex)).json()["token"]
        shown = token["application_credential"]["access_rules"]
        assert [(rule["service"], rule["method"], rule["path"]) for rule in shown] == [
            ("compute", "GET", "/v2.1/servers"),
            ("compute", "GET", "/v2.1/servers/{id}"),
            ("image", "GET", "/v2/**"),
        ]

    def test_tokens_got_by_its_tokens_keep_them(self, people: People) -> None:
        value = value_of(*make(people.alice, access_rules=self.RULES))
        again = issue(by_token(value))["X-Subject-Token"]
        assert Api(None).get("/compute/v2.1/servers", X_Auth_Token=again).status_code == 200
        assert Api(None).get("/compute/v2.1/flavors", X_Auth_Token=again).status_code == 401


def test_looking_at_its_token_is_two_queries(people: People, django_assert_num_queries: Any) -> None:
    value = value_of(*make(people.alice, access_rules=TestAccessRules.RULES))
    with django_assert_num_queries(2):
        context = context_for_token(value)
    assert context.access_rules is not None
    assert len(context.access_rules) == 3
