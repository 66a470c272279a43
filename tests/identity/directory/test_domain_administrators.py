"""The administrator of a domain: everything in it, nothing beyond it, and no way up."""

from __future__ import annotations

import pytest

from provisioning.identity.models import Project, User
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.tokens import issue_token
from tests.identity.directory.people_of_domains import V3, Realm, fault, made, make_realm, role, status
from tests.support.cast import Api, People, make_project, make_user
from tests.support.standing import standing
from tests.support.tables import each_row


@pytest.fixture
@standing
def realm(people: People) -> Realm:
    return make_realm()


def test_lists_have_what_is_in_the_domain(realm: Realm) -> None:
    create_group(realm.domain, "inside")
    create_group(realm.erin.domain, "also inside")
    create_group(make_user("alice").domain, "outside")

    def names(path: str) -> list[str]:
        return [each["name"] for each in realm.api.get(f"{V3}/{path}").json()[path.partition("?")[0]]]

    assert names("users") == ["dora", "erin"]
    assert names("projects") == ["works"]
    assert names("groups") == ["also inside", "inside"]
    assert names("domains") == ["Other"]
    for path in (
        "users?domain_id=default",
        "projects?domain_id=default",
        "groups?domain_id=default",
        "users?name=alice",
    ):
        assert names(path) == []


def test_of_what_a_user_has_only_that_in_the_domain_is_listed(people: People, realm: Realm) -> None:
    outside = create_group(people.alice.user.domain, "outside")
    for user in (realm.erin, realm.dora):
        assign_role(user, people.alice.project, "reader")
        add_to_group(outside, user)

    def names(user: User, what: str) -> list[str]:
        return [each["name"] for each in realm.api.get(f"{V3}/users/{user.id.hex}/{what}").json()[what]]

    assert (names(realm.erin, "projects"), names(realm.erin, "groups")) == (["works"], [])
    assert (names(realm.dora, "projects"), names(realm.dora, "groups")) == (["wonderland"], ["outside"])


@pytest.mark.slow
def test_everything_inside_the_domain_is_made_changed_and_removed(realm: Realm) -> None:
    api = realm.api
    user, project, group = made(api, "user", name="u"), made(api, "project", name="p"), made(api, "group", name="g")
    assert {each["domain_id"] for each in (user, project, group)} == {"other"}
    membership = f"{V3}/groups/{group['id']}/users/{user['id']}"
    assert [status(api.put(membership)), status(api.get(membership)), status(api.delete(membership))] == [204] * 3
    assert status(api.put(f"{V3}/projects/{project['id']}/tags/t")) == 201
    for kind, record in (("user", user), ("project", project), ("group", group)):
        path = f"{V3}/{kind}s/{record['id']}"
        assert status(api.get(path)) == 200
        assert status(api.patch(path, {kind: {"description": "new"}})) == 200
        assert status(api.delete(path)) == 204


def test_what_is_in_other_domains_does_not_exist(people: People, realm: Realm) -> None:
    api = realm.api
    group = create_group(people.alice.user.domain, "g")
    for kind, key in (
        ("user", people.alice.user.id.hex),
        ("project", people.alice.project.id.hex),
        ("group", group.id.hex),
        ("user", "0" * 32),
        ("project", "no-id"),
    ):
        path = f"{V3}/{kind}s/{key}"
        result = {fault(api.get(path)), fault(api.delete(path)), fault(api.patch(path, {kind: {"name": "x"}}))}
        assert result == {(404, f"Could not find {kind}: {key}.")}
    inside = create_group(realm.domain, "inside")
    assert status(api.put(f"{V3}/groups/{inside.id.hex}/users/{people.alice.user.id.hex}")) == 404
    assert status(api.put(f"{V3}/groups/{group.id.hex}/users/{realm.erin.id.hex}")) == 404
    assert status(api.get(f"{V3}/users/{people.alice.user.id.hex}/groups")) == 404
    assert status(api.put(f"{V3}/projects/{people.alice.project.id.hex}/tags/t")) == 404


def test_nothing_is_made_in_or_below_other_domains(people: People, realm: Realm) -> None:
    api = realm.api
    for kind in ("user", "project", "group"):
        for domain_id in ("default", "none"):
            answer = api.post(f"{V3}/{kind}s", {kind: {"name": "x", "domain_id": domain_id}})
            assert status(answer) == 403
    parent, unknown = people.alice.project.id.hex, "0" * 32
    for fields in ({"parent_id": parent}, {"parent_id": parent, "domain_id": "other"}, {"parent_id": unknown}):
        code, message = fault(api.post(f"{V3}/projects", {"project": {"name": "x", **fields}}))
        assert (code, message.replace(parent, unknown)) == (400, f"There is no project {unknown} in this domain.")
    for key in (parent, unknown):
        answer = api.post(f"{V3}/users", {"user": {"name": "x", "default_project_id": key}})
        assert fault(answer) == (400, f"There is no project {key}.")
    assert not Project.objects.filter(name="x").exists()
    assert not User.objects.filter(name="x").exists()


