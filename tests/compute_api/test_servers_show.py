"""How a server is shown: every field at its microversion, and to whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute.models import InstanceFault, ServerGroup
from provisioning.hosts.models import Host
from tests.compute_api.conftest import EPOCH, V21, put_server
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

EXTENDED = {
    "OS-EXT-AZ:availability_zone",
    "config_drive",
    "key_name",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state",
    "OS-EXT-STS:power_state",
    "os-extended-volumes:volumes_attached",
}
ALWAYS = {
    "id",
    "name",
    "status",
    "tenant_id",
    "user_id",
    "metadata",
    "hostId",
    "image",
    "flavor",
    "created",
    "updated",
    "addresses",
    "accessIPv4",
    "accessIPv6",
    "links",
    "OS-DCF:diskConfig",
    "progress",
}
OF_OPERATORS = {f"OS-EXT-SRV-ATTR:{name}" for name in ("host", "instance_name", "hypervisor_hostname")}
OF_OPERATORS_2_3 = {
    f"OS-EXT-SRV-ATTR:{name}"
    for name in (
        "reservation_id",
        "launch_index",
        "hostname",
        "kernel_id",
        "ramdisk_id",
        "root_device_name",
        "user_data",
    )
}
LATE = {
    (9, "locked"),
    (19, "description"),
    (26, "tags"),
    (63, "trusted_image_certificates"),
    (71, "server_groups"),
    (73, "locked_reason"),
    (90, "OS-EXT-SRV-ATTR:hostname"),
    (96, "pinned_availability_zone"),
}


def expected(minor: int, *, operator: bool) -> set[str]:
    """Every field of one server at 2.minor."""
    fields = ALWAYS | EXTENDED | {name for since, name in LATE if minor >= since}
    if operator:
        fields |= OF_OPERATORS | (OF_OPERATORS_2_3 if minor >= 3 else set())
        fields |= {"host_status"} if minor >= 16 else set()
    return fields


def shown(api: Api, ident: object, minor: int = 96) -> dict[str, Any]:
    answer = api.get(f"{V21}/servers/{ident}", OpenStack_API_Version=f"compute 2.{minor}")
    assert answer.status_code == 200, answer.content
    result: dict[str, Any] = answer.json()["server"]
    return result


BOUNDARIES = sorted(
    {1, 2, 96} | {minor - step for minor in (3, 9, 16, 19, 26, 47, 63, 71, 73, 90, 96) for step in (0, 1)}
)


@each_row("minor", BOUNDARIES)
def test_every_field_at_its_microversion(people: People, minor: int) -> None:
    server = put_server(people.alice)
    assert shown(Api(people.alice), server.id, minor).keys() == expected(minor, operator=False)
    assert shown(Api(people.operator), server.id, minor).keys() == expected(minor, operator=True)


@pytest.mark.slow
@each_row("minor", BOUNDARIES)
def test_lists_show_the_same_but_for_groups(people: People, minor: int) -> None:
    put_server(people.operator)
    put_server(people.alice)
    for person, operator in ((people.alice, False), (people.operator, True)):
        answer = Api(person).get(f"{V21}/servers/detail", OpenStack_API_Version=f"compute 2.{minor}")
        [server] = answer.json()["servers"]
        assert server.keys() == expected(minor, operator=operator) - {"server_groups"}


@each_row("minor", [1, 9, 18, 19, 26, 71, 73, 74, 75, 90, 96])
def test_a_change_shows_the_server_whole_from_2_75(people: People, minor: int) -> None:
    server = put_server(people.alice)
    for person, operator in ((people.alice, False), (people.operator, True)):
        answer = Api(person).put(
            f"{V21}/servers/{server.id}", {"server": {"name": "new"}}, OpenStack_API_Version=f"compute 2.{minor}"
        )
        fields = expected(minor, operator=operator)
        hidden = EXTENDED | OF_OPERATORS | OF_OPERATORS_2_3 | {"host_status"}
        assert answer.json()["server"].keys() == (fields if minor >= 75 else fields - hidden)


def test_the_flavor_is_a_link_and_from_2_47_whole(people: People) -> None:
    server = put_server(people.alice)
    api = Api(people.alice)
    assert shown(api, server.id, 46)["flavor"].keys() == {"id", "links"}
    assert shown(api, server.id, 47)["flavor"] == {
        "vcpus": 1,
        "ram": 1024,
        "disk": 2,
        "ephemeral": 0,
        "swap": 0,
        "original_name": "m1.small",
        "extra_specs": {},
    }


def test_what_operators_see(people: People) -> None:
    host = Host.objects.create(name="h1", hypervisor_hostname="node1", last_seen_at=timezone.now())
    server = put_server(
        people.alice,
        host=host,
        user_data="aGk=",
        launch_index=2,
        reservation_id="r-1",
        image_properties={"kernel_id": "k", "ramdisk_id": "r"},
    )
    body = shown(Api(people.operator), server.id)
    prefix = "OS-EXT-SRV-ATTR:"
    assert {name.removeprefix(prefix): value for name, value in body.items() if name.startswith(prefix)} == {
        "host": "h1",
        "hypervisor_hostname": "node1",
        "instance_name": f"instance-{server.id.hex[:8]}",
        "reservation_id": "r-1",
        "launch_index": 2,
        "hostname": "web",
        "kernel_id": "k",
        "ramdisk_id": "r",
        "root_device_name": "/dev/vda",
        "user_data": "aGk=",
    }
    assert shown(Api(people.alice), server.id)["OS-EXT-SRV-ATTR:hostname"] == "web"


@each_row(
    ("columns", "status"),
    [
        ({}, "UP"),
        ({"enabled": False}, "MAINTENANCE"),
        ({"forced_down": True}, "DOWN"),
        ({"forced_down": True, "enabled": False}, "DOWN"),
        ({"last_seen_at": None}, "UNKNOWN"),
    ],
)
def test_the_status_of_its_host(people: People, columns: dict[str, Any], status: str) -> None:
    host = Host.objects.create(name="h1", **{"last_seen_at": timezone.now(), **columns})
    server = put_server(people.alice, host=host)
    assert shown(Api(people.operator), server.id, 16)["host_status"] == status
    assert shown(Api(people.operator), put_server(people.alice).id, 16)["host_status"] == ""


@each_row(
    ("vm_state", "task_state", "status", "progress"),
    [
        ("active", None, "ACTIVE", 100),
        ("building", "spawning", "BUILD", 0),
        ("resized", None, "VERIFY_RESIZE", 0),
        ("stopped", None, "SHUTOFF", None),
        ("error", None, "ERROR", None),
        ("paused", None, "PAUSED", None),
        ("shelved_offloaded", None, "SHELVED_OFFLOADED", None),
        ("active", "rebooting_hard", "HARD_REBOOT", None),
    ],
)
def test_status_and_progress(
    people: People, vm_state: str, task_state: str | None, status: str, progress: int | None
) -> None:
    server = put_server(people.alice, vm_state=vm_state, task_state=task_state)
    body = shown(Api(people.alice), server.id)
    assert (body["status"], body.get("progress")) == (status, progress)


def test_a_fault_is_shown_in_error_only(people: People) -> None:
    server = put_server(people.alice, vm_state="error")
    InstanceFault.objects.create(instance=server, message="old")
    InstanceFault.objects.create(instance=server, message="No valid host was found.", details="h1 is full")
    fault = shown(Api(people.alice), server.id)["fault"]
    assert fault.keys() == {"code", "created", "message"}
    assert (fault["code"], fault["message"]) == (500, "No valid host was found.")
    assert shown(Api(people.operator), server.id)["fault"]["details"] == "h1 is full"
    type(server).objects.filter(id=server.id).update(vm_state="active")
    assert "fault" not in shown(Api(people.alice), server.id)


def test_moments_are_written_as_the_reference_writes_them(people: People) -> None:
    moment = EPOCH + timedelta(microseconds=1234)
    server = put_server(people.alice, launched_at=moment)
    body = shown(Api(people.alice), server.id)
    assert body["created"] == body["updated"] == "2026-01-01T00:00:00Z"
    assert body["OS-SRV-USG:launched_at"] == "2026-01-01T00:00:00.001234"
    assert body["OS-SRV-USG:terminated_at"] is None


def test_groups_zones_and_images(people: People) -> None:
    group = ServerGroup.objects.create(
        project_id=people.alice.project_id, user_id=people.alice.user_id, name="g", policy="affinity"
    )
    api = Api(people.alice)
    server = put_server(people.alice, server_group=group, availability_zone="north")
    body = shown(api, server.id)
    assert body["server_groups"] == [str(group.id)]
    assert body["pinned_availability_zone"] == body["OS-EXT-AZ:availability_zone"] == "north"
    bare = shown(api, put_server(people.alice, image_id=None).id)
    assert (bare["image"], bare["server_groups"], bare["pinned_availability_zone"]) == ("", [], None)


def test_a_deleted_server_is_shown_to_nobody_but_listed_to_operators(people: People) -> None:
    server = put_server(people.operator, vm_state="deleted", terminated_at=EPOCH)
    api = Api(people.operator)
    assert api.get(f"{V21}/servers/{server.id}").status_code == 404
    [entry] = api.get(f"{V21}/servers/detail?deleted=1").json()["servers"]
    assert (entry["status"], entry["OS-SRV-USG:terminated_at"]) == ("DELETED", "2026-01-01T00:00:00.000000")


def test_a_page_that_is_full_links_to_the_next(people: People) -> None:
    for number in range(3):
        put_server(people.alice, f"s{number}", age=number)
    api = Api(people.alice)
    first = api.get(f"{V21}/servers/detail?limit=2&name=s").json()
    [link] = first["servers_links"]
    assert link["rel"] == "next"
    assert f"/servers/detail?name=s&limit=2&marker={first['servers'][-1]['id']}" in link["href"]
    assert "servers_links" not in api.get(f"{V21}/servers/detail").json()
