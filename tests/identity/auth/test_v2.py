"""The Identity API v2.0: tokens and tenants of the default domain."""

from __future__ import annotations

from typing import Any

from pytest_django import Settings

from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.selectors.tokens import context_for_token, sign_ins_of
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.tokens import issue_token
from tests.identity.bodies import TOKENS, by_password
from tests.support.cast import PASSWORD, Api, People, Person, make_domain, make_project, make_user
from tests.support.tables import each_row

V2 = "/identity/v2.0"


def issue(**auth: Any) -> Any:
    return Api(None).post(f"{V2}/tokens", {"auth": auth})


def password(person: Person, **more: Any) -> Any:
    return issue(passwordCredentials={"username": person.user.name, "password": PASSWORD}, **more)


def token(person: Person) -> str:
    return str(password(person, tenantName=person.project.name).json()["access"]["token"]["id"])


@each_row("by", ["tenantName", "tenantId"])
@each_row("user_by", ["username", "userId"])
def test_token_for_a_tenant(people: People, by: str, user_by: str) -> None:
    alice = people.alice
    tenant = {"tenantName": "wonderland", "tenantId": alice.project.id.hex}[by]
    who = {"username": "alice", "userId": alice.user.id.hex}[user_by]
    response = issue(passwordCredentials={user_by: who, "password": PASSWORD}, **{by: tenant})
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    access = response.json()["access"]
    assert access["token"]["tenant"] == {
        "id": alice.project.id.hex,
        "name": "wonderland",
        "description": "",
        "enabled": True,
    }
    assert set(access["token"]) == {"id", "issued_at", "expires", "audit_ids", "tenant"}
    user = access["user"]
    assert (user["id"], user["name"], user["username"]) == (alice.user.id.hex, "alice", "alice")
    assert user["roles"] == [{"name": "member"}, {"name": "reader"}]
    assert access["metadata"]["is_admin"] == 0
    assert len(access["metadata"]["roles"]) == 2
    assert context_for_token(access["token"]["id"]).project_name == "wonderland"


