"""``POST /v3/auth/tokens``: what is issued, to whom, and in which shape."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.users import set_user_enabled
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import Api, People, make_domain, make_project, make_user
from tests.support.tables import each_row

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def issue(body: Any, **headers: str) -> Any:
    return Api(None).post(TOKENS, body, **headers)


@each_row("user_by", ["name", "id"])
@each_row("project_by", ["name", "id"])
def test_token_for_a_project_has_keystones_shape(people: People, user_by: str, project_by: str) -> None:
    alice = people.alice
    response = issue(by_password(alice, in_project(alice, project_by), by=user_by))
    assert response.status_code == 201
    assert "X-Auth-Token" in response["Vary"]
    assert response["Cache-Control"] == "no-store"
    token = response.json()["token"]
    assert token["methods"] == ["password"]
    default = {"id": "default", "name": "Default"}
    assert token["user"] == {
        "id": alice.user.id.hex,
        "name": "alice",
        "domain": default,
        "password_expires_at": None,
    }
    assert token["project"] == {"id": alice.project.id.hex, "name": "wonderland", "domain": default}
    assert token["is_domain"] is False
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert len(token["audit_ids"]) == 1
    assert TIME.fullmatch(token["issued_at"])
    assert TIME.fullmatch(token["expires_at"])
    lifetime = datetime.fromisoformat(token["expires_at"]) - datetime.fromisoformat(token["issued_at"])
    assert lifetime == timedelta(hours=24)
    assert set(token) == {
        "methods", "user", "project", "is_domain", "roles", "audit_ids", "issued_at", "expires_at", "catalog",
    }  # fmt: skip
    assert context_for_token(response["X-Subject-Token"]).project_id == alice.project.id


def test_catalog_names_every_service_at_every_interface(people: People, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://cloud.example:8443"
    catalog = issue(by_password(people.alice)).json()["token"]["catalog"]
    urls = {
        (service["type"], endpoint["interface"], endpoint["region"], endpoint["region_id"]): endpoint["url"]
        for service in catalog
        for endpoint in service["endpoints"]
    }
    paths = {
        "identity": "/identity/v3",
        "compute": "/compute/v2.1",
        "image": "/image",
        "network": "/network",
        "ec2": "/ec2/",
    }
    paths |= dict.fromkeys(("block-storage", "volumev3"), f"/volume/v3/{people.alice.project_id.hex}")
    assert urls == {
        (service, interface, "RegionOne", "RegionOne"): f"https://cloud.example:8443{path}"
        for service, path in paths.items()
        for interface in ("public", "internal", "admin")
    }


def test_catalog_follows_the_requests_host_when_no_address_is_set(people: People, settings: Settings) -> None:
    settings.PUBLIC_URL = ""
    settings.ALLOWED_HOSTS = ["cloud.example"]
    catalog = issue(by_password(people.alice), Host="cloud.example").json()["token"]["catalog"]
    assert catalog[0]["endpoints"][0]["url"] == "http://cloud.example/identity/v3"


def test_nocatalog_leaves_the_catalog_out(people: People) -> None:
    token = Api(None).post(f"{TOKENS}?nocatalog", by_password(people.alice)).json()["token"]
    assert "project" in token
    assert "catalog" not in token


@pytest.mark.parametrize("scope", ["unscoped", {"unscoped": {}}])
def test_unscoped_token_knows_the_user_only(people: People, scope: Any) -> None:
    response = issue(by_password(people.alice, scope))
    assert response.status_code == 201
    assert set(response.json()["token"]) == {"methods", "user", "audit_ids", "issued_at", "expires_at"}


def test_without_a_scope_the_default_project_is_taken(people: People) -> None:
    assert issue(by_password(people.alice)).json()["token"]["project"]["name"] == "wonderland"
    assert "project" not in issue(by_password(people.bob)).json()["token"], "bob has no default project"


def test_without_a_scope_a_closed_default_project_leads_to_an_unscoped_token(people: People) -> None:
    set_project_enabled(people.alice.project, enabled=False)
    response = issue(by_password(people.alice))
    assert response.status_code == 201
    assert "project" not in response.json()["token"]


def test_token_by_token_changes_the_scope_and_ends_no_later(people: People) -> None:
    alice = people.alice
    assign_role(alice.user, people.charlie.project, "reader")
    first = issue(by_password(alice, "unscoped"))
    second = issue(by_token(first["X-Subject-Token"], in_project(people.charlie)))
    third = issue(by_token(second["X-Subject-Token"], in_project(alice)))
    assert [response.status_code for response in (first, second, third)] == [201] * 3
    one, two, three = (response.json()["token"] for response in (first, second, third))
    assert two["methods"] == ["token", "password"]
    assert [role["name"] for role in two["roles"]] == ["reader"]
    assert one["expires_at"] == two["expires_at"] == three["expires_at"]
    assert [two["audit_ids"][1], three["audit_ids"][1]] == one["audit_ids"] * 2
    assert len({one["audit_ids"][0], two["audit_ids"][0], three["audit_ids"][0]}) == 3


def test_password_and_token_must_be_of_one_person(people: People) -> None:
    body = by_password(people.alice)
    body["auth"]["identity"]["methods"] = ["password", "token"]
    body["auth"]["identity"]["token"] = {"id": people.alice.token}
    assert issue(body).status_code == 201
    body["auth"]["identity"]["token"] = {"id": people.bob.token}
    assert issue(body).status_code == 401


def test_chain_of_tokens_has_an_end(people: People) -> None:
    value = issue(by_password(people.alice, "unscoped"))["X-Subject-Token"]
    seen = []
    for _ in range(20):
        response = issue(by_token(value, "unscoped"))
        seen.append(response.status_code)
        if response.status_code != 201:
            break
        value = response["X-Subject-Token"]
    assert seen == [201] * 15 + [403]


@each_row(
    "scope",
    [
        {"project": {"id": "0" * 32}},
        {"project": {"id": "no id at all"}},
        {"project": {"name": "factory", "domain": {"id": "default"}}},
        {"project": {"name": "wonderland", "domain": {"id": "elsewhere"}}},
        {"project": {"name": "no such project", "domain": {"name": "Default"}}},
        {"domain": {"id": "default"}},
        {"system": {"all": True}},
        {"OS-TRUST:trust": {"id": "0" * 32}},
    ],
)
def test_scope_without_a_role_is_refused_like_a_wrong_password(people: People, scope: Any) -> None:
    refused = issue(by_password(people.alice, scope))
    wrong = issue(by_password(people.alice, password="wrong"))
    assert refused.status_code == wrong.status_code == 401
    assert refused.json() == wrong.json()
    assert refused["WWW-Authenticate"].endswith('/identity/v3"')


@pytest.mark.slow
def test_closed_project_domain_or_user_gets_no_token(people: People) -> None:
    other = make_domain("other", "Other")
    garden = make_project("garden", other)
    eve = make_user("eve", {garden: "member"}, domain=other)
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": "eve", "domain": {"id": "other"}, "password": "correct horse"}},
            },
            "scope": {"project": {"id": garden.id.hex}},
        }
    }
    assert issue(body).status_code == 201
    set_project_enabled(garden, enabled=False)
    assert issue(body).status_code == 401
    set_project_enabled(garden, enabled=True)
    set_user_enabled(eve, enabled=False)
    assert issue(body).status_code == 401
    set_user_enabled(eve, enabled=True)
    assert issue(body).status_code == 201
    other.enabled = False
    other.save()
    assert issue(body).status_code == 401


def test_names_are_of_a_domain(people: People) -> None:
    other = make_domain("other", "Other")
    make_user("alice", {make_project("wonderland", other): "member"}, domain=other, password="another password")
    assert issue(by_password(people.alice, password="another password")).status_code == 401
    assert issue(by_password(people.alice)).status_code == 201


@each_row(
    "change",
    [
        lambda auth: auth["identity"].pop("methods"),
        lambda auth: auth["identity"].update(methods=[]),
        lambda auth: auth["identity"].update(methods="password"),
        lambda auth: auth["identity"].update(methods=["password", 7]),
        lambda auth: auth["identity"].pop("password"),
        lambda auth: auth["identity"].update(password=[]),
        lambda auth: auth["identity"]["password"]["user"].pop("password"),
        lambda auth: auth["identity"]["password"]["user"].update(password=7),
        lambda auth: auth["identity"]["password"]["user"].pop("name"),
        lambda auth: auth["identity"]["password"]["user"].pop("domain"),
        lambda auth: auth["identity"]["password"]["user"].update(name="a" * 256),
        lambda auth: auth["identity"]["password"]["user"].update(name="nul\0"),
        lambda auth: auth["identity"]["password"]["user"].update(password="a" * 5000),
        lambda auth: auth.update(scope={"project": {}}),
        lambda auth: auth.update(scope={"project": {"name": "wonderland"}}),
        lambda auth: auth.update(scope={"project": {"id": 7}}),
        lambda auth: auth.update(scope={}),
        lambda auth: auth.update(scope="everything"),
        lambda auth: auth.update(scope=["unscoped"]),
        lambda auth: auth.update(scope={"project": {"id": "x"}, "domain": {"id": "default"}}),
        lambda auth: auth.pop("identity"),
    ],
)
def test_body_that_cannot_be_right_is_400(people: People, change: Any) -> None:
    body = by_password(people.alice)
    change(body["auth"])
    response = issue(body)
    assert response.status_code == 400, response.content
    error = response.json()["error"]
    assert error["code"] == 400
    assert error["title"] == "Bad Request"
    assert len(response.content) < 600


@each_row("body", ["", "{", "[]", "null", "7", '"auth"', "{}", '{"auth": null}', '{"auth": NaN}', "\xff"])
def test_body_that_is_no_object_is_400(people: People, body: str) -> None:
    response = Api(None).client.generic("POST", TOKENS, body.encode("latin-1"), content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == 400


def test_deep_or_huge_body_is_refused(people: People, settings: Settings) -> None:
    deep = "[" * 5000 + "]" * 5000
    assert Api(None).post(TOKENS, deep).status_code == 400
    nested = '{"auth":' * 40 + "1" + "}" * 40
    assert "nests deeper" in Api(None).post(TOKENS, nested).json()["error"]["message"]
    response = Api(None).post(TOKENS, '{"auth": "' + "a" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + '"}')
    assert response.status_code == 413
    assert response.json()["error"]["code"] == 413


def test_body_of_another_type_is_refused(people: People) -> None:
    response = Api(None).client.generic("POST", TOKENS, b"a=b", content_type="application/x-www-form-urlencoded")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == 400
    assert "Content-Type" in response.json()["error"]["message"]


def test_unknown_method_is_refused(people: People) -> None:
    body = by_password(people.alice)
    body["auth"]["identity"]["methods"] = ["password", "telepathy"]
    response = issue(body)
    assert response.status_code == 401
    assert "unsupported method" in response.json()["error"]["message"]


@each_row("value", ["x", "gAAAAAB" + "a" * 100, "é", "a" * 3000, "\n"])
def test_value_that_is_no_token_is_401(people: People, value: str) -> None:
    assert issue(by_token(value)).status_code == 401


def test_passwords_stand_in_no_fault(people: People) -> None:
    body = by_password(people.alice, password="hunter2-secret")
    body["auth"]["identity"]["password"]["user"]["password"] = ["hunter2-secret"]
    response = issue(body)
    assert response.status_code == 400
    assert b"hunter2" not in response.content
    body = by_password(people.alice)
    body["auth"]["identity"]["password"] = {"user": "hunter2-secret", "extra": "hunter2-secret"}
    assert b"hunter2" not in issue(body).content


def test_token_request_costs_few_queries(people: People, django_assert_max_num_queries: Any) -> None:
    body = by_password(people.alice, in_project(people.alice))
    with django_assert_max_num_queries(21):  # the address is new, too
        assert issue(body).status_code == 201
    with django_assert_max_num_queries(10) as again:
        assert issue(body).status_code == 201
    assert not any(query["sql"].startswith(("INSERT", "UPDATE", "DELETE")) for query in again.captured_queries)
