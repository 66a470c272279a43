"""Resizing over HTTP (Compute API reference, "Resize server", "Confirm resized server", "Revert resized server")."""

from __future__ import annotations

from typing import Any

import pytest

from portal.api.compute.server_actions.migrate import RESIZE
from provisioning.compute.models import Flavor, FlavorAccess, Instance
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.hosts.models import Host
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.tables import each_row, taken

pytestmark = pytest.mark.django_db


def act(api: Api, ident: str, name: str, body: Any = None) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {name: body})


def shown(api: Api, ident: str) -> dict[str, Any]:
    server: dict[str, Any] = api.get(f"{V21}/servers/{ident}").json()["server"]
    return server


def states(server: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(server[name] for name in ("status", "OS-EXT-STS:vm_state", "OS-EXT-STS:task_state"))


def message(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.content
    [fault] = answer.json().values()
    assert fault["code"] == status
    return str(fault["message"])


@pytest.mark.slow
def test_from_active_to_active(api: Api, new_api: Api, cloud: Cloud) -> None:
    ident = launch(api, cloud)
    answer = act(api, ident, "resize", {"flavorRef": "2", "OS-DCF:diskConfig": "AUTO"})
    assert (answer.status_code, answer.content) == (202, b"")
    server = shown(new_api, ident)
    assert states(server) == ("RESIZE", "active", "resize_migrating")
    assert server["flavor"]["original_name"] == "m1.small"
    cloud.run()
    server = shown(new_api, ident)
    assert states(server) == ("VERIFY_RESIZE", "resized", None)
    assert (server["flavor"]["original_name"], server["flavor"]["ram"]) == ("m1.big", 4096)
    assert server["OS-EXT-STS:power_state"] == 1
    assert shown(api, ident)["flavor"]["id"] == "2"
    assert Instance.objects.get().disk_config == "AUTO"
    answer = act(api, ident, "confirmResize")
    assert (answer.status_code, answer.content) == (204, b"")
    assert states(shown(api, ident)) == ("VERIFY_RESIZE", "resized", "resize_confirming")
    cloud.run()
    assert states(shown(api, ident)) == ("ACTIVE", "active", None)


@pytest.mark.slow
def test_back_to_shutoff(api: Api, cloud: Cloud) -> None:
    ident = launch(api, cloud)
    act(api, ident, "os-stop")
    cloud.run()
    assert act(api, ident, "resize", {"flavorRef": 2}).status_code == 202
    cloud.run()
    assert states(shown(api, ident)) == ("VERIFY_RESIZE", "resized", None)
    assert act(api, ident, "revertResize").status_code == 202
    assert states(shown(api, ident)) == ("REVERT_RESIZE", "resized", "resize_reverting")
    cloud.run()
    server = shown(api, ident)
    assert (states(server), server["flavor"]["id"]) == (("SHUTOFF", "stopped", None), "1")


def test_bodies_that_the_schema_refuses() -> None:
    bodies = [
        None,
        {},
        [],
        "2",
        {"flavorRef": ""},
        {"flavorRef": None},
        {"flavorRef": ["2"]},
        {"flavorRef": "x" * 256},
        {"flavorRef": "2", "host": "h1"},
        {"flavorRef": "2", "OS-DCF:diskConfig": "SOMETIMES"},
    ]
    assert taken(RESIZE, bodies) == []


@each_row("body", [{}, {"flavorRef": "\0"}, {"flavorRef": "never"}, {"flavorRef": 10**30}, {"flavorRef": -1}])
def test_wrong_bodies_are_400(api: Api, server: str, body: Any) -> None:
    assert act(api, server, "resize", body).status_code == 400


def test_refusals_as_in_the_reference(api: Api, cloud: Cloud, people: People, server: str) -> None:
    operator = context("operator", ADMIN)
    create_flavor(operator, FlavorRequest("private", 2, 2048, 5, flavorid="3", is_public=False))
    create_flavor(operator, FlavorRequest("zero", 2, 2048, 0, flavorid="4"))

    def why(flavor: str) -> str:
        return message(act(api, server, "resize", {"flavorRef": flavor}), 400)

    assert why("1") == "When resizing, instances must change flavor!"
    assert why("3") == "Flavor 3 could not be found."
    assert why("4") == ("Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.")
    FlavorAccess.objects.create(flavor=Flavor.objects.get(flavorid="3"), project_id=people.alice.project_id)
    assert act(api, server, "resize", {"flavorRef": "3"}).status_code == 202


def test_the_state_is_looked_at_before_the_flavor(api: Api, cloud: Cloud, server: str) -> None:
    for name in ("confirmResize", "revertResize"):
        assert message(act(api, server, name), 409) == (
            f"Cannot '{name}' instance {server} while it is in vm_state active"
        )
    act(api, server, "resize", {"flavorRef": "2"})
    assert "while it is in task_state resize_migrating" in message(
        act(api, server, "resize", {"flavorRef": "never"}), 409
    )
    cloud.run()
    for name in ("resize", "os-stop", "pause"):
        body = {"flavorRef": "1"} if name == "resize" else None
        assert "while it is in vm_state resized" in message(act(api, server, name, body), 409)


def test_over_quota_is_403_and_a_locked_server_409(api: Api, cloud: Cloud, people: People, server: str) -> None:
    set_limit(people.alice.project_id, "cores", 3)
    assert message(act(api, server, "resize", {"flavorRef": "2"}), 403).startswith(
        "Quota exceeded for cores: Requested 3, but already used 1 of 3 cores"
    )
    act(api, server, "lock")
    assert message(act(api, server, "resize", {"flavorRef": "2"}), 409) == f"Instance {server} is locked"


def test_without_room_it_is_accepted_and_the_action_says_why(api: Api, new_api: Api, cloud: Cloud, server: str) -> None:
    Host.objects.update(memory_mb_total=2048)
    assert act(new_api, server, "resize", {"flavorRef": "2"}).status_code == 202
    assert states(shown(new_api, server)) == ("ACTIVE", "active", None)
    newest = new_api.get(f"{V21}/servers/{server}/os-instance-actions").json()["instanceActions"][0]
    assert newest["action"] == "resize"
    assert newest["message"].startswith("No valid host was found. ")
