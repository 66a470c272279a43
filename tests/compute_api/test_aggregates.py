"""Aggregates: hosts put together, their metadata and zones, and sizes that ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from portal.api.compute.dialect import MICROVERSIONS
from portal.api.compute.resources.aggregates import ACTION, AGGREGATE, UPDATE
from portal.api.frame.resource import new_body
from provisioning.compute.models import Aggregate, Flavor, Instance
from provisioning.hosts.models import Host
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import derived, standing
from tests.support.tables import each_row, taken

pytestmark = pytest.mark.django_db
AGGREGATES = f"{V21}/os-aggregates"
NEW = {"id", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at"}


def at(people: People, version: str = "2.1") -> Api:
    return Api(people.operator, **{"OpenStack-API-Version": f"compute {version}"})


@pytest.fixture
@derived
def operator(people: People) -> Api:
    return at(people)


def make(api: Api, name: str = "rack", zone: str | None = None, hosts: tuple[str, ...] = ()) -> int:
    answer = api.post(AGGREGATES, {"aggregate": {"name": name, "availability_zone": zone}})
    assert answer.status_code == 200, answer.content
    number = int(answer.json()["aggregate"]["id"])
    for host in hosts:
        assert act(api, number, "add_host", host=host).status_code == 200
    return number


def act(api: Api, number: object, action: str, **fields: Any) -> Any:
    return api.post(f"{AGGREGATES}/{number}/action", {action: fields})


def zone_of(name: str) -> str:
    return Host.objects.get(name=name).availability_zone


@pytest.mark.both_databases("locks")
def test_an_aggregate_lives(people: People, cloud: Cloud, operator: Api) -> None:
    answer = operator.post(AGGREGATES, {"aggregate": {"name": "rack", "availability_zone": "london"}})
    made = answer.json()["aggregate"]
    assert made.keys() == NEW
    assert (made["name"], made["availability_zone"], made["deleted"], made["deleted_at"]) == (
        "rack", "london", False, None,
    )  # fmt: skip
    assert made["updated_at"] is None
    path = f"{AGGREGATES}/{made['id']}"
    whole = made | {"hosts": [], "metadata": {"availability_zone": "london"}}
    assert operator.get(path).json() == {"aggregate": whole}
    assert operator.get(AGGREGATES).json() == {"aggregates": [whole]}
    changed = operator.put(path, {"aggregate": {"name": "row"}}).json()["aggregate"]
    assert (changed["name"], changed["availability_zone"]) == ("row", "london")
    assert changed["updated_at"] is not None
    changed = operator.put(path, {"aggregate": {"availability_zone": None}}).json()["aggregate"]
    assert (changed["name"], changed["availability_zone"], changed["metadata"]) == ("row", None, {})
    deleted = operator.delete(path)
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert operator.get(path).status_code == 404


def test_the_uuid_is_there_from_2_41(people: People, cloud: Cloud) -> None:
    number = make(at(people))
    for version, there in (("2.40", False), ("2.41", True), ("2.96", True)):
        api = at(people, version)
        assert ("uuid" in api.get(f"{AGGREGATES}/{number}").json()["aggregate"]) is there
        assert ("uuid" in api.get(AGGREGATES).json()["aggregates"][0]) is there
        made = api.post(AGGREGATES, {"aggregate": {"name": version}}).json()["aggregate"]
        assert made.keys() == NEW | ({"uuid"} if there else set())


def test_only_operators_see_and_change_aggregates(people: People, cloud: Cloud, operator: Api) -> None:
    number = make(operator)
    for person in (people.alice, people.bob, people.charlie):
        api = Api(person)
        assert api.get(AGGREGATES).status_code == 403
        assert api.post(AGGREGATES, {"aggregate": {"name": "x"}}).status_code == 403
        assert api.get(f"{AGGREGATES}/{number}").status_code == 403
        assert api.put(f"{AGGREGATES}/{number}", {"aggregate": {"name": "x"}}).status_code == 403
        assert api.delete(f"{AGGREGATES}/{number}").status_code == 403
        assert act(api, number, "add_host", host="h1").status_code == 403
    assert Aggregate.objects.get().name == "rack"


def test_bodies_that_the_schemas_refuse() -> None:
    names = [{}, {"name": ""}, {"name": " rack"}, {"name": "x" * 256}, {"name": "x", "colour": "red"}]
    zones = [{"name": "x", "availability_zone": zone} for zone in ("", "a:b")]
    create = new_body(AGGREGATE)(MICROVERSIONS.minimum)
    assert taken(create, [{"aggregate": fields} for fields in (*names, *zones)]) == []
    assert taken(UPDATE, [{"aggregate": {}}, {"aggregate": {"name": None}}]) == []
    metadata = [{"a": 1}, {"": "x"}, {"a/b": "x"}, {"a": "x" * 256}]
    actions = [
        {},
        [],
        {"add_host": {"host": "h1"}, "remove_host": {"host": "h1"}},
        {"paint": {}},
        {"add_host": {}},
        {"add_host": {"host": "a b"}},
        {"set_metadata": {}},
        *({"set_metadata": {"metadata": pairs}} for pairs in metadata),
    ]
    assert taken(ACTION, actions) == []


@pytest.fixture
@standing
def two(cloud: Cloud, operator: Api) -> tuple[int, int]:
    return make(operator), make(operator, "other")


@each_row(
    ("method", "tail", "body", "status"),
    [
        ("post", "", {"aggregate": {"name": ""}}, 400),
        ("post", "", {"aggregate": {"name": "rack"}}, 409),
        ("post", "", {"aggregate": {"name": "x", "availability_zone": "a:b"}}, 400),
        ("put", "/{id}", {"aggregate": {"name": None}}, 400),
        ("put", "/{other}", {"aggregate": {"name": "rack"}}, 409),
        ("put", "/999", {"aggregate": {"name": "x"}}, 404),
        ("put", "/99999999999999999999", {"aggregate": {"name": "x"}}, 404),
        ("put", "/x", {"aggregate": {"name": "x"}}, 400),
        ("get", "/x", None, 400),
        ("get", "/999", None, 404),
        ("delete", "/999", None, 404),
        ("delete", "/-1", None, 404),
        ("put", "/0", {"aggregate": {"name": "x"}}, 404),
        ("get", "/-99999999999999999999", None, 404),
        ("get", "/1.0", None, 400),
        ("post", "/{id}/action", [], 400),
        ("post", "/{id}/action", {"add_host": {"host": "nowhere"}}, 404),
        ("post", "/999/action", {"add_host": {"host": "h1"}}, 404),
        ("post", "/{id}/action", {"remove_host": {"host": "h1"}}, 404),
        ("post", "/{id}/action", {"set_metadata": {"metadata": {"availability_zone": ""}}}, 400),
    ],
)
def test_what_is_wrong_is_reported(
    operator: Api, two: tuple[int, int], method: str, tail: str, body: object, status: int
) -> None:
    path = AGGREGATES + tail.format(id=two[0], other=two[1])
    answer = getattr(operator, method)(path, *([] if body is None else [body]))
    assert answer.status_code == status, answer.content
    assert list(Aggregate.objects.order_by("id").values_list("name", flat=True)) == ["rack", "other"]


def test_metadata_is_added_changed_and_removed(cloud: Cloud, operator: Api) -> None:
    number = make(operator)
    metadata = {"ssd": "true", "rack": "1"}
    assert act(operator, number, "set_metadata", metadata=metadata).json()["aggregate"]["metadata"] == metadata
    answer = act(operator, number, "set_metadata", metadata={"rack": None, "row": "2", "never": None})
    assert answer.json()["aggregate"]["metadata"] == {"ssd": "true", "row": "2"}
    zoned = act(operator, number, "set_metadata", metadata={"availability_zone": "moon"}).json()["aggregate"]
    assert (zoned["availability_zone"], zoned["metadata"]["availability_zone"]) == ("moon", "moon")
    hidden = act(operator, number, "set_metadata", metadata={"availability_zone": "internal"})
    assert hidden.status_code == 200, "Nova reserves no name"
    bare = act(operator, number, "set_metadata", metadata={"availability_zone": None}).json()["aggregate"]
    assert (bare["availability_zone"], bare["metadata"]) == (None, {"ssd": "true", "row": "2"})


def test_a_host_follows_the_zone_of_its_aggregate(cloud: Cloud, operator: Api) -> None:
    cloud.add_host("h2")
    number = make(operator, zone="moon")
    added = act(operator, number, "add_host", host="h1").json()["aggregate"]
    assert added["hosts"] == ["h1"]
    assert (zone_of("h1"), zone_of("h2")) == ("moon", "nova")
    assert act(operator, number, "add_host", host="h1").status_code == 409
    operator.put(f"{AGGREGATES}/{number}", {"aggregate": {"availability_zone": "mars"}})
    assert zone_of("h1") == "mars"
    act(operator, number, "set_metadata", metadata={"availability_zone": None})
    assert zone_of("h1") == "nova"
    act(operator, number, "set_metadata", metadata={"availability_zone": "moon"})
    assert zone_of("h1") == "moon"
    assert operator.delete(f"{AGGREGATES}/{number}").status_code == 400, "it has a host"
    removed = act(operator, number, "remove_host", host="h1").json()["aggregate"]
    assert (removed["hosts"], zone_of("h1")) == ([], "nova")
    assert operator.delete(f"{AGGREGATES}/{number}").status_code == 200


@pytest.mark.both_databases("locks")
def test_an_aggregate_without_a_zone_moves_no_host(cloud: Cloud, operator: Api) -> None:
    Host.objects.update(availability_zone="by-hand")
    number = make(operator, hosts=("h1",))
    assert zone_of("h1") == "by-hand"
    act(operator, number, "remove_host", host="h1")
    assert zone_of("h1") == "by-hand"


def test_no_host_is_in_two_zones(cloud: Cloud, operator: Api) -> None:
    make(operator, "a", "moon", ("h1",))
    mars, again, none = make(operator, "b", "mars"), make(operator, "c", "moon"), make(operator, "d")
    answer = act(operator, mars, "add_host", host="h1")
    assert answer.status_code == 409
    assert "already in availability zone(s) moon" in answer.json()["conflictingRequest"]["message"]
    assert act(operator, again, "add_host", host="h1").status_code == 200
    assert act(operator, none, "add_host", host="h1").status_code == 200
    assert operator.put(f"{AGGREGATES}/{none}", {"aggregate": {"availability_zone": "mars"}}).status_code == 400
    assert act(operator, again, "set_metadata", metadata={"availability_zone": "mars"}).status_code == 400
    assert act(operator, again, "remove_host", host="h1").status_code == 200
    assert zone_of("h1") == "moon", "the first aggregate keeps it there"


@pytest.mark.slow
def test_no_server_changes_its_zone(cloud: Cloud, operator: Api, api: Api) -> None:
    zoned, plain = make(operator, "a", "moon"), make(operator, "b", hosts=("h1",))
    server = launch(api, cloud)
    answer = act(operator, zoned, "add_host", host="h1")
    assert answer.status_code == 409
    assert "would change their availability zone" in answer.json()["conflictingRequest"]["message"]
    assert operator.put(f"{AGGREGATES}/{plain}", {"aggregate": {"availability_zone": "x"}}).status_code == 400
    assert act(operator, plain, "remove_host", host="h1").status_code == 200, "it has no zone to leave"
    assert not Aggregate.objects.get(pk=zoned).hosts.exists()
    assert zone_of("h1") == "nova"
    api.delete(f"{V21}/servers/{server}")
    cloud.run()
    assert act(operator, zoned, "add_host", host="h1").status_code == 200
    launch(api, cloud)
    assert act(operator, zoned, "remove_host", host="h1").status_code == 409
    assert act(operator, zoned, "set_metadata", metadata={"availability_zone": None}).status_code == 400
    assert zone_of("h1") == "moon"
    assert Aggregate.objects.get(pk=zoned).availability_zone == "moon"


@pytest.mark.slow
def test_servers_are_launched_into_the_zone_of_an_aggregate(cloud: Cloud, operator: Api, api: Api) -> None:
    cloud.add_host("h2")
    make(operator, zone="moon", hosts=("h2",))
    names = [zone["zoneName"] for zone in api.get(f"{V21}/os-availability-zone").json()["availabilityZoneInfo"]]
    assert names == ["moon", "nova"]
    server = launch(api, cloud, availability_zone="moon")
    assert Instance.objects.select_related("host").get(id=server).host.name == "h2"  # type: ignore[union-attr]


@pytest.mark.both_databases("locks")
def test_a_size_asks_for_the_metadata_of_aggregates(cloud: Cloud, operator: Api, api: Api) -> None:
    cloud.add_host("h2")
    number = make(operator, hosts=("h2",))
    act(operator, number, "set_metadata", metadata={"ssd": "true"})
    Flavor.objects.filter(flavorid="1").update(extra_specs={"aggregate_instance_extra_specs:ssd": "true", "other": "x"})
    for _ in range(3):
        server = launch(api, cloud)
        assert Instance.objects.select_related("host").get(id=server).host.name == "h2"  # type: ignore[union-attr]
    act(operator, number, "set_metadata", metadata={"ssd": None})
    failed = Instance.objects.get(id=launch(api, cloud))
    assert failed.vm_state == "error"
    assert "2 hosts are not in an aggregate that the size requires (ssd)" in failed.faults.get().message


@each_row(
    ("version", "body", "status"),
    [
        ("2.80", {"cache": [{"id": "00000000-0000-0000-0000-000000000001"}]}, 404),
        ("2.81", {"cache": [{"id": "00000000-0000-0000-0000-000000000001"}]}, 400),
        ("2.81", {"cache": []}, 400),
        ("2.81", {"cache": [{"id": "x"}]}, 400),
        ("2.81", {"cache": [{"id": "00000000-0000-0000-0000-000000000001"}] * 2}, 400),
    ],
)
def test_fetching_images_beforehand_is_answered_as_not_offered(
    people: People, cloud: Cloud, version: str, body: dict[str, Any], status: int
) -> None:
    number = make(at(people))
    answer = at(people, version).post(f"{AGGREGATES}/{number}/images", body)
    assert answer.status_code == status
    assert (
        at(people, "2.81").post(f"{AGGREGATES}/999/images", {"cache": [{"id": str(cloud.image.id)}]}).status_code == 404
    )


@pytest.mark.slow
def test_a_list_costs_the_same_however_many_there_are(
    cloud: Cloud, operator: Api, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        cloud.add_host(f"more-{number}")
        make(operator, f"rack {number}", hosts=("h1", f"more-{number}"))
    with django_assert_max_num_queries(4):
        assert len(operator.get(AGGREGATES).json()["aggregates"]) == 5
