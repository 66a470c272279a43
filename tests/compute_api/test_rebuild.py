"""Rebuild over HTTP, from the request to what the host is told and back."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from compute_agent.contract.commands import RebuildRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from provisioning.compute.models import Instance, KeyPair
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts import audits
from tests.compute_api.conftest import NEWEST, V21, launch
from tests.compute_api.test_rescue import act, make_image, ordered, status
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def at(people: People, minor: int) -> Api:
    return Api(people.alice, **{"OpenStack-API-Version": f"compute 2.{minor}"})


def rebuild(api: Api, ident: str, cloud: Cloud, **fields: Any) -> Any:
    return act(api, ident, "rebuild", {"imageRef": str(cloud.image.id), **fields})


def order_of(command: Command) -> RebuildRequest:
    assert isinstance(command.body, RebuildRequest)
    return command.body


def test_a_rebuild_makes_the_server_anew_in_its_place(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud, metadata={"kept": "no"})
    before = Instance.objects.get(id=ident)
    image = make_image(cloud, name="other", properties={"os_distro": "debian"})
    answer = act(
        api,
        ident,
        "rebuild",
        {
            "imageRef": str(image.id),
            "name": "renamed",
            "adminPass": "secret words",
            "metadata": {"made": "anew"},
            "accessIPv4": "192.0.2.1",
            "accessIPv6": "2001:db8::1",
            "OS-DCF:diskConfig": "AUTO",
            "preserve_ephemeral": True,
        },
    )
    assert answer.status_code == 202
    assert answer.headers["Location"].endswith(f"/compute/v2.1/servers/{ident}")
    shown = answer.json()["server"]
    assert (shown["id"], shown["status"], shown["adminPass"]) == (ident, "REBUILD", "secret words")
    assert (shown["name"], shown["metadata"]) == ("renamed", {"made": "anew"})
    assert (shown["accessIPv4"], shown["accessIPv6"]) == ("192.0.2.1", "2001:db8::1")
    assert (shown["image"]["id"], shown["OS-DCF:diskConfig"], shown["progress"]) == (str(image.id), "AUTO", 0)
    body = order_of(command := ordered(cloud))
    assert (body.start, body.preserve_ephemeral) == (True, True)
    spec = body.instance
    assert (spec.image.id, spec.image.properties) == (str(image.id), {"os_distro": "debian"})
    assert (spec.uuid, spec.name, spec.admin_password) == (ident, "renamed", "secret words")
    assert (spec.hostname, spec.metadata) == (before.hostname, {"made": "anew"})
    assert len(spec.ports) == 1
    cloud.agents["h1"].carry_out(command)
    after = Instance.objects.get(id=ident)
    assert (after.vm_state, after.task_state, after.admin_password) == ("active", None, "")
    assert (after.image_name, after.image_properties) == ("other", {"os_distro": "debian"})
    assert (after.host_id, after.flavor, after.attempt) == (before.host_id, before.flavor, before.attempt + 1)
    assert after.launched_at > before.launched_at  # type: ignore[operator]


def test_what_is_not_specified_stays(api: Api, cloud: Cloud, people: People) -> None:
    KeyPair.objects.create(user_id=people.alice.user_id, name="key", public_key="ssh-ed25519 AAAA", fingerprint="f")
    user_data = base64.b64encode(b"#!/bin/sh").decode()
    ident = launch(api, cloud, metadata={"a": "1"}, key_name="key", user_data=user_data)
    newest = at(people, 96)
    newest.put(f"{V21}/servers/{ident}", {"server": {"description": "mine", "hostname": "host.example"}})
    cloud.run()
    answer = rebuild(newest, ident, cloud).json()["server"]
    assert (answer["name"], answer["metadata"], answer["description"]) == ("web", {"a": "1"}, "mine")
    assert (answer["key_name"], answer["user_data"]) == ("key", user_data)
    assert answer["OS-EXT-SRV-ATTR:hostname"] == "host.example"
    assert len(answer["adminPass"]) == 12
    spec = order_of(ordered(cloud)).instance
    assert (spec.user_data, spec.hostname) == (user_data, "host.example")
    assert spec.key_pair is not None


def test_what_is_null_is_taken_away(api: Api, cloud: Cloud, people: People) -> None:
    KeyPair.objects.create(user_id=people.alice.user_id, name="key", public_key="ssh-ed25519 AAAA", fingerprint="f")
    ident = launch(api, cloud, key_name="key", user_data=base64.b64encode(b"#!/bin/sh").decode())
    newest = at(people, 96)
    fields = {"key_name": None, "user_data": None, "description": None, "trusted_image_certificates": None}
    answer = rebuild(newest, ident, cloud, metadata={}, **fields).json()["server"]
    assert {name: answer[name] for name in (*fields, "metadata")} == fields | {"metadata": {}}
    spec = order_of(ordered(cloud)).instance
    assert (spec.key_pair, spec.user_data) == (None, None)


def test_a_key_of_the_servers_owner_is_put_in(api: Api, cloud: Cloud, people: People) -> None:
    KeyPair.objects.create(user_id=people.alice.user_id, name="key", public_key="ssh-ed25519 AAAA", fingerprint="f")
    ident = launch(api, cloud)
    newest = at(people, 54)
    answer = rebuild(newest, ident, cloud, key_name="nobody's")
    assert answer.status_code == 400
    assert answer.json()["badRequest"]["message"] == "Invalid key_name provided."
    assert rebuild(newest, ident, cloud, key_name="key").json()["server"]["key_name"] == "key"
    key = order_of(ordered(cloud)).instance.key_pair
    assert key is not None
    assert (key.name, key.public_key) == ("key", "ssh-ed25519 AAAA")


FIELDS = {
    "description": (19, None, "text"),
    "key_name": (54, None, None),
    "personality": (1, 56, []),
    "user_data": (57, None, "IyEvYmluL3No"),
    "trusted_image_certificates": (63, None, ["one"]),
    "hostname": (90, None, "web-9"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_comes_and_goes_with_its_microversion(api: Api, cloud: Cloud, people: People, field: str) -> None:
    first, last, value = FIELDS[field]
    ident = launch(api, cloud)
    for minor, taken in ((first, True), (first - 1, False), (last or 96, True), ((last or 96) + 1, False)):
        if 1 <= minor <= 96:
            answer = rebuild(at(people, minor), ident, cloud, **{field: value})
            assert answer.status_code == (202 if taken else 400), minor
            cloud.run()


def test_a_host_name_with_dots_needs_2_94(api: Api, cloud: Cloud, people: People, server: str) -> None:
    assert rebuild(at(people, 93), server, cloud, hostname="a.example").status_code == 400
    assert rebuild(at(people, 94), server, cloud, hostname="a.example").status_code == 202


def test_operators_see_user_data_once(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud, user_data="IyEvYmluL3No")
    operator = Api(people.operator, OpenStack_API_Version="compute 2.75")
    answer = rebuild(operator, ident, cloud).json()["server"]
    assert answer["user_data"] == "IyEvYmluL3No"
    assert "OS-EXT-SRV-ATTR:host" in answer
    assert "OS-EXT-SRV-ATTR:user_data" not in answer
    shown = operator.get(f"{V21}/servers/{ident}").json()["server"]
    assert shown["OS-EXT-SRV-ATTR:user_data"] == "IyEvYmluL3No"


@pytest.mark.slow
def test_the_answer_is_whole_from_2_75_on(api: Api, cloud: Cloud, people: People, server: str) -> None:
    seen = {}
    for minor in (1, 53, 54, 57, 71, 74, 75):
        seen[minor] = set(rebuild(at(people, minor), server, cloud).json()["server"])
        cloud.run()
    whole = {"config_drive", "OS-EXT-STS:vm_state", "security_groups", "OS-EXT-AZ:availability_zone"}
    assert not seen[1] & (whole | {"key_name", "user_data", "server_groups"})
    assert seen[54] - seen[53] == {"key_name"}
    assert "user_data" in seen[57]
    assert "server_groups" in seen[71]
    assert not seen[74] & whole
    assert whole <= seen[75]


def test_files_go_in_once(api: Api, cloud: Cloud) -> None:
    ident = launch(api, cloud, personality=[{"path": "/etc/old", "contents": "b2xk"}])
    rebuild(api, ident, cloud, personality=[{"path": "/etc/new", "contents": "bmV3"}])
    command = ordered(cloud)
    assert [file.path for file in order_of(command).instance.injected_files] == ["/etc/new"]
    cloud.agents["h1"].carry_out(command)
    rebuild(api, ident, cloud)
    assert order_of(ordered(cloud)).instance.injected_files == []


def test_a_stopped_server_stays_stopped(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "os-stop")
    cloud.run()
    assert rebuild(api, server, cloud).json()["server"]["status"] == "REBUILD"
    command = ordered(cloud)
    assert not order_of(command).start
    cloud.agents["h1"].carry_out(command)
    assert status(api, server) == "SHUTOFF"


@pytest.mark.slow
def test_a_failed_rebuild_is_an_error_from_which_another_leads(api: Api, cloud: Cloud) -> None:
    ident = launch(api, cloud)
    rebuild(api, ident, cloud, adminPass="x")
    agent = cloud.agents["h1"]
    agent.report(ordered(cloud), "failed", error_code="image_unacceptable", message="The image is bad.")
    shown = api.get(f"{V21}/servers/{ident}").json()["server"]
    assert (shown["status"], shown["fault"]["message"]) == ("ERROR", "The image is bad.")
    assert Instance.objects.get(id=ident).admin_password == ""
    # The host keeps what is there: nobody orders the guest's end because its server is in error.
    agent.hello()
    audits.audit(agent.host.id, agent.audit(8, 8192, 100))
    reap()
    assert agent.take() == []
    assert rebuild(api, ident, cloud).json()["server"]["status"] == "REBUILD"
    cloud.run()
    assert status(api, ident) == "ACTIVE"


def test_a_server_whose_rebuild_failed_is_deleted(api: Api, cloud: Cloud, server: str) -> None:
    rebuild(api, server, cloud)
    cloud.agents["h1"].report(ordered(cloud), "failed", error_code="host_failed", message="No room.")
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.run()
    assert api.get(f"{V21}/servers/{server}").status_code == 404
    assert cloud.agents["h1"].guests == {}


def test_a_silent_host_leaves_an_error(api: Api, cloud: Cloud, server: str) -> None:
    for begin in (lambda: rebuild(api, server, cloud), lambda: act(api, server, "rescue")):
        begin()
        command = ordered(cloud)
        Instance.objects.filter(id=server).update(task_deadline=timezone.now() - timedelta(seconds=1))
        reap()
        assert status(api, server) == "ERROR"
        cloud.agents["h1"].report(command, "finished", power_state=PowerState.RUNNING)
        assert status(api, server) == "ERROR", "what comes later is passed over"


def test_a_delete_in_the_middle_of_a_rebuild_wins(api: Api, cloud: Cloud, server: str) -> None:
    rebuild(api, server, cloud)
    command = ordered(cloud)
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.agents["h1"].report(command, "finished", power_state=PowerState.RUNNING)
    cloud.run()
    assert api.get(f"{V21}/servers/{server}").status_code == 404


@each_row(
    ("changes", "message"),
    [
        ({"status": "queued"}, "not active"),
        ({"min_ram": 2048}, "memory"),
        ({"min_disk": 50}, "disk"),
        ({"virtual_size": 50 << 30}, "disk"),
        ({"visibility": "private"}, "image"),
        ({"properties": {"ramdisk_id": "nothing"}}, "ramdisk"),
    ],
)
def test_an_image_that_does_not_fit_is_400(
    api: Api, cloud: Cloud, changes: dict[str, Any], message: str, server: str
) -> None:
    image = make_image(cloud, **changes)
    answer = act(api, server, "rebuild", {"imageRef": str(image.id), "name": "renamed"})
    assert answer.status_code == 400
    assert message in answer.json()["badRequest"]["message"]
    instance = Instance.objects.get(id=server)
    assert (instance.name, instance.image_id, instance.task_state) == ("web", cloud.image.id, None)


def test_too_much_metadata_is_403(api: Api, cloud: Cloud, server: str) -> None:
    answer = rebuild(api, server, cloud, metadata={f"key{number}": "x" for number in range(200)})
    assert answer.status_code == 403
    assert Instance.objects.get(id=server).task_state is None


@each_row(
    "body",
    [
        None,
        {},
        {"imageRef": "no-uuid"},
        {"imageRef": None},
        {"name": "x"},
        {"name": ""},
        {"metadata": {"a": 1}},
        {"metadata": {"a": "\0"}},
        {"accessIPv4": "::1"},
        {"OS-DCF:diskConfig": "SOMETIMES"},
        {"preserve_ephemeral": "perhaps"},
        {"adminPass": ["x"]},
        {"personality": [{"path": "/x", "contents": "not base64!"}]},
        {"unknown": 1},
    ],
)
def test_wrong_bodies_are_400(api: Api, cloud: Cloud, body: dict[str, Any] | None, server: str) -> None:
    known = {"imageRef": str(cloud.image.id)} if body and "imageRef" not in body and body != {"name": "x"} else {}
    answer = act(api, server, "rebuild", None if body is None else known | body)
    assert answer.status_code == 400, answer.content


def test_a_locked_a_busy_and_a_paused_server_are_409(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "lock")
    assert rebuild(api, server, cloud).status_code == 409
    act(api, server, "unlock")
    act(api, server, "pause")
    answer = rebuild(api, server, cloud)
    assert answer.status_code == 409
    message = answer.json()["conflictingRequest"]["message"]
    assert message == f"Cannot 'rebuild' instance {server} while it is in task_state pausing"
    cloud.run()
    assert rebuild(api, server, cloud).status_code == 409


def test_no_password_is_reported_where_guests_get_none(api: Api, cloud: Cloud, settings: Settings) -> None:
    settings.ENABLE_INSTANCE_PASSWORD = False
    ident = launch(api, cloud)
    assert "adminPass" not in rebuild(api, ident, cloud).json()["server"]


def test_a_launch_and_a_rebuild_tell_the_host_of_kernels(api: Api, cloud: Cloud, people: People) -> None:
    kernel = make_image(cloud, disk_format="aki", container_format="aki")
    ramdisk = make_image(cloud, disk_format="ari", container_format="ari")
    properties = {"kernel_id": str(kernel.id), "ramdisk_id": str(ramdisk.id), "os_command_line": "root=/dev/vda2"}
    image = make_image(cloud, properties=properties)
    ident = launch(api, cloud, imageRef=str(image.id))
    operator = Api(people.operator, **NEWEST)
    shown = operator.get(f"{V21}/servers/{ident}").json()["server"]
    assert shown["OS-EXT-SRV-ATTR:kernel_id"] == str(kernel.id)
    assert shown["OS-EXT-SRV-ATTR:ramdisk_id"] == str(ramdisk.id)
    act(api, ident, "rebuild", {"imageRef": str(image.id)})
    command = ordered(cloud)
    spec = order_of(command).instance
    assert spec.kernel is not None
    assert spec.ramdisk is not None
    assert (spec.kernel.id, spec.kernel.disk_format) == (str(kernel.id), "aki")
    assert (spec.ramdisk.id, spec.image.properties) == (str(ramdisk.id), properties)
    cloud.agents["h1"].carry_out(command)
    rebuild(api, ident, cloud)
    assert order_of(ordered(cloud)).instance.kernel is None


@pytest.mark.parametrize("changes", [{"status": "deactivated"}, {"disk_format": "raw"}, {"visibility": "private"}])
def test_a_launch_without_the_kernel_is_refused(api: Api, cloud: Cloud, changes: dict[str, Any]) -> None:
    values = {"disk_format": "aki", "container_format": "aki", **changes}
    image = make_image(cloud, properties={"kernel_id": str(make_image(cloud, **values).id)})
    body = {"server": {"name": "x", "imageRef": str(image.id), "flavorRef": "1"}}
    answer = api.post(f"{V21}/servers", body)
    assert answer.status_code == 400
    assert "names a kernel" in answer.json()["badRequest"]["message"]


def test_a_launch_whose_kernel_went_meanwhile_ends_in_an_error(api: Api, cloud: Cloud) -> None:
    kernel = make_image(cloud, disk_format="aki", container_format="aki")
    image = make_image(cloud, properties={"kernel_id": str(kernel.id)})
    body = {"server": {"name": "x", "imageRef": str(image.id), "flavorRef": "1"}}
    ident = api.post(f"{V21}/servers", body).json()["server"]["id"]
    kernel.status = "deleted"
    kernel.save()
    cloud.run()
    assert status(api, ident) == "ERROR"
    assert cloud.agents["h1"].guests == {}
