"""Ids and values that are none: a refusal each time, and never an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.identity.services.domains import delete_domain, update_domain
from provisioning.identity.services.groups import add_to_group, create_group, delete_group, remove_from_group
from provisioning.identity.services.projects import delete_project, update_project
from provisioning.identity.services.users import delete_user, update_user
from tests.identity.directory.people_of_domains import V3, make_realm, status
from tests.support.cast import Api, People, make_project
from tests.support.tables import each_row

pytestmark = pytest.mark.both_databases

IDS = ["%00", "x" * 300, "%F0%9F%A6%80", "%FF", "..", "0" * 31, "{}", "-1", "' OR 1=1 --", "%0A"]
PATHS = ["users/{}", "projects/{}", "domains/{}", "groups/{}", "users/{}/groups", "projects/{}/tags", "groups/{}/users"]


@pytest.mark.slow
@each_row("key", IDS)
def test_an_id_that_is_none_is_not_found(people: People, key: str) -> None:
    group = create_group(people.alice.user.domain, "g")
    paths = [*PATHS, f"groups/{group.id.hex}/users/{{}}", f"projects/{people.alice.project.id.hex}/tags/{{}}"]
    for api in (Api(people.operator), make_realm().api):
        for path in paths:
            assert status(api.get(f"{V3}/{path.format(key)}")) == 404
            assert status(api.delete(f"{V3}/{path.format(key)}")) in {404, 405, 403}
    for path in PATHS:
        assert status(Api(people.alice).get(f"{V3}/{path.format(key)}")) == 403


@pytest.mark.parametrize("kind", ["user", "project", "group", "domain"])
@pytest.mark.parametrize(
    "value",
    [
        {"name": {"a": 1}},
        {"name": "a\0b"},
        {"name": "x", "description": "a\0b"},
        {"name": "x", "more": "a\0b"},
        {"name": "x", "a\0b": 1},
        {"name": "x", "more": 10**400},
        {"name": "x", "more": {"deep": [[[["x"]]]] * 5000}},
        {"name": "x", "description": "y" * 70_000},
        {"name": 10**400},
        {"name": "x", "enabled": 2} | {"description": []},
    ],
)
def test_a_value_that_cannot_be_kept_is_refused(people: People, kind: str, value: dict[str, Any]) -> None:
    assert status(Api(people.operator).post(f"{V3}/{kind}s", {kind: value})) == 400


@each_row("query", ["limit=9" * 5, "sort_key=", "marker=%F0%9F%A6%80", "marker=" + "x" * 5000])
@each_row("what", ["users", "projects", "groups", "domains"])
def test_a_part_of_a_list_that_cannot_be_is_refused(people: People, what: str, query: str) -> None:
    assert status(Api(people.operator).get(f"{V3}/{what}?{query}")) == 400


@pytest.mark.parametrize("query", ["domain_id=" + "x" * 5000, "name=" + "x" * 5000, "name__icontains=" + "x" * 5000])
@pytest.mark.both_databases("sql")
def test_a_filter_that_nothing_matches_gives_an_empty_list(people: People, query: str) -> None:
    assert Api(people.operator).get(f"{V3}/users?{query}").json()["users"] == []


@pytest.mark.slow
def test_whatever_takes_something_away_wakes_the_open_connections(people: People) -> None:
    realm, project = make_realm(), make_project("p")
    group = create_group(realm.domain, "g")
    add_to_group(group, realm.erin)
    deeds = [
        lambda: remove_from_group(group, realm.erin),
        lambda: delete_group(group),
        lambda: update_user(people.alice.user, password="another one"),
        lambda: update_user(people.alice.user, enabled=False),
        lambda: delete_user(people.alice.user),
        lambda: update_project(project, enabled=False),
        lambda: delete_project(project),
        lambda: update_domain(realm.domain, enabled=False),
        lambda: delete_domain(realm.domain),
    ]
    for deed in deeds:
        Event.objects.all().delete()
        deed()
        assert Event.objects.filter(topic="auth", kind="revoked").exists()


@pytest.mark.both_databases("sql")
def test_additional_fields_have_numbers_of_any_size(people: People) -> None:
    """PostgreSQL gives a large one back as a whole number, which the JSON library refused: 500."""
    api, path = Api(people.operator), "/identity/v3/projects"
    project = api.post(path, {"project": {"name": "huge", "cost": {"most": [1e30]}}}).json()["project"]["id"]
    assert api.patch(f"{path}/{project}", {"project": {"more": 1}}).status_code == 200
    assert api.get(f"{path}/{project}").json()["project"]["cost"] == {"most": [1e30]}
