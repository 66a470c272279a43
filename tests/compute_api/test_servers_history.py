"""``os-instance-actions``: fields, pages and who sees what, microversion by microversion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from tests.compute_api.conftest import EPOCH, V21, put_server
from tests.support.cast import Api, People
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def seconds(number: int) -> Any:
    return EPOCH + timedelta(seconds=number)


@pytest.fixture
@standing
def server(people: People) -> Instance:
    """A server that was made, stopped and is being started."""
    server = put_server(people.alice)
    for number, (name, ended) in enumerate((("create", 5), ("stop", 15), ("start", None))):
        action = InstanceAction.objects.create(
            instance=server,
            action=name,
            request_id=f"req-{name}",
            user_id=people.alice.user_id,
            project_id=people.alice.project_id,
            started_at=seconds(10 * number),
            finished_at=seconds(ended) if ended else None,
        )
        InstanceActionEvent.objects.create(
            action=action,
            name=f"api_{name}",
            started_at=seconds(10 * number),
            finished_at=seconds(ended) if ended else None,
            result={"create": "Success", "stop": "Error"}.get(name, ""),
            message="The host is full." if name == "stop" else "",
            host="h1",
        )
    return server


def path_of(server: Instance, request: str = "") -> str:
    return f"{V21}/servers/{server.id}/os-instance-actions" + (f"/{request}" if request else "")


def listed(api: Api, server: Instance, version: str, **query: Any) -> list[str]:
    sent = urlencode({name.replace("__", "-"): value for name, value in query.items()})
    answer = api.get(f"{path_of(server)}?{sent}", OpenStack_API_Version=f"compute {version}")
    assert answer.status_code == 200, answer.content
    return [action["action"] for action in answer.json()["instanceActions"]]


def test_the_newest_is_first(api: Api, server: Instance) -> None:
    assert listed(api, server, "2.1") == ["start", "stop", "create"]


@pytest.mark.parametrize(("minor", "more"), [(57, set()), (58, {"updated_at"})])
def test_fields_of_an_action(api: Api, server: Instance, minor: int, more: set[str]) -> None:
    [*_, action] = api.get(path_of(server), OpenStack_API_Version=f"compute 2.{minor}").json()["instanceActions"]
    always = {"action", "instance_uuid", "request_id", "user_id", "project_id", "start_time", "message"}
    assert action.keys() == always | more
    assert action["start_time"] == "2026-01-01T00:00:00.000000"
    if more:
        assert action["updated_at"] == "2026-01-01T00:00:05.000000"


@each_row("minor", [50, 51, 61, 62, 83, 84])
def test_fields_of_an_event(people: People, server: Instance, minor: int) -> None:
    def event(api: Api) -> dict[str, Any] | None:
        shown = api.get(path_of(server, "req-stop"), OpenStack_API_Version=f"compute 2.{minor}").json()
        events = shown["instanceAction"].get("events")
        return dict(events[0]) if events else None

    always = {"event", "start_time", "finish_time", "result"}
    alices, operators = event(Api(people.alice)), event(Api(people.operator))
    hosts, details = (minor >= 62), (minor >= 84)
    if minor < 51:
        assert alices is None
    else:
        assert alices is not None
        assert alices.keys() == always | ({"hostId"} if hosts else set())
    assert operators is not None
    more = ({"hostId", "host"} if hosts else set()) | ({"details"} if details else set())
    assert operators.keys() == always | {"traceback"} | more
    assert operators["result"] == "Error"
    if details:
        assert operators["details"] == "The host is full."
    if hosts:
        assert operators["host"] == "h1"
        assert len(operators["hostId"]) == 56


def test_what_still_runs_has_no_result(people: People, server: Instance) -> None:
    shown = Api(people.operator).get(path_of(server, "req-start")).json()["instanceAction"]["events"][0]
    assert (shown["result"], shown["finish_time"]) == (None, None)


def test_pages_from_2_58(api: Api, server: Instance) -> None:
    assert listed(api, server, "2.57", limit=1, marker="req-stop") == ["start", "stop", "create"]
    answer = api.get(f"{path_of(server)}?limit=2", OpenStack_API_Version="compute 2.58").json()
    assert [action["action"] for action in answer["instanceActions"]] == ["start", "stop"]
    [link] = answer["links"]
    assert link["rel"] == "next"
    rest = api.get(link["href"][link["href"].index("/compute") :], OpenStack_API_Version="compute 2.58").json()
    assert [action["action"] for action in rest["instanceActions"]] == ["create"]
    assert "links" not in rest
    for query in ("marker=nope", "limit=x", "changes-since=yesterday"):
        assert api.get(f"{path_of(server)}?{query}", OpenStack_API_Version="compute 2.58").status_code == 400


def test_changes_since_and_before(api: Api, server: Instance) -> None:
    moment = seconds(10).isoformat()
    assert listed(api, server, "2.57", changes__since=moment) == ["start", "stop", "create"]
    assert listed(api, server, "2.58", changes__since=moment) == ["start", "stop"]
    assert listed(api, server, "2.65", changes__before=moment) == ["start", "stop", "create"]
    assert listed(api, server, "2.66", changes__before=moment) == ["create"]
    InstanceAction.objects.filter(action="create").update(finished_at=seconds(5) + timedelta(milliseconds=700))
    assert listed(api, server, "2.66", changes__before=seconds(5).isoformat()) == ["create"], "the whole second"
    query = urlencode({"changes-since": moment, "changes-before": seconds(1).isoformat()})
    assert api.get(f"{path_of(server)}?{query}", OpenStack_API_Version="compute 2.66").status_code == 400
    assert api.get(f"{path_of(server)}?color=1", OpenStack_API_Version="compute 2.65").status_code == 200
    assert api.get(f"{path_of(server)}?color=1", OpenStack_API_Version="compute 2.66").status_code == 400


def test_actions_of_a_deleted_server_from_2_21(people: People, server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(vm_state="deleted", deleted_at=EPOCH)
    for person in (people.alice, people.operator):
        for path in (path_of(server), path_of(server, "req-stop")):
            assert Api(person).get(path, OpenStack_API_Version="compute 2.20").status_code == 404
            assert Api(person).get(path, OpenStack_API_Version="compute 2.21").status_code == 200
    assert Api(people.charlie).get(path_of(server), OpenStack_API_Version="compute 2.96").status_code == 404


def test_an_unknown_request_is_404(api: Api, server: Instance) -> None:
    answer = api.get(path_of(server, "req-nope"))
    assert answer.status_code == 404
    assert "req-nope" in answer.json()["itemNotFound"]["message"]