def test_catalog_has_one_entry_for_each_region(people: People, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://cloud.example"
    catalog = password(people.alice, tenantName="wonderland").json()["access"]["serviceCatalog"]
    compute = next(service for service in catalog if service["type"] == "compute")
    assert compute["endpoints_links"] == []
    (endpoint,) = compute["endpoints"]
    assert endpoint["region"] == "RegionOne"
    urls = {endpoint[name] for name in ("publicURL", "internalURL", "adminURL")}
    assert urls == {"https://cloud.example/compute/v2.1"}


def test_without_a_tenant_the_token_is_for_none_and_finds_its_tenants(people: People) -> None:
    assign_role(people.alice.user, people.charlie.project, "reader")
    for more in ({}, {"tenantName": ""}, {"tenantId": None}):
        access = password(people.alice, **more).json()["access"]
        assert "tenant" not in access["token"]
        assert (access["serviceCatalog"], access["user"]["roles"]) == ([], [])
    body = Api(None).get(f"{V2}/tenants", X_Auth_Token=access["token"]["id"]).json()
    assert [tenant["name"] for tenant in body["tenants"]] == ["factory", "wonderland"]
    assert body["tenants_links"] == []
    again = issue(token={"id": access["token"]["id"]}, tenantName="factory")
    assert again.json()["access"]["token"]["tenant"]["name"] == "factory"
    assert again.json()["access"]["token"]["expires"] == access["token"]["expires"]


def test_what_is_wrong_is_refused_as_in_version_3(people: People) -> None:
    wrong = Api(None).post(TOKENS, by_password(people.alice, password="wrong"))
    refused = [
        issue(passwordCredentials={"username": "alice", "password": "wrong too"}),
        issue(passwordCredentials={"username": "nobody", "password": PASSWORD}),
        issue(passwordCredentials={"userId": "nobody", "password": PASSWORD}),
        password(people.alice, tenantName="factory"),
        password(people.alice, tenantId="no id"),
        issue(token={"id": "nonsense"}),
    ]
    for response in refused:
        assert (response.status_code, response.json()) == (401, wrong.json())


@each_row(
    ("auth", "field"),
    [
        ({}, "passwordCredentials"),
        ({"passwordCredentials": {"username": "alice"}}, "password"),
        ({"passwordCredentials": {"password": "x"}}, "username"),
        ({"passwordCredentials": {"username": 7, "password": "x"}}, "username"),
        ({"passwordCredentials": {"username": "a", "password": "x"}, "token": {"id": "x"}}, "passwordCredentials"),
        ({"passwordCredentials": {"username": "a", "password": "x", "domain": "y"}}, "domain"),
        ({"passwordCredentials": {"username": "a", "password": "x"}, "tenantId": 7}, "tenantId"),
        ({"passwordCredentials": "alice"}, "passwordCredentials"),
        ({"token": {}}, "id"),
        ({"token": {"id": "x"}, "surprise": 1}, "surprise"),
    ],
)
def test_body_that_cannot_be_right_is_400_and_names_the_field(people: People, auth: Any, field: str) -> None:
    response = issue(**auth)
    assert response.status_code == 400
    assert field in response.json()["error"]["message"]


@each_row("body", [None, [], {"auth": []}, {"auth": None}, {"token": {}}])
def test_body_of_another_form_is_400(people: People, body: Any) -> None:
    response = Api(None).post(f"{V2}/tokens", body if body is not None else "null")
    assert response.status_code == 400
    assert response.json()["error"]["title"] == "Bad Request"


def test_other_domains_do_not_exist(people: People) -> None:
    other = make_domain("other", "Other")
    garden = make_project("garden", other)
    eve = make_user("eve", {garden: "member", people.alice.project: "member"}, domain=other)
    assign_role(people.alice.user, garden, "member")
    assert issue(passwordCredentials={"username": "eve", "password": PASSWORD}).status_code == 401
    assert issue(passwordCredentials={"userId": eve.id.hex, "password": PASSWORD}).status_code == 401
    assert password(people.alice, tenantId=garden.id.hex).status_code == 401
    assert password(people.alice, tenantName="garden").status_code == 401
    hers = issue_token(eve, people.alice.project, ("password",)).value
    assert issue(token={"id": hers}).status_code == 401
    assert Api(people.operator).get(f"{V2}/tokens/{hers}").status_code == 404
    there = issue_token(people.alice.user, garden, ("password",)).value
    assert Api(people.operator).get(f"{V2}/tokens/{there}").status_code == 404
    tenants = Api(people.alice).get(f"{V2}/tenants").json()["tenants"]
    assert [tenant["name"] for tenant in tenants] == ["wonderland"]


def test_administrators_look_into_tokens(people: People) -> None:
    value = token(people.alice)
    response = Api(people.operator).get(f"{V2}/tokens/{value}")
    assert response.status_code == 200
    assert response.json()["access"]["user"]["name"] == "alice"
    assert Api(people.operator).head(f"{V2}/tokens/{value}").status_code == 200
    assert Api(people.operator).get(f"{V2}/tokens/{value}?belongsTo={people.alice.project.id}").status_code == 200
    assert Api(people.operator).get(f"{V2}/tokens/{value}?belongsTo={people.bob.user.id}").status_code == 404
    endpoints = Api(people.operator).get(f"{V2}/tokens/{value}/endpoints").json()
    assert {"name", "type", "region", "publicURL", "id"} <= set(endpoints["endpoints"][0])
    for who, status in ((people.alice, 403), (None, 401)):
        assert Api(who).get(f"{V2}/tokens/{value}").status_code == status
        assert Api(who).get(f"{V2}/tokens/{value}/endpoints").status_code == status
    for bad in ("nonsense", value[::-1], "%00"):
        assert Api(people.operator).get(f"{V2}/tokens/{bad}").status_code == 404


def test_system_and_domain_tokens_cannot_be_shown(people: People) -> None:
    member = role_records(["member"])[0]
    grant(member, user=people.alice.user, system=True)
    value = issue_token(people.alice.user, "system", ("password",)).value
    assert Api(people.operator).get(f"{V2}/tokens/{value}").status_code == 404


def test_tokens_are_given_back(people: People) -> None:
    value = token(people.alice)
    assert Api(people.bob).delete(f"{V2}/tokens/{value}").status_code == 403
    assert Api(None).delete(f"{V2}/tokens/{value}", X_Auth_Token=value).status_code == 204
    assert Api(people.operator).get(f"{V2}/tokens/{value}").status_code == 404
    assert Api(None).get("/identity/v3/auth/projects", X_Auth_Token=value).status_code == 401


def test_version_3_knows_its_tokens(people: People) -> None:
    value = token(people.alice)
    shown = Api(people.operator).get(TOKENS, X_Subject_Token=value).json()["token"]
    assert shown["project"]["name"] == "wonderland"
    assert len(sign_ins_of(people.alice.user_id)) == 1


def test_documents(people: People) -> None:
    assert Api(None).get(f"{V2}/extensions").json() == {"extensions": {"values": []}}
    assert Api(None).get(f"{V2}/extensions/OS-X").status_code == 404
    document = Api(None).get(f"{V2}/").json()["version"]
    assert (document["id"], document["status"]) == ("v2.0", "deprecated")
    assert document["links"][0]["href"].endswith("/identity/v2.0/")
    root = Api(None).get("/identity")
    assert root.status_code == 300
    assert [version["id"] for version in root.json()["versions"]["values"]] == ["v3.14", "v2.0"]


def test_cloud_that_does_not_offer_it_has_nothing_there(people: People, settings: Settings) -> None:
    value = token(people.alice)
    settings.IDENTITY_V2 = False
    assert password(people.alice).status_code == 404
    for path in ("", "/extensions", "/tenants", f"/tokens/{value}", f"/tokens/{value}/endpoints"):
        response = Api(people.operator).get(f"{V2}{path}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, 404)
    root = Api(None).get("/identity").json()["versions"]["values"]
    assert [version["id"] for version in root] == ["v3.14"]
