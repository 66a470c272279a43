"""Users, projects, domains, roles and the catalog to read: who sees what."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.users import set_user_enabled
from tests.identity.bodies import TOKENS, by_password
from tests.support.cast import PASSWORD, Api, People, make_domain, make_project, make_user
from tests.support.tables import each_row

V3 = "/identity/v3"
LISTS = ["users", "projects", "domains", "roles", "role_assignments", "services", "endpoints"]


def test_versions_need_no_token() -> None:
    listed = Api(None).get("/identity")
    assert listed.status_code == 300
    version = next(each for each in listed.json()["versions"]["values"] if each["id"].startswith("v3"))
    assert version["id"] == "v3.14"
    shown = Api(None).get(V3)
    assert shown.status_code == 200
    assert shown.json()["version"] == version
    assert version["links"][0]["href"].endswith("/identity/v3/")
    assert Api(None).get(f"{V3}/").json() == shown.json()


@each_row("name", LISTS)
def test_whole_lists_are_for_operators(people: People, name: str) -> None:
    assert Api(None).get(f"{V3}/{name}").status_code == 401
    for person in (people.alice, people.bob, people.charlie):
        response = Api(person).get(f"{V3}/{name}")
        assert response.status_code == 403
        assert response.json()["error"]["title"] == "Forbidden"
    response = Api(people.operator).get(f"{V3}/{name}")
    assert response.status_code == 200
    body = response.json()
    assert body[name]
    assert body["links"]["self"].endswith(f"{V3}/{name}")


def test_operator_lists_are_narrowed_by_name_domain_and_state(people: People) -> None:
    other = make_domain("other", "Other")
    make_user("alice", {make_project("wonderland", other): "member"}, domain=other)
    set_user_enabled(people.bob.user, enabled=False)

    def names(query: str, what: str = "users") -> list[tuple[str, str]]:
        result = Api(people.operator).get(f"{V3}/{what}?{query}").json()[what]
        return [(item["name"], item["domain_id"]) for item in result]

    assert names("name=alice") == [("alice", "default"), ("alice", "other")] or names("name=alice") == [
        ("alice", "other"),
        ("alice", "default"),
    ]
    assert names("domain_id=other") == [("alice", "other")]
    assert names("enabled=false") == [("bob", "default")]
    assert names("domain_id=other", "projects") == [("wonderland", "other")]
    assert Api(people.operator).get(f"{V3}/users?enabled=perhaps").status_code == 400


@pytest.mark.parametrize(
    ("path", "key"),
    [("users?name=alice", "users"), ("projects?name=wonderland", "projects"), ("domains?name=Default", "domains")],
)
def test_others_find_their_own_by_name(people: People, path: str, key: str) -> None:
    assert len(Api(people.alice).get(f"{V3}/{path}").json()[key]) == 1


@pytest.mark.parametrize("path", ["users?name=alice", "projects?name=wonderland", "domains?name=Other"])
def test_others_are_refused_what_is_not_their_own_by_name(people: People, path: str) -> None:
    make_domain("other", "Other")
    for requested in (path, f"{path}-there-is-none"):
        assert Api(people.charlie).get(f"{V3}/{requested}").status_code == 403


def test_one_shows_oneself_and_ones_project(people: People) -> None:
    alice = people.alice
    for spelled in (alice.user.id.hex, str(alice.user.id)):
        user = Api(alice).get(f"{V3}/users/{spelled}").json()["user"]
        assert (user["id"], user["name"], user["domain_id"]) == (alice.user.id.hex, "alice", "default")
        assert user["default_project_id"] == alice.project.id.hex
        assert "password" not in user
    project = Api(alice).get(f"{V3}/projects/{alice.project.id.hex}").json()["project"]
    assert (project["name"], project["domain_id"], project["enabled"]) == ("wonderland", "default", True)
    assert Api(alice).get(f"{V3}/domains/default").json()["domain"]["name"] == "Default"


def test_others_are_not_shown_known_or_not(people: People) -> None:
    alice, charlie = people.alice, people.charlie
    paths = [
        f"users/{alice.user.id.hex}",
        f"users/{'0' * 32}",
        f"projects/{alice.project.id.hex}",
        f"projects/{'0' * 32}",
        f"users/{alice.user.id.hex}/projects",
        "domains/other",
    ]
    assert {Api(charlie).get(f"{V3}/{path}").status_code for path in paths} == {403}


@each_row("path", ["users/{}", "projects/{}", "roles/{}", "domains/{}", "services/{}", "endpoints/{}", "regions/{}"])
@each_row("key", ["0" * 32, "no-id", "x" * 300])
def test_operator_gets_404_for_what_is_not_there(people: People, path: str, key: str) -> None:
    response = Api(people.operator).get(f"{V3}/{path.format(key)}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == 404
    assert len(response.content) < 300


def test_projects_one_may_enter(people: People) -> None:
    alice = people.alice
    assign_role(alice.user, people.charlie.project, "reader")
    assign_role(alice.user, make_project("closed"), "member")
    set_project_enabled(make_project("closed"), enabled=False)
    unscoped = Api(None).post(TOKENS, by_password(alice, "unscoped"))["X-Subject-Token"]
    for headers in ({"X-Auth-Token": unscoped}, alice.headers):
        projects = Api(None, **headers).get(f"{V3}/auth/projects").json()["projects"]
        assert [project["name"] for project in projects] == ["factory", "wonderland"]
    projects = Api(alice).get(f"{V3}/users/{alice.user.id.hex}/projects").json()["projects"]
    assert [project["name"] for project in projects] == ["factory", "wonderland"]
    assert Api(alice).get(f"{V3}/auth/domains").json()["domains"] == []


def test_catalog_by_itself_needs_a_project(people: People) -> None:
    token = Api(None).post(TOKENS, by_password(people.alice)).json()["token"]
    assert Api(people.alice).get(f"{V3}/auth/catalog").json()["catalog"] == token["catalog"]
    unscoped = Api(None).post(TOKENS, by_password(people.alice, "unscoped"))["X-Subject-Token"]
    assert Api(None, **{"X-Auth-Token": unscoped}).get(f"{V3}/auth/catalog").status_code == 403


def test_services_and_endpoints_are_the_catalogs(people: People) -> None:
    api = Api(people.operator)
    catalog = api.get(f"{V3}/auth/catalog").json()["catalog"]
    listed = api.get(f"{V3}/services").json()["services"]
    assert [service["id"] for service in listed] == [service["id"] for service in catalog]
    (compute,) = api.get(f"{V3}/services?type=compute").json()["services"]
    endpoints = api.get(f"{V3}/endpoints?service_id={compute['id']}&interface=public").json()["endpoints"]
    assert [endpoint["url"].rpartition("/compute")[2] for endpoint in endpoints] == ["/v2.1"]
    assert api.get(f"{V3}/endpoints/{endpoints[0]['id']}").json()["endpoint"] == endpoints[0]
    assert api.get(f"{V3}/services/{compute['id']}").json()["service"] == compute
    assert api.get(f"{V3}/regions/RegionOne").json()["region"] in api.get(f"{V3}/regions").json()["regions"]


def test_assignments_with_and_without_names(people: People) -> None:
    alice = people.alice
    path = f"{V3}/role_assignments?user.id={alice.user.id.hex}"
    (bare,) = Api(people.operator).get(path).json()["role_assignments"]
    assert bare["user"] == {"id": alice.user.id.hex}
    (named,) = Api(people.operator).get(f"{path}&include_names=true").json()["role_assignments"]
    assert (named["role"]["name"], named["scope"]["project"]["name"]) == ("member", "wonderland")
    assert Api(people.operator).get(f"{V3}/role_assignments?user.id=no-id").json()["role_assignments"] == []
    role = Api(people.operator).get(f"{V3}/roles?name=member").json()["roles"][0]
    assert Api(people.operator).get(f"{V3}/roles/{role['id']}").json()["role"] == role


def change(person: Any, user_id: str, original: str, password: str) -> Any:
    body = {"user": {"original_password": original, "password": password}}
    return Api(person).post(f"{V3}/users/{user_id}/password", body)


def test_changing_ones_password_ends_the_old_one_and_every_token(people: People) -> None:
    alice = people.alice
    old = alice.headers
    assert change(alice, alice.user.id.hex, PASSWORD, "a new one").status_code == 204
    assert Api(None, **old).get(f"{V3}/auth/projects").status_code == 401
    assert Api(None).post(TOKENS, by_password(alice)).status_code == 401
    assert Api(None).post(TOKENS, by_password(alice, password="a new one")).status_code == 201


def test_changing_a_password_wants_the_right_one_and_a_good_one(people: People) -> None:
    alice = people.alice
    assert change(alice, alice.user.id.hex, "wrong", "a new one").status_code == 401
    assert change(alice, alice.user.id.hex, PASSWORD, "").status_code == 400
    assert change(alice, alice.user.id.hex, PASSWORD, "a" * 2000).status_code == 400
    for other in (people.bob, people.operator):
        assert change(other, alice.user.id.hex, "wrong", "a new one").status_code == 401
    assert Api(None).post(TOKENS, by_password(alice)).status_code == 201


@each_row("path", ["", "/nothing", "/v2.0", "/v3/nothing", "/v3/auth", "/v3/users/a/b/c", "/v3/auth/tokens/x"])
def test_anything_else_is_404_in_keystones_shape(path: str) -> None:
    response = Api(None).post(f"/identity{path}x" if path else "/identity/x", {})
    assert response.status_code == 404
    assert response.json()["error"]["title"] == "Not Found"
    assert response["X-Openstack-Request-Id"].startswith("req-")
