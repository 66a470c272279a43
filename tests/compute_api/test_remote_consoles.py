"""``/servers/{id}/remote-consoles``, its older actions, and ``/os-console-auth-tokens``."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from provisioning.compute.models import ConsoleToken, Instance
from provisioning.compute.services.remote_consoles import use_token
from tests.compute_api.conftest import V21
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

ACTIONS = [
    ("os-getVNCConsole", "novnc"),
    ("os-getSerialConsole", "serial"),
    ("os-getVNCConsole", "xvpvnc"),
    ("os-getSPICEConsole", "spice-html5"),
    ("os-getRDPConsole", "rdp-html5"),
]


@pytest.fixture
@standing
def server(people: People) -> Instance:
    """Alice's, running."""
    cloud = Cloud.make()
    cloud.add_host("h1")
    launched = cloud.launch(people.alice.context)
    cloud.run()
    return cloud.fresh(launched)


def send(person: Person, path: str, body: Any, version: str = "2.96") -> Any:
    headers = {**person.headers, "OpenStack-API-Version": f"compute {version}"}
    return Client().post(f"{V21}{path}", body, content_type="application/json", headers=headers)


def look(person: Person, path: str, version: str = "2.96") -> Any:
    headers = {**person.headers, "OpenStack-API-Version": f"compute {version}"}
    return Client().get(f"{V21}{path}", headers=headers)


def ask(person: Person, server: Instance, protocol: str, kind: str, version: str = "2.96") -> Any:
    body = {"remote_console": {"protocol": protocol, "type": kind}}
    return send(person, f"/servers/{server.id}/remote-consoles", body, version)


def token_of(url: str) -> str:
    query = parse_qs(urlsplit(url).query)
    return query["token"][0] if "token" in query else parse_qs(urlsplit(query["path"][0]).query)["token"][0]


@pytest.mark.parametrize("version", ["2.6", "2.8", "2.96"])
def test_a_screen_is_a_page_and_a_serial_line_a_socket(people: People, server: Instance, version: str) -> None:
    screen = ask(people.alice, server, "vnc", "novnc", version)
    assert screen.status_code == 200
    console = screen.json()["remote_console"]
    assert {**console, "url": ""} == {"protocol": "vnc", "type": "novnc", "url": ""}
    assert console["url"].startswith("http://127.0.0.1:8000/console/vnc?path=ws%2Fconsole%3Ftoken%3D")
    line = ask(people.alice, server, "serial", "serial", version).json()["remote_console"]
    assert line["url"].startswith("ws://127.0.0.1:8000/ws/console?token=")
    for each, protocol in ((console, "vnc"), (line, "serial")):
        assert use_token(token_of(each["url"])).protocol == protocol


def test_before_2_6_there_is_no_such_resource_and_after_it_no_such_action(people: People, server: Instance) -> None:
    assert ask(people.alice, server, "vnc", "novnc", "2.5").status_code == 404
    body = {"os-getVNCConsole": {"type": "novnc"}}
    assert send(people.alice, f"/servers/{server.id}/action", body, "2.6").status_code in {400, 404}


@each_row(("action", "kind"), ACTIONS)
@each_row("version", ["2.1", "2.5"])
def test_older_actions(people: People, server: Instance, action: str, kind: str, version: str) -> None:
    answer = send(people.alice, f"/servers/{server.id}/action", {action: {"type": kind}}, version)
    if kind in {"novnc", "serial"}:
        assert answer.status_code == 200
        console = answer.json()["console"]
        assert console.keys() == {"type", "url"}
        assert console["type"] == kind
        assert use_token(token_of(console["url"])).instance == server
    else:
        assert answer.status_code == 400
        assert answer.json()["badRequest"]["message"] == f"Unavailable console type {kind}."


@each_row(
    ("protocol", "kind"),
    [("vnc", "xvpvnc"), ("spice", "spice-html5"), ("rdp", "rdp-html5"), ("mks", "webmks"), ("vnc", "serial")],
)
def test_consoles_that_are_not_offered(people: People, server: Instance, protocol: str, kind: str) -> None:
    answer = ask(people.alice, server, protocol, kind)
    assert answer.status_code == 400
    assert answer.json()["badRequest"]["message"] == f"Unavailable console type {kind}."


