"""What other services tell about servers (Compute API reference, "Create external events")."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.roles import ensure_role
from tests.compute_api.conftest import V21, launch, put_server
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import derived
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

NOBODY = "5f1d2c3b-0000-4000-8000-000000000001"


@pytest.fixture
@derived
def root(people: People) -> Api:
    return Api(people.operator)


def tell(api: Api, *events: dict[str, Any], version: str = "2.96") -> Any:
    headers = {"OpenStack-API-Version": f"compute {version}"}
    return api.post(f"{V21}/os-server-external-events", {"events": list(events)}, **headers)


def status_of(api: Api, ident: str) -> str:
    return str(api.get(f"{V21}/servers/{ident}").json()["server"]["status"])


def test_each_event_has_its_own_answer(api: Api, root: Api, cloud: Cloud, people: People) -> None:
    there, nowhere = launch(api, cloud), str(put_server(people.alice, "lost").id)
    answer = tell(root, {"name": "network-changed", "server_uuid": there})
    assert (answer.status_code, answer.json()) == (
        200,
        {"events": [{"name": "network-changed", "server_uuid": there, "status": "completed", "code": 200}]},
    )
    answer = tell(
        root,
        {"name": "network-vif-plugged", "server_uuid": there, "tag": "p", "status": "in-progress"},
        {"name": "network-vif-plugged", "server_uuid": NOBODY, "status": "completed"},
        {"name": "network-vif-deleted", "server_uuid": nowhere},
        {"name": "volume-extended", "server_uuid": there},
        {"name": "power-update", "server_uuid": there},
    )
    assert answer.status_code == 207
    shown = [(event["code"], event["status"]) for event in answer.json()["events"]]
    assert shown == [(200, "completed"), (404, "failed"), (422, "failed"), (400, "failed"), (400, "failed")]
    kept = [row.payload for row in Event.objects.filter(kind="compute.instance.external_event").order_by("id")]
    assert [(each["instance_id"], each["name"], each["status"], each["tag"]) for each in kept] == [
        (there, "network-changed", "completed", None),
        (there, "network-vif-plugged", "in-progress", "p"),
    ]


def test_events_for_nobody_at_all(root: Api, cloud: Cloud) -> None:
    answer = tell(root, {"name": "network-changed", "server_uuid": NOBODY})
    assert (answer.status_code, answer.json()["events"][0]["code"]) == (207, 404)


@each_row(
    ("name", "before", "since"),
    [
        ("volume-extended", "2.50", "2.51"),
        ("power-update", "2.75", "2.76"),
        ("accelerator-request-bound", "2.81", "2.82"),
        ("volume-reimaged", "2.92", "2.93"),
    ],
)
def test_names_come_with_microversions(root: Api, cloud: Cloud, name: str, before: str, since: str) -> None:
    event = {"name": name, "server_uuid": NOBODY, "tag": "x"}
    assert tell(root, event, version=before).status_code == 400
    assert tell(root, event, version=since).status_code == 207


@pytest.mark.slow
def test_the_power_of_a_server_follows(api: Api, root: Api, cloud: Cloud, server: str) -> None:
    off, on = ({"name": "power-update", "server_uuid": server, "tag": f"POWER_{way}"} for way in ("OFF", "ON"))
    assert tell(root, on).status_code == 200
    assert cloud.agents["h1"].take() == []
    assert tell(root, off, off, off | {"tag": "POWER_SIDEWAYS"}).status_code == 200
    cloud.run()
    assert status_of(api, server) == "SHUTOFF"
    assert cloud.agents["h1"].guests[server][1] == 4
    assert tell(root, off).status_code == 200
    assert tell(root, on).status_code == 200
    cloud.run()
    assert status_of(api, server) == "ACTIVE"
    api.post(f"{V21}/servers/{server}/action", {"pause": None})
    assert tell(root, off).status_code == 200
    cloud.run()
    assert status_of(api, server) == "PAUSED"


def test_services_switch_servers_of_every_project(people: People, api: Api, cloud: Cloud, server: str) -> None:
    ensure_role("service")
    assign_role(people.charlie.user, people.charlie.project, "service")
    event = {"name": "power-update", "server_uuid": server, "tag": "POWER_OFF"}
    assert tell(Api(people.charlie), event).status_code == 200
    cloud.run()
    assert status_of(api, server) == "SHUTOFF"


@each_row(
    "event",
    [
        {},
        {"name": "network-changed"},
        {"server_uuid": NOBODY},
        {"name": "something", "server_uuid": NOBODY},
        {"name": "network-changed", "server_uuid": "x"},
        {"name": "network-changed", "server_uuid": NOBODY, "status": "well"},
        {"name": "network-changed", "server_uuid": NOBODY, "tag": "x" * 256},
        {"name": "network-changed", "server_uuid": NOBODY, "tag": None},
        {"name": "network-changed", "server_uuid": NOBODY, "more": 1},
    ],
)
def test_what_is_no_event(root: Api, cloud: Cloud, event: dict[str, Any]) -> None:
    assert tell(root, event).status_code == 400


def test_what_is_no_list_of_events(root: Api, cloud: Cloud) -> None:
    for body in ({}, {"events": []}, {"events": {}}, {"events": [1]}, [], None):
        assert root.post(f"{V21}/os-server-external-events", body).status_code == 400
