"""``/servers/{id}/novella-guest-disks``: volumes that the guest agent examines, mounts and extends."""

from __future__ import annotations

from typing import Any

import pytest

from compute_agent.contract.calls import CallError, CallResult
from compute_agent.contract.guest_disks import ExtendFileSystemRequest, InspectedDisk, MountDiskRequest
from compute_agent.contract.messages import Command
from portal.api.compute.servers import guests
from provisioning.compute.models import Instance
from provisioning.hosts import calls
from provisioning.volumes import services
from provisioning.volumes.records.requests import VolumeRequest
from tests.compute_api.conftest import V21
from tests.notifications.conftest import data, notices
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import taken


@pytest.fixture
@standing
def volume(cloud: Cloud, people: People, server: str) -> str:
    """A volume of the server, whose image has a guest agent."""
    cloud.agents["h1"].serve()
    volume = services.Create.begin(people.alice.context, VolumeRequest(size_gb=1, name="data"))
    cloud.run()
    Instance.objects.filter(id=server).update(image_properties={"hw_qemu_guest_agent": "yes"})
    path = f"{V21}/servers/{server}/os-volume_attachments"
    assert Api(people.alice).post(path, {"volumeAttachment": {"volumeId": str(volume.id)}}).status_code == 200
    cloud.run()
    return str(volume.id)


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> dict[str, CallResult]:
    """The answer of the guest."""
    answers: dict[str, CallResult] = {"answer": InspectedDisk("/dev/vdb", "empty")}
    monkeypatch.setattr(calls, "call", lambda *_, **__: answers["answer"])
    return answers


def path(server: str, volume: str) -> str:
    return f"{V21}/servers/{server}/novella-guest-disks/{volume}"


def ordered(cloud: Cloud) -> Command:
    """The one command that the host has been given."""
    [command] = cloud.agents["h1"].take()
    return command


def test_the_state_in_the_guest(api: Api, people: People, server: str, volume: str, guest: Any) -> None:
    empty = {"volume_id": volume, "device": "/dev/vdb", "content": "empty", "type": None, "mount_point": None}
    assert api.get(path(server, volume)).json() == {"guest_disk": empty}
    guest["answer"] = InspectedDisk("/dev/vdb", "filesystem", "xfs", "/srv")
    mounted = empty | {"content": "file_system", "type": "xfs", "mount_point": "/srv"}
    assert api.get(path(server, volume)).json() == {"guest_disk": mounted}
    guest["answer"] = CallError("unsupported", "secret")
    answer = api.get(path(server, volume))
    assert (answer.status_code, "secret" in answer.content.decode()) == (503, False)
    assert api.get(path(server, "0" * 32)).status_code == 404
    assert Api(people.charlie).get(path(server, volume)).status_code == 404


def test_a_volume_is_mounted_and_extended(api: Api, cloud: Cloud, server: str, volume: str) -> None:
    action = f"{path(server, volume)}/action"
    assert api.post(action, {"mount": {"directory": "/srv/data"}}).status_code == 202
    assert api.post(action, {"mount": {"directory": "/srv/more"}}).status_code == 409, "the first one is in progress"
    command = ordered(cloud)
    assert command.body == MountDiskRequest(volume, "/srv/data")
    cloud.agents["h1"].carry_out(command)
    assert api.post(action, {"extend_file_system": None}).status_code == 202
    command = ordered(cloud)
    assert command.body == ExtendFileSystemRequest(volume)
    cloud.agents["h1"].report(command, "failed", error_code="guest_disk", message="It is not mounted.")
    shown = api.get(f"{V21}/servers/{server}/os-instance-actions").json()["instanceActions"]
    assert [(each["action"], each["message"]) for each in shown][:2] == [
        ("extend_file_system", "It is not mounted."),
        ("mount_volume", None),
    ]
    sent = [each for each in notices() if "mount" in each["event_type"] or "file_system" in each["event_type"]]
    assert [each["event_type"].removeprefix("instance.") for each in sent] == [
        "volume_mount.start",
        "volume_mount.end",
        "file_system_extend.start",
        "file_system_extend.error",
    ]
    assert {data(each)["volume_id"] for each in sent} == {volume}


def test_it_is_refused(api: Api, people: People, cloud: Cloud, server: str, volume: str, guest: Any) -> None:
    action, body = f"{path(server, volume)}/action", {"mount": {"directory": "/srv/data"}}
    assert Api(people.bob).post(action, body).status_code == 403
    assert Api(people.bob).get(path(server, volume)).status_code == 403
    assert Api(people.charlie).post(action, body).status_code == 404
    assert api.post(action, {"mount": {"directory": "/etc"}}).status_code == 400
    assert api.post(action, {"mount": {"directory": "srv"}}).status_code == 400
    Instance.objects.filter(id=server).update(image_properties={})
    assert api.post(action, body).status_code == 409
    assert api.get(path(server, volume)).status_code == 409
    assert cloud.agents["h1"].take() == []


def test_invalid_bodies() -> None:
    bodies: list[Any] = [
        {},
        {"mount": None},
        {"mount": {}},
        {"mount": {"directory": "/srv"}, "extend_file_system": None},
        {"extend_file_system": {}},
        {"format": None},
        *({"mount": {"directory": each}} for each in ("", "/", "/a b", "/a\n", "/$(id)", "/" + "x" * 200, 1)),
        {"mount": {"directory": "/srv", "force": True}},
    ]
    assert taken(guests.disk_action((2, 1)), bodies) == []