@each_row(
    "body",
    [
        {},
        {"remote_console": {}},
        {"remote_console": {"protocol": "vnc"}},
        {"remote_console": {"type": "novnc"}},
        {"remote_console": {"protocol": "vnc", "type": "novnc", "more": 1}},
        {"remote_console": {"protocol": "vnc", "type": ["novnc"]}},
        {"remote_console": {"protocol": "vnc\0", "type": "novnc"}},
        {"remote_console": []},
        {"remote_console": {"protocol": "vnc", "type": "novnc"}, "other": 1},
    ],
)
def test_bodies_that_are_none(people: People, server: Instance, body: Any) -> None:
    assert send(people.alice, f"/servers/{server.id}/remote-consoles", body).status_code == 400


def test_mks_came_with_2_8(people: People, server: Instance) -> None:
    message = ask(people.alice, server, "mks", "webmks", "2.7").json()["badRequest"]["message"]
    assert not message.startswith("Unavailable")
    assert ask(people.alice, server, "mks", "webmks", "2.8").json()["badRequest"]["message"].startswith("Unavailable")


@each_row(
    "columns",
    [
        {"power_state": 4, "vm_state": "stopped"},
        {"vm_state": "building", "task_state": "spawning", "power_state": 0},
        {"vm_state": "shelved_offloaded", "host": None, "power_state": 4},
        {"task_state": "deleting"},
        {"task_state": "rebuilding"},
    ],
)
def test_a_server_without_a_guest_that_runs(people: People, server: Instance, columns: dict[str, Any]) -> None:
    Instance.objects.update(**columns)
    answer = ask(people.alice, server, "vnc", "novnc")
    assert answer.status_code == 409
    assert answer.json()["conflictingRequest"]["message"] == f"Instance {server.id} is not ready"


def test_who_may(people: People, server: Instance) -> None:
    statuses = [ask(person, server, "vnc", "novnc").status_code for person in people.everybody()]
    assert statuses == [200, 403, 404, 200]
    assert send(people.alice, f"/servers/{uuid.uuid4()}/remote-consoles", {}).status_code in {400, 404}
    nowhere = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    for wrong in (uuid.uuid4(), "nothing", "x" * 300):
        assert send(people.alice, f"/servers/{wrong}/remote-consoles", nowhere).status_code == 404


def test_an_address_lives_as_long_as_the_setting_says(people: People, server: Instance, settings: Settings) -> None:
    settings.CONSOLE_TOKEN_TTL = 30
    ask(people.alice, server, "vnc", "novnc")
    left = ConsoleToken.objects.get().expires_at - timezone.now()
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)


def test_asking_costs_the_same_however_many_there_are(people: People, server: Instance) -> None:
    counts = []
    for _ in range(14):
        with CaptureQueriesContext(connection) as captured:
            assert ask(people.alice, server, "vnc", "novnc").status_code == 200
        counts.append(len(captured))
    assert max(counts) <= counts[0] + 1


# ----- os-console-auth-tokens -----------------------------------------------------------------------------------------


def test_where_the_console_of_a_token_is(people: People, server: Instance) -> None:
    token = token_of(ask(people.alice, server, "vnc", "novnc").json()["remote_console"]["url"])
    for _ in range(2):
        answer = look(people.operator, f"/os-console-auth-tokens/{token}", "2.31")
        assert answer.status_code == 200
        assert answer.json() == {
            "console": {"instance_uuid": str(server.id), "host": "h1", "port": None, "internal_access_path": None}
        }
    assert look(people.operator, f"/os-console-auth-tokens/{token}", "2.30").status_code == 400
    assert look(people.alice, f"/os-console-auth-tokens/{token}").status_code == 403
    use_token(token)
    assert look(people.operator, f"/os-console-auth-tokens/{token}").status_code == 404


@pytest.mark.parametrize("token", ["guess", "x" * 400, "%ff"])
def test_tokens_that_are_none(people: People, server: Instance, token: str) -> None:
    assert look(people.operator, f"/os-console-auth-tokens/{token}").status_code == 404
