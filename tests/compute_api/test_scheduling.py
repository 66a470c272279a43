"""``GET /servers/{id}/novella-scheduling``: how a place was found, with hosts for operators only."""

from __future__ import annotations

import uuid

import pytest

from provisioning.compute.models import Instance, SchedulingDecision
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
OWNER = {
    "attempt", "action", "driver", "created_at", "seconds", "asked", "hosts", "suitable", "found", "filters",
    "sentence", "failure",
}  # fmt: skip
OPERATOR = OWNER | {"host", "weights", "losses"}


def path(server: str) -> str:
    return f"{V21}/servers/{server}/novella-scheduling"


def test_the_owner_is_notified_without_hosts_and_the_operator_with(api: Api, people: People, cloud: Cloud) -> None:
    cloud.add_host("tiny-1", memory_mb=512)
    cloud.add_host("tiny-2", memory_mb=512)
    server = launch(api, cloud)
    answer = api.get(path(server))
    (decision,) = answer.json()["decisions"]
    assert decision.keys() == OWNER
    assert (decision["attempt"], decision["action"], decision["driver"]) == (1, "create", "filter")
    assert (decision["hosts"], decision["suitable"], decision["found"]) == (3, 1, True)
    assert decision["asked"]["memory_mb"] == 1024
    (memory,) = [check for check in decision["filters"] if check["name"] == "RamFilter"]
    assert memory.keys() == {"name", "before", "after", "reason", "asked", "most", "unit"}
    assert (memory["before"], memory["after"], memory["asked"], memory["unit"]) == (3, 1, 1024, "MiB")
    assert "3 hosts → 1 has enough memory" in decision["sentence"]
    for name in ("h1", "tiny"):
        assert name not in answer.content.decode()

    (whole,) = Api(people.operator).get(path(server)).json()["decisions"]
    assert whole.keys() == OPERATOR
    assert whole["host"] == "h1"
    assert [item["host"] for item in whole["weights"]] == ["h1"]
    assert sorted(whole["losses"]["RamFilter"]) == ["tiny-1", "tiny-2"]
    assert {key: whole[key] for key in OWNER} == decision


@pytest.mark.slow
def test_no_host_says_why(api: Api, cloud: Cloud) -> None:
    server = launch(api, cloud, flavorRef="2", min_count=1, max_count=1)
    launch(api, cloud, flavorRef="2")
    third = launch(api, cloud, flavorRef="2")
    assert api.get(path(server)).json()["decisions"][0]["found"] is True
    (decision,) = api.get(path(third)).json()["decisions"]
    assert (decision["found"], decision["suitable"]) == (False, 0)
    assert "1 host → 0 have enough" in decision["sentence"]
    assert decision["filters"][-1]["after"] == 0


def test_attempts_are_newest_first(api: Api, people: People, cloud: Cloud, server: str) -> None:
    first = SchedulingDecision.objects.get(instance_id=server)
    SchedulingDecision.objects.create(instance_id=server, attempt=2, filters=first.filters, seconds=0.001)
    assert [item["attempt"] for item in api.get(path(server)).json()["decisions"]] == [2, 1]


def test_before_a_decision_there_is_none(api: Api, people: People, cloud: Cloud) -> None:
    server = str(cloud.launch(people.alice.context).id)
    assert api.get(path(server)).json() == {"decisions": []}


def test_of_a_deleted_server_operators_are_notified(api: Api, people: People, cloud: Cloud, server: str) -> None:
    api.delete(f"{V21}/servers/{server}")
    cloud.run()
    assert Instance.objects.get(id=server).deleted_at
    assert api.get(path(server)).status_code == 404
    assert len(Api(people.operator).get(path(server)).json()["decisions"]) == 1


def test_what_there_is_not_and_what_is_others_is_404(api: Api, people: People, cloud: Cloud, server: str) -> None:
    assert Api(people.charlie).get(path(server)).status_code == 404
    for name in (str(uuid.uuid4()), "nonsense", "%00", "9" * 300):
        assert api.get(path(name)).status_code == 404
    assert Api(people.bob).get(path(server)).status_code == 200
