"""Server groups: made and shown as each microversion has them, and obeyed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import Instance, ServerGroup
from provisioning.compute.services.server_groups import check_hints, group_for_launch
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
GROUPS = f"{V21}/os-server-groups"


def at(people: People, version: str = "2.96", person: str = "alice") -> Api:
    return Api(getattr(people, person), **{"OpenStack-API-Version": f"compute {version}"})


def make(api: Api, **fields: Any) -> dict[str, Any]:
    answer = api.post(GROUPS, {"server_group": {"name": "web", "policy": "anti-affinity", **fields}})
    assert answer.status_code == 200, answer.content
    made: dict[str, Any] = answer.json()["server_group"]
    return made


OLD, NEW = {"id", "name", "members", "policies", "metadata"}, {"id", "name", "members", "policy", "rules"}
OWNER = {"project_id", "user_id"}


@each_row(
    ("version", "fields"),
    [
        ("2.1", OLD), ("2.12", OLD), ("2.13", OLD | OWNER), ("2.63", OLD | OWNER), ("2.64", NEW | OWNER),
        ("2.96", NEW | OWNER),
    ],
)  # fmt: skip
def test_fields_come_and_go_with_their_microversions(people: People, version: str, fields: set[str]) -> None:
    api = at(people, version)
    body = {"name": "web", "policy": "affinity"} if "policy" in fields else {"name": "web", "policies": ["affinity"]}
    made = api.post(GROUPS, {"server_group": body}).json()["server_group"]
    assert made.keys() == fields
    assert (made["name"], made["members"]) == ("web", [])
    assert made.get("policies", ["affinity"]) == ["affinity"]
    assert made.get("policy", "affinity") == "affinity"
    assert made.get("rules", {}) == made.get("metadata", {}) == {}
    if fields >= OWNER:
        assert (made["project_id"], made["user_id"]) == (people.alice.project_id.hex, people.alice.user_id.hex)
    assert api.get(f"{GROUPS}/{made['id']}").json() == {"server_group": made}
    assert api.get(GROUPS).json() == {"server_groups": [made]}
    assert api.delete(f"{GROUPS}/{made['id']}").status_code == 204
    assert api.get(f"{GROUPS}/{made['id']}").status_code == 404
    assert drift.find() == []


def test_a_rule_is_shown(people: People) -> None:
    made = make(at(people), rules={"max_server_per_host": "3"})
    assert made["rules"] == {"max_server_per_host": 3}
    assert at(people, "2.63").get(f"{GROUPS}/{made['id']}").json()["server_group"]["policies"] == ["anti-affinity"]


@each_row(
    ("version", "fields", "status"),
    [
        ("2.14", {"policies": ["soft-affinity"]}, 400),
        ("2.15", {"policies": ["soft-affinity"]}, 200),
        ("2.15", {"policies": ["soft-anti-affinity"]}, 200),
        ("2.1", {"policies": []}, 400),
        ("2.1", {"policies": ["affinity", "anti-affinity"]}, 400),
        ("2.1", {"policies": "affinity"}, 400),
        ("2.1", {"policies": ["legacy"]}, 400),
        ("2.1", {"policy": "affinity"}, 400),
        ("2.1", {"name": "", "policies": ["affinity"]}, 400),
        ("2.1", {"name": " x", "policies": ["affinity"]}, 400),
        ("2.1", {"name": "x" * 256, "policies": ["affinity"]}, 400),
        ("2.1", {"name": "a\nb", "policies": ["affinity"]}, 400),
        ("2.1", {"policies": ["affinity"], "metadata": {}}, 400),
        ("2.64", {"policies": ["affinity"]}, 400),
        ("2.64", {"policy": "soft-anti-affinity"}, 200),
        ("2.64", {"policy": "soft-anti-affinity", "rules": {}}, 200),
        ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 2}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 2**40}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "9999999999"}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": {"colour": "red"}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": None}, 400),
        ("2.64", {"policy": 5}, 400),
        ("2.64", {}, 400),
    ],
)
def test_what_may_be_asked_depends_on_the_version(
    people: People, version: str, fields: dict[str, Any], status: int
) -> None:
    answer = at(people, version).post(GROUPS, {"server_group": {"name": "web", **fields}})
    assert answer.status_code == status, answer.content
    assert ServerGroup.objects.count() == (status == 200)


# ----- whose they are -------------------------------------------------------------------------------------------------


def test_another_projects_group_does_not_exist(people: People) -> None:
    made = make(at(people))
    path = f"{GROUPS}/{made['id']}"
    charlie, bob, operator = (at(people, person=name) for name in ("charlie", "bob", "operator"))
    assert charlie.get(GROUPS).json() == {"server_groups": []}
    assert charlie.get(path).status_code == charlie.delete(path).status_code == 404
    assert bob.get(path).status_code == 200
    assert bob.delete(path).status_code == 403
    assert bob.post(GROUPS, {"server_group": {"name": "x", "policy": "affinity"}}).status_code == 403
    assert charlie.get(f"{GROUPS}?all_projects=True").json() == {"server_groups": []}
    assert operator.get(GROUPS).json() == {"server_groups": []}
    assert operator.get(f"{GROUPS}?all_projects=True").json() == {"server_groups": [made]}
    assert operator.delete(path).status_code == 204
    for ident in ("x", "5", uuid.uuid4(), "x" * 300):
        assert at(people).get(f"{GROUPS}/{ident}").status_code == 404


def test_pages_are_taken_by_limit_and_offset(people: People) -> None:
    api = at(people)
    for number in range(4):
        make(api, name=f"g{number}")

    def names(query: str) -> list[str]:
        return [each["name"] for each in api.get(f"{GROUPS}?{query}").json()["server_groups"]]

    assert names("limit=2") == ["g0", "g1"]
    assert names("limit=2&offset=1") == ["g1", "g2"]
    assert names("offset=3") == ["g3"]
    assert names("offset=9999999999") == []
    assert names("limit=1&limit=3") == ["g0", "g1", "g2"]
    assert len(names("limit=0")) == 4, "as in Nova's lists by offset"
    for wrong in ("limit=-1", "offset=x", "limit=1.5", "limit=", "offset=", "limit=1&limit=", "colour=red"):
        assert api.get(f"{GROUPS}?{wrong}").status_code == 400
    assert at(people, "2.74").get(f"{GROUPS}?colour=red").status_code == 200


def test_a_list_costs_the_same_however_many_there_are(people: People, django_assert_max_num_queries: Any) -> None:
    api = at(people)
    for number in range(6):
        make(api, name=f"g{number}")
    with django_assert_max_num_queries(3):
        assert len(api.get(GROUPS).json()["server_groups"]) == 6


@pytest.mark.both_databases("locks")
def test_a_group_counts_in_the_quota_until_it_is_deleted(people: People) -> None:
    api, project = at(people), people.alice.project_id
    set_limit(project, "server_groups", 1)
    made = make(api)
    assert usage_of(project)["server_groups"] == 1
    refused = api.post(GROUPS, {"server_group": {"name": "x", "policy": "affinity"}})
    assert refused.status_code == 403
    assert "server_groups" in refused.json()["forbidden"]["message"]
    api.delete(f"{GROUPS}/{made['id']}")
    assert usage_of(project)["server_groups"] == 0
    make(api)


# ----- members --------------------------------------------------------------------------------------------------------


def join(server: str, group: dict[str, Any]) -> str:
    Instance.objects.filter(id=server).update(server_group=group["id"])
    return server


def hinted(cloud: Cloud, group: object, **server: Any) -> dict[str, Any]:
    return server_body(cloud, **server) | {"os:scheduler_hints": {"group": group}}


@pytest.mark.both_databases("locks")
def test_a_launch_joins_the_group_that_its_hint_names(people: People, cloud: Cloud, api: Api) -> None:
    group = make(at(people))["id"]
    cloud.add_host("h2")
    made = [api.post(f"{V21}/servers", hinted(cloud, group)).json()["server"]["id"] for _ in range(3)]
    cloud.run()
    assert at(people).get(f"{GROUPS}/{group}").json()["server_group"]["members"] == made
    states = [api.get(f"{V21}/servers/{server}").json()["server"] for server in made]
    assert [state["status"] for state in states] == ["ACTIVE", "ACTIVE", "ERROR"]
    assert "2 hosts already have a server of the group" in states[2]["fault"]["message"]
    foreign = make(at(people, person="charlie"))["id"]
    for unknown in (foreign, str(uuid.uuid4())):
        refused = api.post(f"{V21}/servers", hinted(cloud, unknown))
        assert refused.status_code == 400
        assert "could not be found" in refused.json()["badRequest"]["message"]


def test_a_group_has_no_more_members_than_the_quota_says(people: People, cloud: Cloud, api: Api) -> None:
    group = make(at(people))["id"]
    set_limit(people.alice.project_id, "server_group_members", 2)
    refused = api.post(f"{V21}/servers", hinted(cloud, group, min_count=3, max_count=3))
    assert refused.status_code == 403
    assert "server_group_members" in refused.json()["forbidden"]["message"]
    assert not Instance.objects.exists()
    assert api.post(f"{V21}/servers", hinted(cloud, group, min_count=2, max_count=2)).status_code == 202
    assert api.post(f"{V21}/servers", hinted(cloud, group)).status_code == 403
    assert api.post(f"{V21}/servers", server_body(cloud)).status_code == 202


@pytest.mark.slow
def test_members_are_the_servers_that_are_not_deleted(people: People, cloud: Cloud, api: Api) -> None:
    group = make(at(people))
    kept, gone = (join(launch(api, cloud), group) for _ in range(2))
    path = f"{GROUPS}/{group['id']}"
    assert at(people).get(path).json()["server_group"]["members"] == [kept, gone]
    api.delete(f"{V21}/servers/{gone}")
    cloud.run()
    assert at(people).get(path).json()["server_group"]["members"] == [kept]
    assert at(people).get(GROUPS).json()["server_groups"][0]["members"] == [kept]
    assert at(people).delete(path).status_code == 204
    assert Instance.objects.get(id=kept).server_group is None
    assert Instance.objects.get(id=kept).vm_state == "active"


def test_a_launch_joins_its_projects_groups_only(people: People) -> None:
    group = make(at(people))
    assert str(group_for_launch(people.alice.context, group["id"]).id) == group["id"]
    for caller, ident in ((people.charlie, group["id"]), (people.alice, "x"), (people.alice, str(uuid.uuid4()))):
        with pytest.raises(InvalidInputError, match="could not be found"):
            group_for_launch(caller.context, ident)


# ----- hints ----------------------------------------------------------------------------------------------------------

ONE, TWO = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


def test_hints_that_are_obeyed_are_kept_in_one_form() -> None:
    hints = {"group": uuid.UUID(int=1).hex, "same_host": ONE, "different_host": [ONE, TWO], "com.example:own": "x"}
    assert check_hints(hints) == {"group": ONE, "same_host": [ONE], "different_host": [ONE, TWO]}
    assert check_hints({}) == {}


@each_row(
    ("hints", "field"),
    [
        ({"group": "x"}, "group"),
        ({"group": [ONE]}, "group"),
        ({"same_host": 5}, "same_host"),
        ({"same_host": None}, "same_host"),
        ({"different_host": [ONE, "x"]}, "different_host"),
        ({"different_host": [ONE] * 1001}, "different_host"),
        ({"query": "[>=,$free_ram_mb,1024]"}, "query"),
        ({"build_near_host_ip": "192.168.1.1", "cidr": "/24"}, "build_near_host_ip"),
    ],
)
def test_hints_that_are_wrong_or_not_offered_are_refused(hints: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_hints(hints)
    assert refused.value.field == field


@pytest.mark.slow
@pytest.mark.parametrize(("hint", "together"), [("same_host", True), ("different_host", False)])
def test_a_hint_names_servers_to_be_with_or_apart_from(
    people: People, cloud: Cloud, api: Api, hint: str, together: bool
) -> None:
    for number in range(4):
        cloud.add_host(f"more-{number}")
    first = Instance.objects.get(id=launch(api, cloud))
    for _ in range(4):
        second = cloud.launch(people.alice.context, name="x")
        Instance.objects.filter(id=second.id).update(scheduler_hints={hint: [str(first.id)]})
        cloud.run()
        assert (cloud.fresh(second).host_id == first.host_id) is together


def test_another_projects_servers_are_nobodys_neighbours(people: People, cloud: Cloud, api: Api) -> None:
    foreign = launch(Api(people.charlie), cloud)
    second = cloud.launch(people.alice.context, name="x")
    Instance.objects.filter(id=second.id).update(scheduler_hints={"same_host": [foreign]})
    cloud.run()
    assert cloud.fresh(second).vm_state == "error"


def test_a_requested_host_is_the_only_one_that_will_do(people: People, cloud: Cloud) -> None:
    cloud.add_host("tiny", memory_mb=1024)
    for expected in ("active", "error"):
        server = cloud.launch(people.alice.context, name="x")
        Instance.objects.filter(id=server.id).update(requested_host="tiny")
        cloud.run()
        assert cloud.fresh(server).vm_state == expected
    assert "0 have enough memory: 1 GiB requested" in server.faults.get().message
