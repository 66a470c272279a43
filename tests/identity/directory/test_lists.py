"""Lists: filters, sorting, pages, and that they cost the same however long they are."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.identity.models import User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import set_domain_enabled
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import create_project, set_project_enabled, set_tags
from tests.identity.directory.people_of_domains import V3, fault, make_realm, role, status
from tests.support.cast import Api, People, make_domain, make_project, make_user
from tests.support.standing import standing
from tests.support.tables import each_row

NAMES = ["Apple", "apple pie", "banana", "Cherry", "cherry_%"]


@pytest.fixture
@standing
def fruit(people: People) -> Api:
    """Projects of these names in the domain ``other``; tags: the first is a and b, the second is a, the third b."""
    domain = make_domain("other", "Other")
    made = [create_project(domain, name, description=name) for name in NAMES]
    for project, tags in zip(made, (["a", "b"], ["a"], ["b"]), strict=False):
        set_tags(project, tags)
    set_project_enabled(made[3], enabled=False)
    return Api(people.operator)


def names(api: Api, query: str, what: str = "projects") -> list[str]:
    response = api.get(f"{V3}/{what}?{query}")
    assert response.status_code == 200, response.content
    return [each["name"] for each in response.json()[what]]


@each_row(
    ("query", "found"),
    [
        ("", [0, 3, 1, 2, 4]),
        ("&name=Apple", [0]),
        ("&name=apple", []),
        ("&enabled=false", [3]),
        ("&enabled", [0, 1, 2, 4]),
        ("&name__contains=pp", [0, 1]),
        ("&name__contains=PP", []),
        ("&name__icontains=PP", [0, 1]),
        ("&name__startswith=a", [1]),
        ("&name__istartswith=a", [0, 1]),
        ("&name__endswith=y", [3]),
        ("&name__iendswith=PIE", [1]),
        ("&name__contains=%25", [4]),
        ("&name__contains=_", [4]),
        ("&name__contains=pp&name__endswith=e&enabled=true", [0, 1]),
        ("&tags=a", [0, 1]),
        ("&tags=a,b", [0]),
        ("&tags-any=a,b", [0, 1, 2]),
        ("&not-tags=a,b", [3, 1, 2, 4]),
        ("&not-tags-any=a,b", [3, 4]),
        ("&tags=a&not-tags-any=b", [1]),
        ("&parent_id=other", [0, 3, 1, 2, 4]),
        ("&parent_id=default", []),
        ("&parent_id=none", []),
        ("&sort_key=name&sort_dir=desc", [4, 2, 1, 3, 0]),
        ("&sort_key=enabled&sort_key=name&sort_dir=asc&sort_dir=desc", [3, 4, 2, 1, 0]),
        ("&is_domain=false&unknown=1", [0, 3, 1, 2, 4]),
    ],
)
def test_projects_are_narrowed_and_sorted(fruit: Api, query: str, found: list[int]) -> None:
    assert names(fruit, f"domain_id=other{query}") == [NAMES[number] for number in found]


@each_row(
    "query",
    [
        "enabled=perhaps",
        "is_domain=perhaps",
        "limit=-1",
        "limit=x",
        "limit=99999999999",
        "marker=none",
        "sort_key=password",
        "sort_key=name&sort_dir=up",
        "sort_key=name&sort_dir=asc&sort_dir=asc",
        "name=%00",
        "name__contains=%00",
        "tags=" + ",".join(f"t{number}" for number in range(101)),
    ],
)
def test_a_wrong_query_is_refused(people: People, query: str) -> None:
    assert status(Api(people.operator).get(f"{V3}/projects?{query}")) == 400


def test_a_list_that_is_cut_says_so_and_leads_to_the_rest(fruit: Api) -> None:
    path: str | None = f"{V3}/projects?domain_id=other&limit=2&sort_key=name&sort_dir=desc"
    seen, cuts = [], []
    for _ in range(5):
        if path is None:
            break
        body = fruit.get(path).json()
        seen += [each["name"] for each in body["projects"]]
        cuts.append(body.get("truncated", False))
        path = body["links"]["next"]
    assert seen == [NAMES[number] for number in (4, 2, 1, 3, 0)]
    assert cuts == [True, True, False]


def test_a_marker_of_another_domain_is_none(people: People) -> None:
    realm = make_realm()
    code, _ = fault(realm.api.get(f"{V3}/users?marker={people.alice.user.id.hex}"))
    assert code == 400


def test_users_are_narrowed_by_when_their_passwords_expire(people: People) -> None:
    for name, moment in (("jan", "2030-01-31T12:00:00Z"), ("feb", "2030-02-28T12:00:00Z")):
        User.objects.filter(id=make_user(name).id).update(password_expires_at=moment)
    api = Api(people.operator)

    def expiring(value: str) -> list[str]:
        return names(api, f"password_expires_at={value}", "users")

    moment = "2030-01-31T12:00:00Z"
    assert expiring(f"lt:{moment}") == []
    assert expiring(f"lte:{moment}") == expiring(f"eq:{moment}") == ["jan"]
    assert expiring(f"gt:{moment}") == ["feb"]
    assert expiring(f"gte:{moment}") == ["feb", "jan"]
    assert {"jan", "alice"} - set(expiring(f"neq:{moment}")) == {"jan"}
    for wrong in (moment, "lt:soon", "like:" + moment, "lt:"):
        assert status(api.get(f"{V3}/users?password_expires_at={wrong}")) == 400


def test_groups_and_domains_are_narrowed_too(people: People) -> None:
    realm, api = make_realm(), Api(people.operator)
    for name in ("red", "green"):
        create_group(realm.domain, name)
    assert names(api, "name__istartswith=R&domain_id=other", "groups") == ["red"]
    assert names(api, "sort_key=name&sort_dir=desc", "groups") == ["red", "green"]
    assert names(api, "name__endswith=er", "domains") == ["Other"]
    set_domain_enabled(realm.domain, enabled=False)
    assert names(api, "enabled=0", "domains") == ["Other"]


@pytest.mark.parametrize("what", ["users", "projects", "groups", "domains"])
def test_a_longer_list_asks_the_database_no_oftener(people: People, what: str) -> None:
    api = Api(people.operator)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert status(api.get(f"{V3}/{what}")) == 200
        return len(captured)

    def more(number: int) -> None:
        domain = make_domain(f"d{number}", f"D{number}")
        make_user(f"u{number}", domain=domain)
        set_tags(make_project(f"p{number}", domain), ["a", "b"])
        create_group(domain, f"g{number}")

    more(0)
    before = queries()
    for number in range(1, 6):
        more(number)
    assert queries() == before


def test_others_find_by_name_what_they_may_enter_by_a_group_too(people: People) -> None:
    project: Any = make_project("shared")
    group = create_group(project.domain, "g")
    add_to_group(group, people.charlie.user)
    grant(role("reader"), group=group, project=project)
    assert names(Api(people.charlie), "name=shared") == ["shared"]
    assert status(Api(people.alice).get(f"{V3}/projects?name=shared")) == 403
