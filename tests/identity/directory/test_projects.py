"""Projects: made, changed, closed and removed; the trees that they stand in, and their tags."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from provisioning.common.errors import ForbiddenError
from provisioning.compute.models import FlavorAccess, Instance
from provisioning.identity.models import Domain, Project
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.projects import create_project, set_project_enabled
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import update_user
from provisioning.images.models import Image
from provisioning.network.models import Network, Port, SecurityGroup
from provisioning.quotas.models import QuotaLimit
from tests.identity.directory.people_of_domains import V3, fault, made, make_realm, status
from tests.support.cast import Api, People, make_domain, make_project
from tests.support.tables import each_row


def chain(length: int) -> list[Project]:
    """Projects below each other, the topmost first."""
    domain, result = make_domain(), list[Project]()
    for number in range(length):
        result.append(create_project(domain, f"level{number}", parent=result[-1] if result else None))
    return result


def test_a_project_is_made_shown_changed_and_removed(people: People) -> None:
    api = Api(people.operator)
    project = made(api, "project", name="p", description="d", tags=["b", "a"], ticket={"id": 1})
    assert (project["domain_id"], project["parent_id"], project["is_domain"]) == ("default", "default", False)
    assert (project["tags"], project["ticket"], project["enabled"]) == (["a", "b"], {"id": 1}, True)
    path = f"{V3}/projects/{project['id']}"
    assert api.get(path).json()["project"] == project
    changed = api.patch(path, {"project": {"name": "q", "tags": ["c"], "ticket": None, "more": 1}}).json()["project"]
    assert (changed["name"], changed["tags"], "ticket" in changed, changed["more"]) == ("q", ["c"], False, 1)
    assert changed["description"] == "d"
    assert status(api.delete(path)) == 204
    assert status(api.get(path)) == 404


def test_what_an_answer_shows_can_be_sent_back_but_not_changed(people: People) -> None:
    api = Api(people.operator)
    project = made(api, "project", name="p")
    path = f"{V3}/projects/{project['id']}"
    assert status(api.patch(path, {"project": project})) == 200
    make_domain("other", "Other")
    for name, value, code in [
        ("id", "0" * 32, 400),
        ("domain_id", "other", 400),
        ("parent_id", people.alice.project.id.hex, 403),
        ("is_domain", True, 400),
    ]:
        result = fault(api.patch(path, {"project": {name: value}}))
        assert (result[0], name in result[1]) == (code, True)


def test_fields_of_ones_own_cannot_stand_for_those_of_the_project(people: People) -> None:
    project = made(Api(people.operator), "project", name="p", links={"self": "http://evil.example"})
    assert project["links"]["self"].endswith(f"/projects/{project['id']}")
    assert Project.objects.get(name="p").extra == {}


def test_the_name_of_a_project_is_taken_once_in_its_domain(people: People) -> None:
    api = Api(people.operator)
    make_domain("other", "Other")
    made(api, "project", name="p")
    made(api, "project", name="p", domain_id="other")
    code, message = fault(api.post(f"{V3}/projects", {"project": {"name": "p"}}))
    assert (code, "p already" in message) == (409, True)


@each_row(
    "fields",
    [
        {},
        {"name": "x" * 65},
        {"name": "\t"},
        {"name": 1},
        {"name": "x", "domain_id": "none"},
        {"name": "x", "domain_id": ["default"]},
        {"name": "x", "parent_id": "0" * 32},
        {"name": "x", "parent_id": "no id"},
        {"name": "x", "parent_id": {}},
        {"name": "x", "is_domain": True, "domain_id": "default"},
        {"name": "x", "is_domain": True, "parent_id": "default"},
        {"name": "x", "enabled": None},
        {"name": "x", "tags": ["a", "a"]},
        {"name": "x", "tags": ["a/b"]},
        {"name": "x", "tags": [""]},
        {"name": "x", "tags": [f"t{number}" for number in range(81)]},
        {"name": "x", "tags": "a"},
    ],
)
def test_a_wrong_project_is_refused(people: People, fields: dict[str, Any]) -> None:
    before = Project.objects.count()
    assert status(Api(people.operator).post(f"{V3}/projects", {"project": fields})) == 400
    assert Project.objects.count() == before


def test_a_parent_that_is_not_there_is_named(people: People) -> None:
    code, message = fault(Api(people.operator).post(f"{V3}/projects", {"project": {"name": "x", "parent_id": "none"}}))
    assert (code, message) == (400, "There is no project none in this domain.")


@each_row("body", [[], {}, {"project": []}, {"project": {"name": "x"}, "more": 1}, "x", None])
def test_a_body_that_is_no_project_is_refused(people: People, body: Any) -> None:
    assert status(Api(people.operator).post(f"{V3}/projects", body)) == 400


def test_projects_stand_five_below_each_other_and_in_one_domain(people: People) -> None:
    api = Api(people.operator)
    above = made(api, "project", name="level0")
    for number in range(1, 5):
        above = made(api, "project", name=f"level{number}", parent_id=above["id"])
    refused = api.post(f"{V3}/projects", {"project": {"name": "level5", "parent_id": above["id"]}})
    assert status(refused) == 403
    make_domain("other", "Other")
    elsewhere = {"name": "x", "parent_id": above["id"], "domain_id": "other"}
    assert status(api.post(f"{V3}/projects", {"project": elsewhere})) == 400
    assert made(api, "project", name="first", parent_id="other")["domain_id"] == "other"


def test_the_tree_around_a_project_is_shown_as_lists_and_as_ids(people: People) -> None:
    api, (top, middle, low) = Api(people.operator), chain(3)
    path = f"{V3}/projects/{middle.id.hex}"
    other = create_project(top.domain, "leaf", parent=middle)

    def shown(query: str) -> dict[str, Any]:
        result: dict[str, Any] = api.get(f"{path}?{query}").json()["project"]
        return result

    lists = shown("parents_as_list&subtree_as_list")
    assert [each["project"]["name"] for each in lists["parents"]] == ["level0"]
    assert [each["project"]["name"] for each in lists["subtree"]] == ["leaf", "level2"]
    ids = shown("parents_as_ids&subtree_as_ids=1")
    assert ids["parents"] == {top.id.hex: {"default": None}}
    assert ids["subtree"] == {other.id.hex: None, low.id.hex: None}
    assert api.get(f"{V3}/projects/{top.id.hex}?subtree_as_ids").json()["project"]["subtree"] == {
        middle.id.hex: {other.id.hex: None, low.id.hex: None}
    }
    assert api.get(f"{V3}/projects/{low.id.hex}?subtree_as_ids").json()["project"]["subtree"] is None
    assert "parents" not in shown("parents_as_list=0")
    assert status(api.get(f"{path}?parents_as_list&parents_as_ids")) == 400


def test_a_tree_shows_others_only_what_they_may_enter(people: People) -> None:
    top, middle, low = chain(3)
    assign_role(people.alice.user, middle, "reader")
    assign_role(people.alice.user, low, "reader")
    token = issue_token(people.alice.user, middle, ("password",)).value
    answer = Api(None, **{"X-Auth-Token": token}).get(f"{V3}/projects/{middle.id.hex}?parents_as_list&subtree_as_list")
    project = answer.json()["project"]
    assert project["parents"] == []
    assert [each["project"]["id"] for each in project["subtree"]] == [low.id.hex]
    assert top.name not in answer.content.decode()


def test_open_projects_stand_below_open_ones(people: People) -> None:
    api, (top, middle) = Api(people.operator), chain(2)
    close, reopen = {"project": {"enabled": False}}, {"project": {"enabled": True}}
    assert status(api.patch(f"{V3}/projects/{top.id.hex}", close)) == 403
    assert status(api.patch(f"{V3}/projects/{middle.id.hex}", close)) == 200
    assert status(api.patch(f"{V3}/projects/{top.id.hex}", close)) == 200
    assert status(api.patch(f"{V3}/projects/{middle.id.hex}", reopen)) == 403
    assert status(api.post(f"{V3}/projects", {"project": {"name": "x", "parent_id": top.id.hex}})) == 403


def test_a_closed_projects_tokens_do_not_come_back(people: People) -> None:
    api, alice = Api(people.operator), Api(people.alice)
    path = f"{V3}/projects/{people.alice.project.id.hex}"
    for enabled in (False, True):
        assert status(api.patch(path, {"project": {"enabled": enabled}})) == 200
        assert status(alice.get(f"{V3}/auth/projects")) == 401
    assert status(Api(people.alice).get(path)) == 200


def own_server(project: Project) -> None:
    now = timezone.now()
    Instance.objects.create(
        project_id=project.id, user_id=project.id, name="s", hostname="s", flavor={}, created_at=now, updated_at=now
    )


def own_port(project: Project) -> None:
    network = Network.objects.create(project_id=make_project("factory").id, bridge="b")
    Port.objects.create(project_id=project.id, network=network, mac_address="fa:16:3e:00:00:01")


OWNED = {
    "servers": own_server,
    "images": lambda project: Image.objects.create(project_id=project.id),
    "networks": lambda project: Network.objects.create(project_id=project.id, bridge="b"),
    "ports": own_port,
    "security groups": lambda project: SecurityGroup.objects.create(project_id=project.id, name="mine"),
}


@each_row("kind", OWNED)
def test_a_project_stays_while_it_owns_something(people: People, kind: str) -> None:
    project = make_project("p")
    OWNED[kind](project)
    code, message = fault(Api(people.operator).delete(f"{V3}/projects/{project.id.hex}"))
    assert (code, f"{kind} (1)" in message) == (409, True)
    assert Project.objects.filter(id=project.id).exists()


def test_what_counts_for_nothing_is_deleted_with_the_project(people: People) -> None:
    project, alice = make_project("p"), people.alice
    SecurityGroup.objects.create(project_id=project.id, name="default")
    QuotaLimit.objects.create(project_id=project.id, resource="cores", limit=7)
    now = timezone.now()
    gone = {"created_at": now, "updated_at": now, "deleted_at": now}
    Instance.objects.create(project_id=project.id, user_id=alice.user_id, name="s", hostname="s", flavor={}, **gone)
    assign_role(alice.user, project, "member")
    update_user(alice.user, default_project=project)
    assert status(Api(people.operator).delete(f"{V3}/projects/{project.id.hex}")) == 204
    for model in (SecurityGroup, QuotaLimit, FlavorAccess):
        assert not model._default_manager.filter(project_id=project.id).exists()
    alice.user.refresh_from_db()
    assert alice.user.default_project is None


def test_a_project_stays_while_others_are_below_it(people: People) -> None:
    top, _ = chain(2)
    assert status(Api(people.operator).delete(f"{V3}/projects/{top.id.hex}")) == 409


def test_the_last_administrators_project_stays(people: People) -> None:
    operator = people.operator
    path = f"{V3}/projects/{operator.project.id.hex}"
    assert status(Api(operator).delete(path)) == 403
    with pytest.raises(ForbiddenError):
        set_project_enabled(operator.project, enabled=False)
    assert status(Api(operator).get(path)) == 200


def test_tags_one_by_one_and_all_at_once(people: People) -> None:
    api, project = Api(people.operator), make_project("p")
    tags = f"{V3}/projects/{project.id.hex}/tags"
    assert status(api.put(f"{tags}/red%20one")) == 201
    assert status(api.put(f"{tags}/red%20one")) == 201
    assert api.get(tags).json()["tags"] == ["red one"]
    assert status(api.get(f"{tags}/red%20one")) == status(api.head(f"{tags}/red%20one")) == 204
    assert status(api.get(f"{tags}/blue")) == status(api.delete(f"{tags}/blue")) == 404
    assert api.put(tags, {"tags": ["b", "a"]}).json()["tags"] == ["a", "b"]
    assert status(api.delete(f"{tags}/a")) == 204
    assert api.get(tags).json()["tags"] == ["b"]
    assert status(api.delete(tags)) == 204
    assert api.get(tags).json()["tags"] == []


@pytest.mark.both_databases("constraints")
def test_wrong_tags_are_refused_and_leave_the_present_ones(people: People) -> None:
    api, project = Api(people.operator), make_project("p")
    tags = f"{V3}/projects/{project.id.hex}/tags"
    full = [f"t{number:02}" for number in range(80)]
    assert status(api.put(tags, {"tags": full})) == 200
    assert status(api.put(f"{tags}/more")) == 400
    assert status(api.put(f"{tags}/a,b")) == 400
    assert status(api.put(f"{tags}/{'x' * 256}")) == 400
    assert status(api.put(f"{tags}/%00")) == 400
    for body in ({"tags": ["x" * 256]}, {"tags": [1]}, {"tags": "x"}, {}, {"tags": [], "more": 1}):
        assert status(api.put(tags, body)) == 400
    assert api.get(tags).json()["tags"] == full


def test_a_domain_is_shown_as_a_project_too(people: People) -> None:
    make_realm()
    api = Api(people.operator)
    listed = api.get(f"{V3}/projects?is_domain=true").json()["projects"]
    assert [(each["id"], each["is_domain"], each["parent_id"]) for each in listed] == [
        ("default", True, None),
        ("other", True, None),
    ]
    assert api.get(f"{V3}/projects/other").json()["project"] == listed[1]


def test_a_project_that_is_a_domain_is_made_changed_and_removed_as_one(people: People) -> None:
    api = Api(people.operator)
    shown = made(api, "project", name="Third", is_domain=True, description="d", tags=["a"], ticket=1, parent_id=None)
    path = f"{V3}/projects/{shown['id']}"
    assert (shown["is_domain"], shown["domain_id"], shown["parent_id"], shown["tags"]) == (True, None, None, ["a"])
    assert shown["links"]["self"].endswith(f"/projects/{shown['id']}")
    domain = api.get(f"{V3}/domains/{shown['id']}").json()["domain"]
    assert (domain["name"], domain["description"], domain["ticket"]) == ("Third", "d", 1)
    assert status(api.post(f"{V3}/projects", {"project": {"name": "Third", "is_domain": True}})) == 409
    assert status(api.patch(path, {"project": shown})) == 200  # as it was shown
    assert api.patch(path, {"project": {"name": "Fourth", "ticket": None}}).json()["project"]["name"] == "Fourth"
    for name, value, code in [("is_domain", False, 400), ("domain_id", "default", 400), ("parent_id", "default", 403)]:
        assert status(api.patch(path, {"project": {name: value}})) == code
    made(api, "project", name="inside", domain_id=shown["id"])
    assert status(api.delete(path)) == 403
    assert api.patch(path, {"project": {"enabled": False}}).json()["project"]["enabled"] is False
    assert status(api.delete(path)) == 204
    assert status(api.get(f"{V3}/domains/{shown['id']}")) == status(api.get(path)) == 404
    assert not Project.objects.filter(name="inside").exists()


def test_no_domain_is_made_or_changed_as_a_project_by_who_may_not(people: People) -> None:
    realm = make_realm()
    body = {"project": {"name": "x", "is_domain": True}}
    assert status(realm.api.post(f"{V3}/projects", body)) == status(Api(people.bob).post(f"{V3}/projects", body)) == 403
    for key, code in (("other", 403), ("default", 404), ("none", 404)):
        path = f"{V3}/projects/{key}"
        assert status(realm.api.patch(path, {"project": {"name": "x"}})) == status(realm.api.delete(path)) == code
    assert status(Api(people.bob).delete(f"{V3}/projects/other")) == 403
    assert set(Domain.objects.values_list("name", flat=True)) == {"Default", "Other"}
