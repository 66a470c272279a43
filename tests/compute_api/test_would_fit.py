"""``POST /novella-would-fit``: the scheduler asked without a launch."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.compute.models import Instance, ServerGroup
from provisioning.images.models import Image
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
PATH = f"{V21}/novella-would-fit"


def ask(api: Api, **fields: Any) -> dict[str, Any]:
    answer = api.post(PATH, {"would_fit": fields})
    assert answer.status_code == 200, answer.content
    result: dict[str, Any] = answer.json()["would_fit"]
    return result


def refused(api: Api, **fields: Any) -> str:
    answer = api.post(PATH, {"would_fit": fields})
    assert answer.status_code == 400, answer.content
    message: str = answer.json()["badRequest"]["message"]
    return message


def test_how_many_of_a_flavor(api: Api, cloud: Cloud) -> None:
    answer = ask(api, flavorRef="1")
    assert answer.keys() == {"fits", "most", "asked", "quota", "sentence", "filters"}
    assert answer["quota"] == 10
    assert (answer["fits"], answer["asked"]) == (8, 1)
    assert answer["most"] >= 8
    assert ask(api, flavorRef=2)["fits"] == 2


@pytest.mark.slow
def test_it_is_what_launches_then_find(api: Api, cloud: Cloud) -> None:
    """As many as it says find a place, and the next one does not, for the reason it gave."""
    foretold = ask(api, flavorRef="2", count=3)
    servers = [launch(api, cloud, flavorRef="2") for _ in range(3)]
    result = [Instance.objects.get(id=server).vm_state for server in servers]
    assert result.count("active") == foretold["fits"] == 2
    decision = api.get(f"{V21}/servers/{servers[-1]}/novella-scheduling").json()["decisions"][0]
    assert decision["filters"][-1]["name"] == foretold["filters"][-1]["name"]
    assert ask(api, flavorRef="2")["fits"] == 0


def test_nothing_is_written(api: Api, cloud: Cloud) -> None:
    with CaptureQueriesContext(connection) as queries:
        ask(api, flavorRef="1", count=5)
    reading = {"SELECT", "WITH", "SAVEPOINT", "RELEASE"}
    assert not [query["sql"] for query in queries if query["sql"].split()[0] not in reading]
    assert not Instance.objects.exists()


def test_operators_ask_for_amounts(api: Api, people: People, cloud: Cloud) -> None:
    operator = Api(people.operator)
    assert ask(operator, vcpus=1, ram=1024, disk=2)["fits"] == ask(api, flavorRef="1")["fits"]
    answer = ask(operator, vcpus=1, ram=1 << 20, disk=2)
    assert answer["fits"] == 0
    assert answer["filters"][-1]["name"] == "RamFilter"
    assert "1024 GiB requested" in answer["sentence"]
    assert api.post(PATH, {"would_fit": {"vcpus": 1, "ram": 1024, "disk": 2}}).status_code == 403


def test_the_image_s_size_counts_where_the_flavor_has_none(api: Api, people: People, cloud: Cloud) -> None:
    Image.objects.filter(id=cloud.image.id).update(virtual_size=5000 << 30)
    cloud.small.root_gb = 0
    cloud.small.save(update_fields=["root_gb"])
    assert ask(api, flavorRef="1")["fits"] == 8
    operator = Api(people.operator)  # members launch such a flavor on volumes only
    assert ask(operator, flavorRef="1", imageRef=str(cloud.image.id))["fits"] == 0


def test_a_group_is_obeyed(api: Api, people: People, cloud: Cloud) -> None:
    cloud.add_host("h2")
    group = ServerGroup.objects.create(
        project_id=people.alice.project_id, user_id=people.alice.user_id, name="g", policy="anti-affinity"
    )
    assert ask(api, flavorRef="1", count=5, group=str(group.id))["fits"] == 2
    assert ask(api, flavorRef="1", count=5, **{"os:scheduler_hints": {"group": str(group.id)}})["fits"] == 2
    assert "could not be found" in refused(Api(people.charlie), flavorRef="1", group=str(group.id))


def test_a_zone(api: Api, cloud: Cloud) -> None:
    assert ask(api, flavorRef="1", availability_zone="nova")["fits"] == 8
    assert "zone" in refused(api, flavorRef="1", availability_zone="moon")


def test_hosts_are_for_operators(api: Api, people: People, cloud: Cloud) -> None:
    cloud.add_host("h2")
    operator = Api(people.operator)
    hosts = {item["host"]: item["servers"] for item in ask(operator, flavorRef="1", count=4)["hosts"]}
    assert hosts.keys() == {"h1", "h2"}
    assert ask(operator, flavorRef="2", host="h2", count=4)["hosts"] == [{"host": "h2", "servers": 2}]
    assert api.post(PATH, {"would_fit": {"flavorRef": "1", "host": "h2"}}).status_code == 403
    assert "h2" not in api.post(PATH, {"would_fit": {"flavorRef": "1"}}).content.decode()
    assert "nowhere" in refused(operator, flavorRef="1", host="nowhere")


@each_row(
    ("fields", "word"),
    [
        ({}, "flavorRef"),
        ({"vcpus": 1, "ram": 1}, "disk"),
        ({"flavorRef": "1", "ram": 1}, "ram"),
        ({"flavorRef": "99"}, "99"),
        ({"flavorRef": "1", "imageRef": str(uuid.uuid4())}, "mage"),
        ({"flavorRef": "1", "imageRef": "\0"}, ""),
        ({"flavorRef": "\0"}, ""),
        ({"flavorRef": "1", "availability_zone": "\0"}, ""),
        ({"flavorRef": "1", "group": "x"}, "group"),
        ({"flavorRef": "1", "count": 0}, "count"),
        ({"flavorRef": "1", "count": 10**20}, "count"),
        ({"flavorRef": "1", "count": 2_000_000_000}, "count"),
        ({"flavorRef": ["1"]}, "flavorRef"),
        ({"flavorRef": "1", "os:scheduler_hints": []}, "hints"),
        ({"flavorRef": "1", "os:scheduler_hints": {"group": "x"}}, "group"),
        ({"flavorRef": "1", "os:scheduler_hints": {"same_host": ["x"]}}, "same_host"),
        ({"vcpus": -1, "ram": 1, "disk": 1}, "vcpus"),
        ({"vcpus": 1, "ram": 1, "disk": 10**12}, "disk"),
        ({"flavorRef": "1", "name": "x"}, "name"),
    ],
)
def test_what_is_wrong_is_named(api: Api, cloud: Cloud, fields: dict[str, Any], word: str) -> None:
    assert word in refused(api, **fields)


@each_row("body", [None, [], {}, {"would_fit": None}, {"would_fit": []}, {"other": {}}, "x"])
def test_a_body_that_is_none(api: Api, cloud: Cloud, body: Any) -> None:
    assert api.post(PATH, body).status_code == 400


def test_a_reader_may_ask(people: People, cloud: Cloud) -> None:
    assert ask(Api(people.bob), flavorRef="1")["fits"] == 8
