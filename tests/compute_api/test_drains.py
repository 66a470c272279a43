"""``/novella-drains``: plans, and drains that are begun, followed and changed."""

from __future__ import annotations

from typing import Any

import pytest

from portal.api.compute.resources import migrations
from provisioning.compute.actions.registry import ways
from provisioning.drains import execution
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import derived

PATH = "/compute/v2.1/novella-drains"


@pytest.fixture
@derived
def operator_api(people: People) -> Api:
    return Api(people.operator)


def test_a_plan_changes_nothing(operator_api: Api, cloud: Cloud, server: str) -> None:
    host = "h1"
    plan = operator_api.get(f"{PATH}/plan?host={host}").json()["plan"]
    [move] = plan["servers"]
    assert (move["server_id"], move["way"], move["blocked"]) == (server, None, True)
    assert move["reason"]
    [move] = operator_api.get(f"{PATH}/plan?host={host}&ways=stop").json()["plan"]["servers"]
    assert (move["way"], move["seconds"] > 0) == ("stop", True)
    assert operator_api.get(PATH).json() == {"drains": []}
    assert operator_api.get(f"{PATH}/plan?host=nowhere").status_code == 404
    assert operator_api.get(f"{PATH}/plan?host={host}&ways=evacuate").status_code == 400
    assert operator_api.get(f"{PATH}/plan").status_code == 400


def test_a_drain_is_begun_followed_and_changed(operator_api: Api, cloud: Cloud, server: str) -> None:
    host = "h1"
    answer = operator_api.post(PATH, {"drain": {"host": host, "ways": ["stop"], "reason": "disk"}})
    assert answer.status_code == 202
    one = f"{PATH}/{answer.json()['drain']['id']}"
    assert operator_api.post(PATH, {"drain": {"host": host}}).status_code == 409
    for verb, state in (("pause", "paused"), ("resume", "running")):
        assert operator_api.post(f"{one}/action", {verb: None}).json()["drain"]["state"] == state
    cloud.run()
    execution.run_all()
    drain = operator_api.get(one).json()["drain"]
    assert (drain["state"], drain["progress"]["done"], drain["servers"][0]["state"]) == ("finished", 1, "done")
    assert operator_api.post(f"{one}/action", {"cancel": None}).status_code == 409
    assert operator_api.post(f"{one}/action", {"return": None}).status_code == 409  # still in maintenance
    assert [each["id"] for each in operator_api.get(PATH).json()["drains"]] == [drain["id"]]


def test_wrong_bodies_are_refused(operator_api: Api, cloud: Cloud, server: str) -> None:
    host = "h1"
    bodies: list[dict[str, Any]] = [
        {},
        {"drain": {}},
        {"drain": {"host": host, "ways": ["fly"]}},
        {"drain": {"host": host, "ways": ["stop", "stop"]}},
        {"drain": {"host": host, "reason": "x" * 256}},
    ]
    assert [operator_api.post(PATH, body).status_code for body in bodies] == [400] * len(bodies)
    assert operator_api.get(f"{PATH}/nonsense").status_code == 404
    assert operator_api.post(f"{PATH}/nonsense/action", {"pause": None}).status_code == 404
    assert operator_api.post(f"{PATH}/nonsense/action", {"pause": None, "cancel": None}).status_code == 400


def test_every_way_can_be_requested() -> None:
    assert set(ways()) <= set(migrations.WAY["enum"])
