"""shelve, shelveOffload and unshelve over HTTP: states, microversions, and who may."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


def at(person: Any, version: str) -> Api:
    return Api(person, **{"OpenStack-API-Version": f"compute {version}"})


def act(api: Api, ident: str, action: str, body: object = None) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {action: body})


def show(api: Api, ident: str) -> dict[str, Any]:
    return dict(api.get(f"{V21}/servers/{ident}").json()["server"])


def test_a_server_goes_onto_its_shelf_and_comes_back(people: People, api: Api, cloud: Cloud, settings: Any) -> None:
    settings.SHELVED_OFFLOAD_TIME = -1
    operator = Api(people.operator)
    ident = launch(api, cloud)
    before = show(api, ident)["addresses"]
    answer = act(api, ident, "shelve")
    assert (answer.status_code, answer.content) == (202, b"")
    assert (show(api, ident)["status"], show(api, ident)["OS-EXT-STS:task_state"]) == ("ACTIVE", "shelving")
    cloud.run()
    assert show(api, ident)["status"] == "SHELVED"
    assert act(api, ident, "shelveOffload").status_code == 403
    assert act(operator, ident, "shelveOffload").status_code == 202
    cloud.run()
    shown = show(operator, ident)
    assert shown["status"] == "SHELVED_OFFLOADED"
    assert (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:power_state"]) == ("shelved_offloaded", 0)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["OS-EXT-SRV-ATTR:hypervisor_hostname"]) == (None, None)
    assert shown["hostId"] == ""
    assert shown["addresses"] == before
    assert shown["image"]["id"] == str(cloud.image.id)
    assert act(api, ident, "unshelve").status_code == 202
    assert show(api, ident)["OS-EXT-STS:task_state"] == "unshelving"
    cloud.run()
    shown = show(operator, ident)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"], shown["addresses"]) == ("ACTIVE", "h1", before)
    done = api.get(f"{V21}/servers/{ident}/os-instance-actions").json()["instanceActions"]
    assert [row["action"] for row in done] == ["unshelve", "shelveOffload", "shelve", "create"]


@pytest.mark.parametrize(
    ("version", "body", "code"),
    [
        ("2.1", None, 202),
        ("2.76", {"availability_zone": "nowhere"}, 202),  # passed over before 2.77
        ("2.77", None, 202),
        ("2.77", {"availability_zone": "nova"}, 202),
        ("2.77", {"availability_zone": "nowhere"}, 400),
        ("2.77", {"availability_zone": None}, 400),
        ("2.77", {}, 400),
        ("2.77", {"host": "h1"}, 400),
        ("2.90", {"availability_zone": "nova", "host": "h1"}, 400),
        ("2.91", {"availability_zone": None}, 202),
        ("2.91", {"availability_zone": "nova"}, 202),
        ("2.91", {"host": "h1"}, 403),
        ("2.91", {"host": ""}, 400),
        ("2.91", {"host": 7}, 400),
        ("2.91", {"availability_zone": "a\0b"}, 400),
        ("2.91", {"more": 1}, 400),
        ("2.91", "h1", 400),
    ],
)
def test_what_may_be_said_at_each_microversion(
    people: People, api: Api, cloud: Cloud, version: str, body: object, code: int, server: str
) -> None:
    act(api, server, "shelve")
    cloud.run()
    assert show(api, server)["status"] == "SHELVED_OFFLOADED"
    answer = act(at(people.alice, version), server, "unshelve", body)
    assert answer.status_code == code, answer.content
    cloud.run()
    assert show(api, server)["status"] == ("ACTIVE" if code == 202 else "SHELVED_OFFLOADED")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"host": "h1"}, 202),
        ({"host": "h1", "availability_zone": "nova"}, 202),
        ({"host": "h1", "availability_zone": None}, 202),
        ({"host": "h9"}, 400),
        ({"host": "h1", "availability_zone": "far"}, 409),
    ],
)
def test_an_operator_says_on_which_host(people: People, api: Api, cloud: Cloud, body: object, code: int) -> None:
    cloud.add_host("h2", zone="far")
    ident = launch(api, cloud, availability_zone="nova")
    act(api, ident, "shelve")
    cloud.run()
    answer = act(at(people.operator, "2.91"), ident, "unshelve", body)
    assert answer.status_code == code, answer.content
    cloud.run()


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("active", {"shelve"}),
        ("stopped", {"shelve"}),
        ("paused", {"shelve"}),
        ("suspended", {"shelve"}),
        ("shelved", {"shelveOffload", "unshelve"}),
        ("shelved_offloaded", {"unshelve"}),
        ("error", set()),
        ("rescued", set()),
        ("resized", set()),
    ],
)
@pytest.mark.parametrize("action", ["shelve", "shelveOffload", "unshelve"])
def test_every_action_has_its_states(
    people: People, api: Api, cloud: Cloud, state: str, allowed: set[str], action: str, server: str
) -> None:
    Instance.objects.filter(id=server).update(vm_state=state)
    answer = act(Api(people.operator), server, action)
    assert answer.status_code == (202 if action in allowed else 409)
    if action not in allowed:
        said = f"Cannot '{action}' instance {server} while it is in vm_state {state}"
        assert answer.json()["conflictingRequest"]["message"] == said


def test_a_locked_server_stays_where_it_is(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "lock")
    answer = act(api, server, "shelve")
    assert answer.status_code == 409
    assert "is locked" in answer.json()["conflictingRequest"]["message"]
