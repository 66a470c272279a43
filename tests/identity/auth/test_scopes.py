"""Tokens for a domain, for the system and for nothing; what one may enter; looking into tokens that have ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from pytest_django import Settings

from provisioning.identity.models import Role, User
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.selectors.tokens import context_for_token, token_data
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import set_domain_enabled
from provisioning.identity.services.groups import add_to_group, create_group, remove_from_group
from provisioning.identity.services.tokens import issue_token, revoke_token
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import Api, People, Person, make_domain
from tests.support.tables import each_row

ALL = {"system": {"all": True}}
DEFAULT = {"id": "default", "name": "Default"}


def issue(body: Any) -> Any:
    return Api(None).post(TOKENS, body)


def role(name: str) -> Role:
    return role_records([name])[0]


def give(user: User, name: str, **where: Any) -> None:
    grant(role(name), user=user, **where)


@pytest.mark.parametrize("domain", [{"id": "default"}, {"name": "Default"}])
def test_token_for_a_domain(people: People, domain: dict[str, str]) -> None:
    give(people.alice.user, "admin", domain=people.alice.user.domain)
    response = issue(by_password(people.alice, {"domain": domain}))
    assert response.status_code == 201
    token = response.json()["token"]
    assert token["domain"] == DEFAULT
    assert [each["name"] for each in token["roles"]] == ["admin", "manager", "member", "reader"]
    assert {"catalog", "audit_ids", "user", "methods"} < set(token)
    assert not {"project", "is_domain", "system"} & set(token)
    context = context_for_token(response["X-Subject-Token"])
    assert (context.domain_id, context.project_id, context.is_admin) == ("default", None, False)


def test_token_for_the_system(people: People) -> None:
    give(people.alice.user, "admin", system=True)
    response = issue(by_password(people.alice, ALL))
    assert response.status_code == 201
    token = response.json()["token"]
    assert token["system"] == {"all": True}
    assert [each["name"] for each in token["roles"]] == ["admin", "manager", "member", "reader"]
    assert "catalog" in token
    assert not {"project", "domain", "is_domain"} & set(token)
    assert context_for_token(response["X-Subject-Token"]).system


@pytest.mark.parametrize("scope", [ALL, {"domain": {"id": "default"}}, {"domain": {"name": "Default"}}])
def test_role_on_a_project_opens_neither_system_nor_domain(people: People, scope: Any) -> None:
    assert issue(by_password(people.operator, scope)).status_code == 401


def test_role_on_a_domain_opens_no_project_of_it_unless_inherited(people: People) -> None:
    give(people.charlie.user, "reader", domain=people.alice.user.domain)
    body = by_password(people.charlie, in_project(people.alice))
    assert issue(body).status_code == 401
    give(people.charlie.user, "reader", domain=people.alice.user.domain, inherited=True)
    token = issue(body).json()["token"]
    assert [each["name"] for each in token["roles"]] == ["reader"]


@each_row(
    "scope",
    [
        {"system": {}},
        {"system": {"all": False}},
        {"system": {"all": 1}},
        {"system": True},
        {"domain": {}},
        {"domain": {"id": 7}},
        {"surprise": {"id": "default"}},
        {"system": {"all": True}, "domain": {"id": "default"}},
    ],
)
def test_scope_that_cannot_be_is_400(people: People, scope: Any) -> None:
    assert issue(by_password(people.alice, scope)).status_code == 400


def test_token_moves_between_scopes_and_keeps_its_end(people: People) -> None:
    give(people.alice.user, "reader", system=True)
    give(people.alice.user, "reader", domain=people.alice.user.domain)
    first = issue(by_password(people.alice, "unscoped"))
    value, ends = first["X-Subject-Token"], first.json()["token"]["expires_at"]
    for scope in (in_project(people.alice), {"domain": {"id": "default"}}, ALL, "unscoped"):
        response = issue(by_token(value, scope))
        assert response.status_code == 201, scope
        value = response["X-Subject-Token"]
        assert response.json()["token"]["expires_at"] == ends
    assert set(response.json()["token"]) == {"methods", "user", "audit_ids", "issued_at", "expires_at"}


def test_token_for_the_system_gets_none_for_less(people: People) -> None:
    give(people.alice.user, "reader", system=True)
    give(people.alice.user, "reader", domain=people.alice.user.domain)
    value = issue(by_password(people.alice, ALL))["X-Subject-Token"]
    for scope in (in_project(people.alice), {"domain": {"id": "default"}}):
        assert issue(by_token(value, scope)).status_code == 403
    assert issue(by_token(value)).json()["token"]["project"]["name"] == "wonderland", (
        "one's default project, as in Keystone"
    )


def test_what_one_may_enter(people: People) -> None:
    def lists(api: Api) -> tuple[list[str], list[str], list[Any]]:
        result = {name: api.get(f"/identity/v3/auth/{name}").json() for name in ("projects", "domains", "system")}
        assert result["system"]["links"]["self"].endswith("/v3/auth/system")
        names = [[each["name"] for each in result[part][part]] for part in ("projects", "domains")]
        return names[0], names[1], result["system"]["system"]

    assert lists(Api(people.bob)) == (["wonderland"], [], [])
    group = create_group(people.bob.user.domain, "readers")
    add_to_group(group, people.bob.user)
    grant(role("reader"), group=group, project=people.charlie.project)
    grant(role("reader"), group=group, domain=people.bob.user.domain)
    grant(role("reader"), group=group, system=True)
    assert lists(Api(people.bob)) == (["factory", "wonderland"], ["Default"], [{"all": True}])
    remove_from_group(group, people.bob.user)
    assert lists(Api(people.bob)) == (["wonderland"], [], [])


def test_catalog_of_every_scope(people: People) -> None:
    give(people.alice.user, "reader", system=True)
    for scope, status in ((in_project(people.alice), 200), (ALL, 200), ("unscoped", 403)):
        value = issue(by_password(people.alice, scope))["X-Subject-Token"]
        response = Api(None).get("/identity/v3/auth/catalog", X_Auth_Token=value)
        assert response.status_code == status
        if status == 200:
            assert "identity" in [service["type"] for service in response.json()["catalog"]]


def test_closed_domain_takes_no_token(people: People) -> None:
    other = make_domain("other", "Other")
    give(people.alice.user, "reader", domain=other)
    value = issue(by_password(people.alice, {"domain": {"id": "other"}}))["X-Subject-Token"]
    assert context_for_token(value).domain_id == "other"
    set_domain_enabled(other, enabled=False)
    assert issue(by_password(people.alice, {"domain": {"id": "other"}})).status_code == 401
    assert Api(None).get("/identity/v3/auth/projects", X_Auth_Token=value).status_code == 401


class TestEndedTokens:
    """``allow_expired``: a service that carries on a user's long request asks about a token that has just ended."""

    @pytest.fixture
    def value(self, people: People, settings: Settings) -> str:
        settings.TOKEN_LIFETIME = 600
        return str(issue(by_password(people.alice, in_project(people.alice)))["X-Subject-Token"])

    def look(self, person: Person, value: str, query: str = "?allow_expired=1") -> int:
        return int(Api(person).get(f"{TOKENS}{query}", X_Subject_Token=value).status_code)

    def test_administrators_may_look_for_two_days(self, people: People, value: str) -> None:
        with time_machine.travel(timezone.now() + timedelta(seconds=700), tick=False) as clock:
            assert self.look(people.operator, value) == 200
            assert self.look(people.operator, value, "") == 404
            assert self.look(people.operator, value, "?allow_expired=false") == 404
            assert self.look(people.alice, value) == 404
            assert Api(None).get("/identity/v3/auth/projects", X_Auth_Token=value).status_code == 401
            assert Api(people.operator).delete(f"{TOKENS}?allow_expired=1", X_Subject_Token=value).status_code == 404
            issue(by_password(people.alice))  # new sessions drop rows of old ones
            assert self.look(people.operator, value) == 200
            clock.shift(timedelta(days=2))
            assert self.look(people.operator, value) == 404

    def test_one_that_was_given_back_stays_so(self, people: People, value: str) -> None:
        revoke_token(token_data(value))
        with time_machine.travel(timezone.now() + timedelta(seconds=700), tick=False):
            revoke_token(issue_token(people.bob.user, None, ("password",)).data)
            assert self.look(people.operator, value) == 404


def test_password_expiry_stands_in_the_token(people: People) -> None:
    ends = timezone.now().replace(microsecond=5) + timedelta(days=3)
    User.objects.filter(id=people.alice.user.id).update(password_expires_at=ends)
    user = issue(by_password(people.alice)).json()["token"]["user"]
    assert user["password_expires_at"] == ends.strftime("%Y-%m-%dT%H:%M:%S.000005")
