"""Rescue and unrescue over HTTP, from the request to what the host is told and back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pytest_django import Settings

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from provisioning.compute.models import Instance
from provisioning.images.models import Image
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def make_image(cloud: Cloud, **changes: Any) -> Image:
    values = {
        "project_id": cloud.image.project_id,
        "name": "rescue",
        "status": "active",
        "visibility": "public",
        "disk_format": "raw",
        "container_format": "bare",
        "size": 1 << 20,
        "os_hash_algo": "sha512",
        "os_hash_value": "cd" * 64,
        **changes,
    }
    return Image.objects.create(**values)


def act(api: Api, ident: str, action: str, body: object = None) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {action: body})


def status(api: Api, ident: str) -> str:
    return str(api.get(f"{V21}/servers/{ident}").json()["server"]["status"])


def ordered(cloud: Cloud) -> Command:
    """The one order that the host has been given."""
    [command] = cloud.agents["h1"].take()
    return command


@pytest.mark.slow
def test_a_server_is_rescued_with_its_own_image_and_comes_back(api: Api, cloud: Cloud, server: str) -> None:
    answer = act(api, server, "rescue", {"adminPass": "secret words"})
    assert (answer.status_code, answer.json()) == (200, {"adminPass": "secret words"})
    shown = api.get(f"{V21}/servers/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", "rescuing")
    command = ordered(cloud)
    body = command.body
    assert isinstance(body, RescueRequest)
    assert body.ran
    assert body.instance.rescue is not None
    assert body.instance.rescue.image.id == body.instance.image.id == str(cloud.image.id)
    assert (body.instance.uuid, body.instance.admin_password) == (server, "secret words")
    assert len(body.instance.ports) == 1
    cloud.agents["h1"].carry_out(command)
    assert status(api, server) == "RESCUE"
    assert act(api, server, "unrescue").status_code == 202
    command = ordered(cloud)
    assert isinstance(command.body, UnrescueRequest)
    assert command.body.instance.rescue is None
    assert command.body.instance.admin_password is None
    cloud.agents["h1"].carry_out(command)
    assert status(api, server) == "ACTIVE"
    assert Instance.objects.get(id=server).rescue_image_id is None


def test_another_image_is_named_with_its_kernel_and_ramdisk(api: Api, cloud: Cloud, server: str) -> None:
    kernel = make_image(cloud, disk_format="aki", container_format="aki")
    ramdisk = make_image(cloud, disk_format="ari", container_format="ari")
    properties = {"kernel_id": str(kernel.id), "ramdisk_id": str(ramdisk.id), "os_command_line": "single"}
    image = make_image(cloud, properties=properties)
    answer = act(api, server, "rescue", {"rescue_image_ref": str(image.id)})
    assert len(answer.json()["adminPass"]) == 12
    body = ordered(cloud).body
    assert isinstance(body, RescueRequest)
    rescue = body.instance.rescue
    assert rescue is not None
    assert rescue.kernel is not None
    assert rescue.ramdisk is not None
    assert (rescue.image.id, rescue.image.properties) == (str(image.id), properties)
    assert (rescue.kernel.id, rescue.ramdisk.id) == (str(kernel.id), str(ramdisk.id))
    assert body.instance.image.id == str(cloud.image.id)
    assert body.instance.kernel is None


def test_no_password_is_reported_where_guests_get_none(api: Api, cloud: Cloud, settings: Settings) -> None:
    settings.ENABLE_INSTANCE_PASSWORD = False
    ident = launch(api, cloud)
    answer = act(api, ident, "rescue")
    assert (answer.status_code, answer.json()) == (200, {})
    assert ordered(cloud).body.instance.admin_password is None  # type: ignore[union-attr]


@each_row(
    "changes",
    [
        {"status": "queued"},
        {"status": "deactivated"},
        {"visibility": "private"},
        {"disk_format": "aki", "container_format": "aki"},
        {"min_ram": 2048},
        {"properties": {"kernel_id": str(uuid.uuid4())}},
    ],
)
def test_an_image_that_cannot_boot_is_400(api: Api, cloud: Cloud, changes: dict[str, Any], server: str) -> None:
    image = make_image(cloud, **changes)
    answer = act(api, server, "rescue", {"rescue_image_ref": str(image.id)})
    assert answer.status_code == 400
    assert cloud.agents["h1"].take() == []
    assert status(api, server) == "ACTIVE"
    assert Instance.objects.get(id=server).task_state is None


@each_row(
    "body", [{"rescue_image_ref": "small"}, {"rescue_image_ref": None}, {"adminPass": 5}, {"image": "x"}, [], "now"]
)
def test_wrong_bodies_are_400(api: Api, server: str, body: object) -> None:
    assert act(api, server, "rescue", body).status_code == 400


def test_a_stopped_server_and_one_in_error_can_be_rescued(api: Api, cloud: Cloud, people: People, server: str) -> None:
    act(api, server, "os-stop")
    cloud.run()
    act(api, server, "rescue")
    command = ordered(cloud)
    assert isinstance(command.body, RescueRequest)
    assert not command.body.ran
    cloud.agents["h1"].carry_out(command)
    assert status(api, server) == "RESCUE"
    act(Api(people.operator), server, "os-resetState", {"state": "error"})
    assert act(api, server, "rescue").status_code == 200
    cloud.run()
    assert status(api, server) == "RESCUE"


@pytest.fixture
@standing
def rescued(api: Api, cloud: Cloud, server: str) -> str:
    act(api, server, "rescue")
    cloud.run()
    return server


@each_row("action", ["rescue", "os-stop", "os-start", "pause", "suspend", "reboot", "rebuild"])
def test_what_a_rescued_server_does_not_do_is_409(api: Api, cloud: Cloud, action: str, rescued: str) -> None:
    bodies = {"reboot": {"type": "HARD"}, "rebuild": {"imageRef": str(cloud.image.id)}}
    answer = act(api, rescued, action, bodies.get(action))
    assert answer.status_code == 409
    assert f"instance {rescued} while it is in vm_state rescued" in answer.json()["conflictingRequest"]["message"]


def test_a_server_that_is_not_rescued_is_not_unrescued(api: Api, cloud: Cloud, server: str) -> None:
    answer = act(api, server, "unrescue")
    assert answer.status_code == 409
    message = answer.json()["conflictingRequest"]["message"]
    assert message == f"Cannot 'unrescue' instance {server} while it is in vm_state active"


def test_a_locked_server_is_409(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "lock")
    for action in ("rescue", "unrescue"):
        assert act(api, server, action).status_code == 409
    assert cloud.agents["h1"].take() == []


def test_others_find_no_server_and_readers_may_not(api: Api, cloud: Cloud, people: People, server: str) -> None:
    for action in ("rescue", "unrescue"):
        assert act(Api(people.charlie), server, action).status_code == 404
        assert act(Api(people.bob), server, action).status_code == 403


def test_an_operator_sees_to_a_server_of_a_private_image(api: Api, cloud: Cloud, people: People, server: str) -> None:
    cloud.image.visibility = "private"
    cloud.image.project_id = people.alice.project_id
    cloud.image.save()
    operator = Api(people.operator)
    assert act(operator, server, "rescue").status_code == 200
    cloud.run()
    assert act(operator, server, "unrescue").status_code == 202
    cloud.run()
    assert act(operator, server, "rebuild", {"imageRef": str(cloud.image.id)}).status_code == 202
    cloud.run()
    assert act(operator, server, "rescue", {"rescue_image_ref": str(cloud.image.id)}).status_code == 400


def test_a_server_whose_image_is_gone_is_rescued_with_another_and_comes_back(
    api: Api, cloud: Cloud, server: str
) -> None:
    other = make_image(cloud)
    Image.objects.filter(id=cloud.image.id).update(status="deleted")
    assert act(api, server, "rescue").status_code == 400
    assert act(api, server, "rescue", {"rescue_image_ref": str(other.id)}).status_code == 200
    cloud.run()
    Image.objects.filter(id__in=[cloud.image.id, other.id]).delete()
    assert act(api, server, "unrescue").status_code == 202
    body = ordered(cloud).body
    assert isinstance(body, UnrescueRequest)
    assert (body.instance.image.id, body.instance.image.name) == (str(cloud.image.id), "small")


def test_a_rescue_that_fails_leaves_the_server_as_it_was(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "rescue")
    cloud.agents["h1"].report(ordered(cloud), "failed", error_code="host_failed", message="No room.")
    assert status(api, server) == "ACTIVE"
    assert Instance.objects.get(id=server).rescue_image_id is None
    assert act(api, server, "rescue").status_code == 200


def test_an_unrescue_that_fails_can_be_tried_again(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "rescue")
    cloud.run()
    act(api, server, "unrescue")
    cloud.agents["h1"].report(ordered(cloud), "failed", error_code="host_failed", message="Not now.")
    assert status(api, server) == "RESCUE"
    assert act(api, server, "unrescue").status_code == 202
    cloud.run()
    assert status(api, server) == "ACTIVE"


@pytest.mark.slow
def test_a_rescued_server_that_powers_off_stays_rescued_and_is_deleted_at_once(
    api: Api, cloud: Cloud, settings: Settings
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 60
    ident = launch(api, cloud)
    act(api, ident, "rescue")
    cloud.run()
    cloud.agents["h1"].power(uuid.UUID(ident), PowerState.SHUTDOWN)
    assert status(api, ident) == "RESCUE"
    assert api.delete(f"{V21}/servers/{ident}").status_code == 204
    cloud.run()
    assert api.get(f"{V21}/servers/{ident}").status_code == 404
    assert cloud.agents["h1"].guests == {}


def test_a_delete_in_the_middle_of_a_rescue_wins(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "rescue")
    rescue = ordered(cloud)
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.agents["h1"].report(rescue, "finished", power_state=PowerState.RUNNING)
    cloud.run()
    assert api.get(f"{V21}/servers/{server}").status_code == 404
    assert cloud.agents["h1"].guests == {}
