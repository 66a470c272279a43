"""Groups: made, changed and removed; who is in them, and what that gives and takes."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.identity.models import Group
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.users import delete_user
from tests.identity.directory.people_of_domains import V3, fault, made, make_realm, role, status
from tests.support.cast import Api, People, Person, make_project
from tests.support.tables import each_row


def test_a_group_is_made_shown_changed_and_removed(people: People) -> None:
    api = Api(people.operator)
    group = made(api, "group", name="g", description="d", floor=3)
    assert (group["domain_id"], group["description"], group["floor"]) == ("default", "d", 3)
    path = f"{V3}/groups/{group['id']}"
    assert api.get(path).json()["group"] == group
    changed = api.patch(path, {"group": {"name": "h", "floor": None, "domain_id": "default"}}).json()["group"]
    assert (changed["name"], changed["description"], "floor" in changed) == ("h", "d", False)
    assert status(api.patch(path, {"group": {"domain_id": "other"}})) == 400
    assert status(api.delete(path)) == 204
    assert status(api.get(path)) == 404


def test_the_name_of_a_group_is_taken_once_in_its_domain(people: People) -> None:
    api = Api(people.operator)
    make_realm()
    made(api, "group", name="g")
    made(api, "group", name="g", domain_id="other")
    assert status(api.post(f"{V3}/groups", {"group": {"name": "g"}})) == 409


@each_row(
    "fields",
    [{}, {"name": "x" * 65}, {"name": ""}, {"name": "x", "description": 1}],
)
def test_a_wrong_group_is_refused(people: People, fields: dict[str, Any]) -> None:
    assert status(Api(people.operator).post(f"{V3}/groups", {"group": fields})) == 400
    assert not Group.objects.exists()


def test_users_are_put_in_found_and_taken_out(people: People) -> None:
    api = Api(people.operator)
    group = made(api, "group", name="g")
    users = f"{V3}/groups/{group['id']}/users"
    one = f"{users}/{people.alice.user.id.hex}"
    assert status(api.get(one)) == status(api.head(one)) == 404
    assert status(api.put(one)) == status(api.put(one)) == 204
    assert status(api.get(one)) == status(api.head(one)) == status(Api(people.alice).get(one)) == 204
    assert [each["name"] for each in api.get(users).json()["users"]] == ["alice"]
    assert status(Api(people.bob).get(one)) == status(Api(people.alice).get(users)) == 403
    assert status(api.delete(one)) == 204
    assert status(api.delete(one)) == 404
    assert status(api.put(f"{users}/{'0' * 32}")) == status(api.put(f"{users}/no-id")) == 404
    assert status(api.put(f"{V3}/groups/{'0' * 32}/users/{people.alice.user.id.hex}")) == 404


@pytest.mark.parametrize("way", ["out of the group", "without the group"])
def test_what_a_group_gave_is_gone_at_the_next_request(people: People, way: str) -> None:
    project, api = make_project("p"), Api(people.operator)
    group = create_group(project.domain, "g")
    grant(role("member"), group=group, project=project)
    add_to_group(group, people.bob.user)
    member = Api(Person(people.bob.user, project))
    assert status(member.get(f"{V3}/auth/projects")) == 200
    path = f"{V3}/groups/{group.id.hex}"
    Event.objects.all().delete()
    assert status(api.delete(path if way == "without the group" else f"{path}/users/{people.bob.user.id.hex}")) == 204
    assert status(member.get(f"{V3}/auth/projects")) == 401
    assert Event.objects.filter(topic="auth", kind="revoked").exists()


def test_the_last_administrator_stays_in_the_group(people: People) -> None:
    admin, user = people.operator.project, people.bob.user
    group = create_group(admin.domain, "operators")
    grant(role("admin"), group=group, project=admin)
    add_to_group(group, user)
    delete_user(people.operator.user)
    api = Api(Person(user, admin))
    for path in (f"{V3}/groups/{group.id.hex}", f"{V3}/groups/{group.id.hex}/users/{user.id.hex}"):
        code, message = fault(api.delete(path))
        assert (code, "administrator" in message) == (403, True)
    assert status(api.get(f"{V3}/groups")) == 200