@pytest.mark.slow
@each_row("by", ["user", "group"])
@each_row("where", ["project", "system", "another domain"])
def test_no_power_over_who_has_more_power(people: People, realm: Realm, by: str, where: str) -> None:
    target = {
        "project": {"project": people.operator.project},
        "system": {"system": True},
        "another domain": {"domain": people.alice.user.domain},
    }[where]
    group = create_group(realm.domain, "strong")
    if by == "user":
        grant(role("admin"), user=realm.erin, **target)
    else:
        grant(role("admin"), group=group, **target)
        assert status(realm.api.put(f"{V3}/groups/{group.id.hex}/users/{realm.dora.id.hex}")) == 403
        add_to_group(group, realm.erin)
        assert status(realm.api.delete(f"{V3}/groups/{group.id.hex}/users/{realm.erin.id.hex}")) == 403
        assert status(realm.api.delete(f"{V3}/groups/{group.id.hex}")) == 403
    path = f"{V3}/users/{realm.erin.id.hex}"
    assert status(realm.api.patch(path, {"user": {"password": "taken over"}})) == 403
    assert status(realm.api.delete(path)) == 403
    assert status(realm.api.get(path)) == 200
    assert status(Api(people.operator).patch(path, {"user": {"description": "x"}})) == 200


@pytest.mark.parametrize("name", ["member", "reader"])
def test_who_reads_in_a_domain_sees_what_is_in_it_and_changes_nothing(people: People, realm: Realm, name: str) -> None:
    grant(role(name), user=realm.erin, domain=realm.domain)
    api = Api(None, **{"X-Auth-Token": issue_token(realm.erin, realm.domain, ("password",)).value})
    group = create_group(realm.domain, "inside")
    for kind, names in (("users", ["dora", "erin"]), ("projects", ["works"]), ("groups", ["inside"])):
        assert [each["name"] for each in api.get(f"{V3}/{kind}").json()[kind]] == names
    for record in (realm.dora, realm.project, group):
        kind = type(record).__name__.lower()
        path = f"{V3}/{kind}s/{record.id.hex}"
        assert status(api.get(path)) == 200
        assert status(api.patch(path, {kind: {"description": "x"}})) == status(api.delete(path)) == 403
        assert status(api.post(f"{V3}/{kind}s", {kind: {"name": "x"}})) == 403
    assert status(api.get(f"{V3}/users/{people.alice.user.id.hex}")) == status(api.get(f"{V3}/users/{'0' * 32}")) == 404
    assert status(api.put(f"{V3}/groups/{group.id.hex}/users/{realm.erin.id.hex}")) == 403


@pytest.mark.slow
def test_who_reads_on_the_system_sees_everything_of_identity_and_changes_nothing(people: People, realm: Realm) -> None:
    grant(role("reader"), user=realm.erin, system=True)
    api = Api(None, **{"X-Auth-Token": issue_token(realm.erin, "system", ("password",)).value})
    alice, project, group = (
        people.alice.user.id.hex,
        people.alice.project.id.hex,
        create_group(realm.domain, "g").id.hex,
    )
    key, member = realm.erin.id.hex, role("member").id.hex
    for path in (
        *("users", "projects", "groups", "domains", "roles", "role_assignments", "role_inferences", "services"),
        *("endpoints", "regions", "registered_limits", f"users/{alice}", f"users/{alice}/projects"),
        *(f"users/{alice}/groups", f"users/{alice}/application_credentials", f"users/{alice}/access_rules"),
        *(f"projects/{project}", f"projects/{project}/tags", f"projects/{project}/users/{alice}/roles"),
        *(f"groups/{group}", f"groups/{group}/users", "domains/other", f"roles/{member}", f"roles/{member}/implies"),
        f"system/users/{key}/roles",
    ):
        assert status(api.get(f"{V3}/{path}")) == 200, path
    assert len(api.get(f"{V3}/users").json()["users"]) == User.objects.count()
    assert status(api.get(f"{V3}/credentials")) == 200
    assert api.get(f"{V3}/credentials").json()["credentials"] == []
    for path in (f"users/{alice}", f"projects/{project}", f"groups/{group}", "domains/other", f"roles/{member}"):
        kind = path.partition("s/")[0]
        assert status(api.patch(f"{V3}/{path}", {kind: {"description": "x"}})) == 403
        assert status(api.delete(f"{V3}/{path}")) == 403
    assert status(api.put(f"{V3}/projects/{project}/users/{key}/roles/{member}")) == 403
    assert status(api.put(f"{V3}/system/users/{key}/roles/{member}")) == 403
    assert status(api.post(f"{V3}/users", {"user": {"name": "x"}})) == 403


def test_a_projects_administrator_operates_the_whole_cloud_and_makes_things_in_its_domain(realm: Realm) -> None:
    """As ever in Novella: the role admin on a project."""
    grant(role("admin"), user=realm.erin, project=make_project("control", realm.domain))
    token = issue_token(realm.erin, Project.objects.get(name="control"), ("password",)).value
    api = Api(None, **{"X-Auth-Token": token})
    assert made(api, "user", name="x")["domain_id"] == "other"
    assert made(api, "user", name="x", domain_id="default")["domain_id"] == "default"
