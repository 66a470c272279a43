"""Actions and parts of a server over HTTP."""

from __future__ import annotations

import pytest

from compute_agent.contract.calls import ConsoleOutput
from compute_agent.contract.commands import RefreshPortsRequest
from provisioning.compute.models import Instance
from provisioning.hosts import calls
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_stop_start_and_reboot(api: Api, cloud: Cloud, server: str) -> None:

    def act(body: dict[str, object]) -> str:
        answer = api.post(f"{V21}/servers/{server}/action", body)
        assert answer.status_code == 202, answer.content
        cloud.run()
        return str(api.get(f"{V21}/servers/{server}").json()["server"]["status"])

    assert act({"os-stop": None}) == "SHUTOFF"
    assert act({"os-start": None}) == "ACTIVE"
    assert act({"reboot": {"type": "SOFT"}}) == "ACTIVE"
    assert act({"reboot": {"type": "HARD"}}) == "ACTIVE"


def test_a_wrong_state_is_409_with_novas_message(api: Api, cloud: Cloud, server: str) -> None:
    answer = api.post(f"{V21}/servers/{server}/action", {"os-start": None})
    assert answer.status_code == 409
    assert "while it is in vm_state active" in answer.json()["conflictingRequest"]["message"]


@each_row(
    "body", [{}, {"os-stop": None, "os-start": None}, {"fly": None}, {"reboot": {}}, {"reboot": {"type": "GENTLE"}}, []]
)
def test_wrong_actions_are_400(api: Api, cloud: Cloud, body: object, server: str) -> None:
    assert api.post(f"{V21}/servers/{server}/action", body).status_code == 400


@pytest.fixture
def answering_host(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A host that answers every call at once with a console log."""
    requests: list[object] = []

    def call(host_id: object, body: object, timeout: float) -> ConsoleOutput:
        requests.append(body)
        return ConsoleOutput(text="one\r\n\x1b[1mtwo\té\n")

    monkeypatch.setattr(calls, "call", call)
    return requests


def test_who_asks_too_much_of_a_host_is_notified_when_to_come_again(
    api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(calls, "MOST_OF_HOST", 0)
    answer = api.post(f"/compute/v2.1/servers/{server}/action", {"os-getConsoleOutput": {}})
    assert (answer.status_code, answer["Retry-After"]) == (503, str(calls.RETRY_AFTER))


def test_console_output_asks_the_host(api: Api, cloud: Cloud, answering_host: list[object], server: str) -> None:
    answer = api.post(f"{V21}/servers/{server}/action", {"os-getConsoleOutput": {"length": 50}})
    assert answer.json() == {"output": "one\n[1mtwo\té\n"}
    for length in ("7", -1, "-1", None, 10**12):
        assert (
            api.post(f"{V21}/servers/{server}/action", {"os-getConsoleOutput": {"length": length}}).status_code == 200
        )
    assert [getattr(each, "lines", 0) for each in answering_host] == [50, 7, None, None, None, 999_999_999]
    for wrong in ("many", "", -2, "-2", 1.5, "1\n"):
        assert api.post(f"{V21}/servers/{server}/action", {"os-getConsoleOutput": {"length": wrong}}).status_code == 400
    none = api.post(f"{V21}/servers/{server}/action", {"os-getConsoleOutput": {"length": "0"}})
    assert none.json() == {"output": ""}


def test_what_old_clients_ask_of_the_network_of_a_server(api: Api, cloud: Cloud, people: People, server: str) -> None:
    path, operator = f"{V21}/servers/{server}/action", Api(people.operator)
    api.post(path, {"lock": None})
    assert operator.post(path, {"injectNetworkInfo": None}).status_code == 202
    assert [type(each.body) for each in cloud.agents["h1"].take()] == [RefreshPortsRequest]
    assert api.post(path, {"injectNetworkInfo": None}).status_code == 403
    for who in (api, operator):
        assert who.post(path, {"resetNetwork": None}).status_code == 410
    Instance.objects.update(host=None)
    assert operator.post(path, {"injectNetworkInfo": None}).status_code == 202


def test_console_output_without_a_host_is_409(api: Api, cloud: Cloud) -> None:
    answer = api.post(f"{V21}/servers", {"server": {"name": "x", "imageRef": str(cloud.image.id), "flavorRef": "1"}})
    ident = answer.json()["server"]["id"]
    answer = api.post(f"{V21}/servers/{ident}/action", {"os-getConsoleOutput": {}})
    assert answer.status_code == 409


def test_actions_tell_the_whole_launch(api: Api, new_api: Api, cloud: Cloud, people: People, server: str) -> None:
    [create] = new_api.get(f"{V21}/servers/{server}/os-instance-actions").json()["instanceActions"]
    assert create["action"] == "create"
    assert create["project_id"] == people.alice.project_id.hex
    shown = new_api.get(f"{V21}/servers/{server}/os-instance-actions/{create['request_id']}").json()["instanceAction"]
    names = [event["event"] for event in shown["events"]]
    assert {
        "schedule",
        "claim",
        "allocate_network",
        "plug_network",
        "fetch_image",
        "start_guest",
        "wait_for_boot",
    } <= set(names)
    assert all(event["result"] == "Success" for event in shown["events"])
    assert all("host" not in event for event in shown["events"]), "hosts are for operators"
    assert new_api.get(f"{V21}/servers/{server}/os-instance-actions/req-nope").status_code == 404


def test_metadata_items(api: Api, cloud: Cloud) -> None:
    ident = launch(api, cloud, metadata={"a": "1"})
    path = f"{V21}/servers/{ident}/metadata"
    assert api.post(path, {"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert api.put(f"{path}/b", {"meta": {"b": "3"}}).json() == {"meta": {"b": "3"}}
    assert api.put(f"{path}/b", {"meta": {"c": "3"}}).status_code == 400
    assert api.delete(f"{path}/a").status_code == 204
    assert api.get(path).json() == {"metadata": {"b": "3"}}
    assert api.get(f"{path}/a").status_code == 404
    assert api.put(path, {"metadata": {}}).json() == {"metadata": {}}


def test_addresses_interfaces_groups_and_volumes(api: Api, cloud: Cloud, server: str) -> None:
    [address] = api.get(f"{V21}/servers/{server}/ips").json()["addresses"]["net"]
    [interface] = api.get(f"{V21}/servers/{server}/os-interface").json()["interfaceAttachments"]
    assert interface["fixed_ips"][0]["ip_address"] == address["addr"]
    assert api.get(f"{V21}/servers/{server}/os-interface/{interface['port_id']}").status_code == 200
    [group] = api.get(f"{V21}/servers/{server}/os-security-groups").json()["security_groups"]
    assert group["name"] == "default"
    assert {rule["group"].get("name") for rule in group["rules"]} == {"default"}, "from its own members"
    assert api.get(f"{V21}/servers/{server}/os-volume_attachments").json() == {"volumeAttachments": []}
