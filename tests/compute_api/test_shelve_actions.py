"""shelve, shelveOffload and unshelve over HTTP: states, microversions, and who may."""

from __future__ import annotations

from typing import Any

import pytest

from portal.api.compute.server_actions.lifecycle import unshelve_schema
from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row, taken

pytestmark = pytest.mark.django_db


def at(person: Any, version: str) -> Api:
    return Api(person, **{"OpenStack-API-Version": f"compute {version}"})


def act(api: Api, ident: str, action: str, body: object = None) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {action: body})


def show(api: Api, ident: str) -> dict[str, Any]:
    return dict(api.get(f"{V21}/servers/{ident}").json()["server"])


@pytest.mark.slow
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


@each_row(
    ("version", "body"),
    [
        ((2, 77), {"availability_zone": None}),
        ((2, 77), {}),
        ((2, 77), {"host": "h1"}),
        ((2, 90), {"availability_zone": "nova", "host": "h1"}),
        ((2, 91), {"host": ""}),
        ((2, 91), {"host": 7}),
        ((2, 91), {"availability_zone": "a\0b"}),
        ((2, 91), {"more": 1}),
        ((2, 91), "h1"),
    ],
)
def test_bodies_that_the_schema_of_the_version_refuses(version: tuple[int, int], body: object) -> None:
    assert taken(unshelve_schema(version), [body]) == []


@pytest.fixture
@standing
def shelved(api: Api, cloud: Cloud, server: str) -> str:
    act(api, server, "shelve")
    cloud.run()
    assert show(api, server)["status"] == "SHELVED_OFFLOADED"
    return server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "body"),
    [
        ("2.1", None),
        ("2.76", {"availability_zone": "nowhere"}),  # passed over before 2.77
        ("2.77", None),
        ("2.77", {"availability_zone": "nova"}),
        ("2.91", {"availability_zone": None}),
        ("2.91", {"availability_zone": "nova"}),
    ],
)
def test_what_may_be_specified_at_each_microversion(
    people: People, api: Api, cloud: Cloud, version: str, body: object, shelved: str
) -> None:
    answer = act(at(people.alice, version), shelved, "unshelve", body)
    assert answer.status_code == 202, answer.content
    cloud.run()
    assert show(api, shelved)["status"] == "ACTIVE"


@each_row(
    ("version", "body", "code"),
    [
        ("2.77", {"availability_zone": "nowhere"}, 400),
        ("2.77", {"host": "h1"}, 400),
        ("2.91", {"host": "h1"}, 403),
        ("2.91", {"more": 1}, 400),
    ],
)
def test_a_refused_unshelve_leaves_it_on_its_shelf(
    people: People, api: Api, cloud: Cloud, version: str, body: object, code: int, shelved: str
) -> None:
    answer = act(at(people.alice, version), shelved, "unshelve", body)
    assert answer.status_code == code, answer.content
    cloud.run()
    assert show(api, shelved)["status"] == "SHELVED_OFFLOADED"


@pytest.fixture
@standing
def shelved_in_a_zone(api: Api, cloud: Cloud) -> str:
    """A shelved server that was asked for in its zone, in a cloud of two zones."""
    cloud.add_host("h2", zone="far")
    ident = launch(api, cloud, availability_zone="nova")
    act(api, ident, "shelve")
    cloud.run()
    return ident


@pytest.mark.slow
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
def test_an_operator_says_on_which_host(
    people: People, cloud: Cloud, body: object, code: int, shelved_in_a_zone: str
) -> None:
    answer = act(at(people.operator, "2.91"), shelved_in_a_zone, "unshelve", body)
    assert answer.status_code == code, answer.content
    cloud.run()


@pytest.mark.parametrize("action", ["shelve", "shelveOffload", "unshelve"])
@each_row(
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
def test_every_action_has_its_states(
    people: People, api: Api, cloud: Cloud, state: str, allowed: set[str], action: str, server: str
) -> None:
    Instance.objects.filter(id=server).update(vm_state=state)
    answer = act(Api(people.operator), server, action)
    assert answer.status_code == (202 if action in allowed else 409)
    if action not in allowed:
        message = f"Cannot '{action}' instance {server} while it is in vm_state {state}"
        assert answer.json()["conflictingRequest"]["message"] == message


def test_a_locked_server_stays_where_it_is(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "lock")
    answer = act(api, server, "shelve")
    assert answer.status_code == 409
    assert "is locked" in answer.json()["conflictingRequest"]["message"]
