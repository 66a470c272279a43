"""Volumes of servers over HTTP, end to end: launches with block devices, attaching, detaching, and what follows."""

from __future__ import annotations

import contextlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import (
    AttachVolumeRequest,
    BuildRequest,
    DetachVolumeRequest,
    RefreshVolumeRequest,
    SwapVolumeRequest,
)
from compute_agent.contract.messages import Command, GuestState
from compute_agent.contract.power import PowerState
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.launch import schedule
from provisioning.compute.models import BlockDevice, Flavor, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.services.hosts import change_host
from provisioning.compute.upkeep import reaper
from provisioning.hosts import audits
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Attachment, Volume
from tests.compute_api.conftest import V21, launch, new_volume, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve(ScriptedPool(capabilities={"multiattach": "true"}))
    return cloud


@pytest.fixture
def pool(cloud: Cloud) -> ScriptedPool:
    return next(iter(cloud.agents["h1"].pools.values()))


def attach(api: Api, server: str, volume: Volume | str, **more: Any) -> Any:
    requested = volume if isinstance(volume, str) else str(volume.id)
    body = {"volumeAttachment": {"volumeId": requested, **more}}
    return api.post(f"{V21}/servers/{server}/os-volume_attachments", body)


def status(volume: Volume) -> str:
    return str(Volume.objects.get(id=volume.id).status)


def message(answer: Any, code: int) -> str:
    assert answer.status_code == code, answer.content
    [fault] = answer.json().values()
    return str(fault["message"])


def from_image(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    disk = {"source_type": "image", "destination_type": "volume", "boot_index": 0, "uuid": str(cloud.image.id)}
    return disk | {"volume_size": 3, "delete_on_termination": True} | changes


@pytest.mark.slow
def test_there_and_back(
    api: Api, new_api: Api, cloud: Cloud, people: People, pool: ScriptedPool, server: str, volume: Volume
) -> None:
    answer = attach(api, server, volume)
    assert answer.status_code == 200
    assert answer.json()["volumeAttachment"] == {
        "id": str(volume.id),
        "volumeId": str(volume.id),
        "serverId": server,
        "device": "/dev/vdb",
    }
    cloud.run()
    assert status(volume) == "in-use"
    attachment = Attachment.objects.get(volume=volume)
    assert (attachment.status, attachment.mountpoint, str(attachment.instance_id)) == ("attached", "/dev/vdb", server)
    assert [client.attachment_id for client in pool.clients[str(volume.id)]] == [str(attachment.id)]
    url = f"{V21}/servers/{server}/os-volume_attachments"
    assert new_api.get(f"{url}/{volume.id}").json()["volumeAttachment"] == {
        "volumeId": str(volume.id),
        "serverId": server,
        "device": "/dev/vdb",
        "tag": None,
        "delete_on_termination": False,
        "attachment_id": str(attachment.id),
        "bdm_uuid": str(BlockDevice.objects.get().id),
    }
    shown = new_api.get(f"{V21}/servers/{server}").json()["server"]["os-extended-volumes:volumes_attached"]
    assert shown == [{"id": str(volume.id), "delete_on_termination": False}]
    assert "already attached" in message(attach(api, server, volume), 400)
    other = launch(api, cloud)
    assert "Invalid volume" in message(attach(api, other, volume), 400)
    for _ in range(2):
        assert api.delete(f"{url}/{volume.id}").status_code == 202
    assert status(volume) == "detaching"
    cloud.run()
    assert (status(volume), pool.clients) == ("available", {})
    assert api.get(url).json() == {"volumeAttachments": []}
    assert "is not attached to volume" in message(api.delete(f"{url}/{volume.id}"), 404)
    assert attach(api, other, volume).status_code == 200
    cloud.run()
    done = [each["action"] for each in api.get(f"{V21}/servers/{server}/os-instance-actions").json()["instanceActions"]]
    assert sorted(done) == ["attach_volume", "create", "detach_volume"]


@pytest.mark.slow
def test_a_server_boots_from_a_volume_that_is_made_of_an_image(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    devices = [from_image(cloud), {"source_type": "blank", "destination_type": "volume", "volume_size": 1}]
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=devices)
    instance = Instance.objects.get(id=server)
    assert (instance.vm_state, instance.image_id, instance.flavor["disk_gb"]) == ("active", None, 0)
    root, data = BlockDevice.objects.order_by("position")
    assert [(each.device_name, each.plugged) for each in (root, data)] == [("/dev/vda", True), ("/dev/vdb", True)]
    assert set(pool.volumes) == {str(root.volume_id), str(data.volume_id)}
    assert {volume.status for volume in Volume.objects.all()} == {"in-use"}
    shown = api.get(f"{V21}/servers/{server}").json()["server"]
    assert shown["image"] == ""
    assert len(shown["os-extended-volumes:volumes_attached"]) == 2
    assert "root device" in message(api.delete(f"{V21}/servers/{server}/os-volume_attachments/{root.volume_id}"), 400)
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.run()
    [left] = Volume.objects.all()
    assert (left.id, left.status, pool.clients) == (data.volume_id, "available", {})
    assert not BlockDevice.objects.exists()


# ----- launches -------------------------------------------------------------------------------------------------------


def from_volume(volume: Volume, **changes: Any) -> dict[str, Any]:
    return {"source_type": "volume", "destination_type": "volume", "uuid": str(volume.id), **changes}


def bootable(people: People, cloud: Cloud, **wanted: Any) -> Volume:
    return new_volume(people, cloud, 2, image_id=str(cloud.image.id), **wanted)


def steps_of(server: str) -> dict[str, tuple[str, dict[str, str]]]:
    rows = InstanceActionEvent.objects.filter(action__instance_id=server, action__action="create")
    return {row.name: (row.result, row.detail) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("old", [True, False])
def test_a_volume_that_is_there_is_reserved_with_the_request(api: Api, cloud: Cloud, people: People, old: bool) -> None:
    volume = bootable(people, cloud)
    new = {"block_device_mapping_v2": [from_volume(volume, boot_index=0)]}
    devices = {"block_device_mapping": [{"volume_id": str(volume.id), "device_name": "vda"}]} if old else new
    body = server_body(cloud, imageRef=None, **devices)
    answer = api.post(f"{V21}/servers", body)
    assert answer.status_code == 202, answer.content
    assert status(volume) == "reserved"
    assert "Invalid volume" in message(api.post(f"{V21}/servers", body), 400)
    assert Instance.objects.count() == 1
    cloud.run()
    [instance] = Instance.objects.all()
    assert (instance.vm_state, status(volume)) == ("active", "in-use")
    assert steps_of(str(instance.id))["block_device_mapping"] == ("Success", {"volumes": "1", "made": "0"})
    api.delete(f"{V21}/servers/{instance.id}")
    cloud.run()
    assert status(volume) == "available"


@pytest.mark.slow
def test_a_volume_that_cannot_be_made_ends_the_launch(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    kept = bootable(people, cloud)
    blank = {"source_type": "blank", "destination_type": "volume", "delete_on_termination": True}
    broken = {"create_volume_request": "The disk is broken."}
    for size, failing, text in ((9999, {}, "Quota exceeded"), (1, broken, "could not be created. The disk is broken.")):
        cloud.agents["h1"].failing.update(failing)
        devices = [from_volume(kept, boot_index=0), blank | {"volume_size": size}]
        server = launch(api, cloud, imageRef=None, block_device_mapping_v2=devices)
        shown = api.get(f"{V21}/servers/{server}").json()["server"]
        assert (shown["status"], status(kept)) == ("ERROR", "available")
        assert text in shown["fault"]["message"]
        assert steps_of(server)["block_device_mapping"][0] == "Error"
        assert (Volume.objects.count(), pool.clients, Attachment.objects.count()) == (1, {}, 0)
        assert api.delete(f"{V21}/servers/{server}").status_code == 204


@pytest.mark.slow
def test_a_volume_that_cannot_be_connected_ends_the_launch_and_all_is_given_back(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    kept = new_volume(people, cloud)
    cloud.agents["h1"].failing["connect_volume_request"] = "The daemon did not start."
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud), from_volume(kept)])
    shown = api.get(f"{V21}/servers/{server}").json()["server"]
    assert shown["status"] == "ERROR"
    assert "The daemon did not start." in shown["fault"]["message"]
    assert [volume.id for volume in Volume.objects.all()] == [kept.id]
    assert (status(kept), pool.clients) == ("available", {})


@pytest.mark.slow
def test_a_build_that_fails_goes_to_another_host_with_its_volumes(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    cloud.add_host("h2")
    volume = bootable(people, cloud)
    devices = [from_volume(volume, boot_index=0)]
    answer = api.post(f"{V21}/servers", server_body(cloud, imageRef=None, block_device_mapping_v2=devices))
    ident = answer.json()["server"]["id"]
    failed = ""
    for _ in range(20):
        drain()
        for name, agent in cloud.agents.items():
            for command in agent.take():
                if isinstance(command.body, BuildRequest) and not failed:
                    [disk] = command.body.instance.volumes
                    assert (disk.boot_index, disk.device, command.body.instance.image.id) == (0, "vda", "")
                    agent.fail(command, "The disk is full.", retryable=True)
                    failed = name
                else:
                    agent.carry_out(command)
    instance = Instance.objects.select_related("host").get(id=ident)
    assert (instance.vm_state, instance.attempt) == ("active", 2)
    assert instance.host_name != failed
    [client] = pool.clients[str(volume.id)]
    assert client.host_id == str(instance.host_id)
    assert status(volume) == "in-use"


class Died(BaseException):
    """What ends a worker in the middle of a job."""


@pytest.mark.slow
def test_a_worker_that_dies_between_the_steps_leaves_a_launch_that_goes_on(
    api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = []
    for module, name in ((schedule, "map_block_devices"), (schedule, "hand_off")):
        real = getattr(module, name)

        def dying(*args: Any, real: Any = real, name: str = name) -> Any:
            if name not in died:
                died.append(name)
                raise Died
            return real(*args)

        monkeypatch.setattr(module, name, dying)
    answer = api.post(f"{V21}/servers", server_body(cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)]))
    ident = answer.json()["server"]["id"]
    for _ in range(5):
        with contextlib.suppress(Died):
            schedule.schedule(ident, 1)
            cloud.run()
    assert died == ["map_block_devices", "hand_off"]
    assert Instance.objects.get(id=ident).vm_state == "active"
    assert Volume.objects.count() == 1


def test_a_launch_with_volumes_continues_when_its_host_still_has_to_remove_an_earlier_guest(
    api: Api, cloud: Cloud
) -> None:
    body = server_body(cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    server = uuid.UUID(api.post(f"{V21}/servers", body).json()["server"]["id"])
    with transaction.atomic():
        send_destroy(server, cloud.agents["h1"].host.id, 1)
    cloud.run()
    row = Instance.objects.get(id=server)
    assert (row.vm_state, row.attempt) == ("active", 2)


@pytest.mark.slow
def test_a_launch_does_not_wait_for_ever_for_a_storage_host(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    volume = bootable(people, cloud)
    devices = [from_volume(volume, boot_index=0)]
    answer = api.post(f"{V21}/servers", server_body(cloud, imageRef=None, block_device_mapping_v2=devices))
    drain()
    [instance] = Instance.objects.all()
    assert (instance.task_state, status(volume)) == ("block_device_mapping", "attaching")
    Instance.objects.update(task_deadline=timezone.now() - timedelta(seconds=1))
    reaper.reap()
    shown = api.get(f"{V21}/servers/{answer.json()['server']['id']}").json()["server"]
    assert (shown["status"], status(volume)) == ("ERROR", "available")
    cloud.run()
    assert pool.clients == {}


def test_disks_on_the_host_are_what_was_asked_for(api: Api, cloud: Cloud) -> None:
    Flavor.objects.filter(flavorid="1").update(ephemeral_gb=3, swap_mb=64)
    blank = {"source_type": "blank", "destination_type": "local"}
    root = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": str(cloud.image.id)}
    devices = [root, blank | {"volume_size": 1, "guest_format": "ext4"}, blank | {"volume_size": 2}]
    answer = api.post(f"{V21}/servers", server_body(cloud, block_device_mapping_v2=devices))
    drain()
    [command] = cloud.agents["h1"].take()
    assert isinstance(command.body, BuildRequest)
    disks = command.body.instance.local_disks
    assert [(disk.size_mb, disk.swap, disk.format) for disk in disks or ()] == [
        (1024, False, "ext4"), (2048, False, ""), (64, True, ""),
    ]  # fmt: skip
    assert answer.status_code == 202


@each_row(
    ("device", "sentence"),
    [
        ({"source_type": "blank", "destination_type": "volume"}, "need to have non-zero size"),
        ({"source_type": "image", "destination_type": "volume", "uuid": "IMAGE"}, "non-zero size"),
        ({"source_type": "volume", "uuid": str(uuid.UUID(int=5))}, "failed to get volume"),
        ({"source_type": "snapshot", "uuid": str(uuid.UUID(int=5))}, "failed to get snapshot"),
        ({"source_type": "image", "uuid": str(uuid.UUID(int=5)), "volume_size": 1}, "failed to get image"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": 0}, "Boot sequence"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": 2}, "Boot sequence"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "disk_bus": "x"}, "disk bus"),
        ({"source_type": "volume", "destination_type": "local", "uuid": "x"}, "to local is not supported"),
        ({"source_type": "image", "uuid": "IMAGE", "volume_size": 1, "boot_index": 0}, "Boot sequence"),
        ({"source_type": "image", "uuid": "IMAGE", "volume_size": 1, "boot_index": -1, "uuid2": "x"}, "uuid2"),
        ({"source_type": "snapshot", "destination_type": "local", "uuid": "x"}, "to local is not supported"),
        ({"source_type": "blank", "destination_type": "local", "guest_format": "swap", "volume_size": 65}, "larger"),
        ({"source_type": "blank", "destination_type": "local", "volume_size": 1}, "Ephemeral disks"),
        ({"source_type": "blank", "uuid": "IMAGE"}, "Invalid device UUID"),
        ({"source_type": "image"}, "Missing device UUID"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 0}, "volume_size"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": "x"}, "volume_size"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "volume_type": "no"}, "Volume type"),
        ({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "device_type": "x"}, "device type"),
        ({"source_type": "volume", "uuid": "VOLUME", "volume_type": "no"}, "to existing volume"),
        ({"source_type": "image", "destination_type": "volume", "uuid": "IMAGE", "volume_size": 10**10}, "maximum"),
    ],
)
def test_volumes_there_cannot_be(api: Api, cloud: Cloud, device: dict[str, Any], sentence: str) -> None:
    device = {key: str(cloud.image.id) if value == "IMAGE" else value for key, value in device.items()}
    body = server_body(cloud, block_device_mapping_v2=[image_disk(cloud), device], networks="none")
    answer = api.post(f"{V21}/servers", body, OpenStack_API_Version="compute 2.67")
    assert sentence in message(answer, 400)
    assert not Instance.objects.exists()


def image_disk(cloud: Cloud) -> dict[str, Any]:
    return {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": str(cloud.image.id)}


def test_what_cannot_be_booted_from(api: Api, cloud: Cloud, people: People) -> None:
    empty = new_volume(people, cloud)
    foreign = volumes.Create.begin(people.charlie.context, volumes.VolumeRequest(size_gb=1))

    def refused(device: dict[str, Any]) -> str:
        body = server_body(cloud, imageRef=None, block_device_mapping_v2=[device])
        return message(api.post(f"{V21}/servers", body), 400)

    assert "is not bootable" in refused(from_volume(empty, boot_index=0))
    assert "failed to get volume" in refused(from_volume(foreign, boot_index=0))
    Image.objects.update(min_disk=5)
    assert "smaller than the minimum size" in refused(from_image(cloud))


def test_an_image_may_say_how_a_server_with_an_empty_root_volume_is(api: Api, cloud: Cloud) -> None:
    """imageRef beside a device that boots: the server is as the image says, and nothing is copied from it."""
    empty = {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": 0}
    Image.objects.update(properties={"os_type": "linux"})
    body = server_body(cloud, block_device_mapping_v2=[empty], networks="none")
    assert message(api.post(f"{V21}/servers", server_body(cloud, imageRef=None, block_device_mapping_v2=[empty])), 400)
    answer = api.post(f"{V21}/servers", body, OpenStack_API_Version="compute 2.67")
    assert answer.status_code == 202, answer.content
    made = Instance.objects.get(id=answer.json()["server"]["id"])
    assert made.image_properties == {"os_type": "linux"}
    assert BlockDevice.objects.get(instance=made).source_type == "blank"


# ----- attaching ------------------------------------------------------------------------------------------------------


def test_a_volume_that_cannot_be_connected_is_given_back(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool, server: str, volume: Volume
) -> None:
    cloud.agents["h1"].failing["connect_volume_request"] = "The daemon did not start."
    assert attach(api, server, volume).status_code == 200
    cloud.run()
    assert (status(volume), BlockDevice.objects.count(), pool.clients) == ("available", 0, {})
    action = InstanceAction.objects.get(action="attach_volume")
    assert action.finished_at is not None
    assert "The daemon did not start." in (action.message or "")


def commands_of(cloud: Cloud, kind: type) -> list[Command]:
    """Let the cloud work until the host has such a command, which it does not carry out."""
    agent = cloud.agents["h1"]
    for _ in range(10):
        drain()
        commands = []
        for command in agent.take():
            if isinstance(command.body, kind):
                commands.append(command)
            else:
                agent.carry_out(command)
        if commands:
            return commands
    raise AssertionError(f"There is no {kind}")


@pytest.mark.slow
def test_a_guest_that_does_not_take_or_let_go_of_a_volume(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    attach(api, server, volume)
    [command] = commands_of(cloud, AttachVolumeRequest)
    agent.report(command, "failed", error_code="host_failed", message="No slot is free.")
    cloud.run()
    assert (status(volume), BlockDevice.objects.count(), pool.clients) == ("available", 0, {})
    attach(api, server, volume)
    cloud.run()
    url = f"{V21}/servers/{server}/os-volume_attachments/{volume.id}"
    assert api.delete(url).status_code == 202
    [command] = commands_of(cloud, DetachVolumeRequest)
    agent.report(command, "failed", error_code="guest_refused", message="The guest keeps it.", retryable=True)
    cloud.run()
    assert (status(volume), api.get(url).status_code) == ("in-use", 200)
    assert api.delete(url).status_code == 202
    cloud.run()
    assert status(volume) == "available"


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before the connection", "at the guest", "while it is taken out"])
def test_a_delete_in_the_middle_gives_the_volume_back(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool, moment: str, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    attach(api, server, volume)
    held: list[Command] = []
    if moment == "at the guest":
        held = commands_of(cloud, AttachVolumeRequest)
    elif moment == "while it is taken out":
        cloud.run()
        api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}")
        held = commands_of(cloud, DetachVolumeRequest)
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.run()
    for command in held:
        agent.report(command, "finished")
    cloud.run()
    assert (status(volume), pool.clients, BlockDevice.objects.count()) == ("available", {}, 0)
    assert not Attachment.objects.exists()


@pytest.mark.slow
def test_a_server_on_its_shelf_has_its_volumes_when_it_comes_back(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    first, second = new_volume(people, cloud), new_volume(people, cloud)
    attach(api, server, first)
    cloud.run()
    assert api.post(f"{V21}/servers/{server}/action", {"shelve": None}).status_code == 202
    cloud.run()
    instance = Instance.objects.get(id=server)
    assert (instance.vm_state, instance.snapshot_image_id) == ("shelved_offloaded", None)
    assert (pool.clients, status(first)) == ({}, "reserved")
    place = f"/volume/v3/attachments/{Attachment.objects.get(volume=first).id}"
    newest = {"OpenStack_API_Version": "volume 3.70"}
    connector = {"attachment": {"connector": {"host": "h1"}}}
    for taken in (
        api.delete(place, **newest),
        api.put(place, connector, **newest),
        api.post(f"{place}/action", {"os-complete": {}}, **newest),
        api.post(f"/volume/v3/volumes/{first.id}/action", {"os-detach": {}}),
    ):
        assert taken.status_code == 409, "the server would come back to a volume that others write"
    disks, on_shelf = f"{V21}/servers/{server}/os-volume_attachments", {"OpenStack_API_Version": "compute 2.20"}
    assert api.post(disks, {"volumeAttachment": {"volumeId": str(second.id)}}, **on_shelf).status_code == 200
    shown = api.get(f"/volume/v3/volumes/{second.id}").json()["volume"]
    assert (shown["status"], [each["server_id"] for each in shown["attachments"]]) == ("in-use", [server])
    assert shown["attachments"][0]["device"] == BlockDevice.objects.get(volume_id=second.id).device_name
    grown = api.post(f"/volume/v3/volumes/{second.id}/action", {"os-extend": {"new_size": 2}}, **newest)
    cloud.run()
    assert (grown.status_code, status(second)) == (202, "in-use")
    assert api.delete(f"{disks}/{second.id}", **on_shelf).status_code == 202
    assert status(second) == "available"
    assert api.post(disks, {"volumeAttachment": {"volumeId": str(second.id)}}, **on_shelf).status_code == 200
    assert api.delete(f"{disks}/{first.id}", **on_shelf).status_code == 202
    assert (status(first), status(second)) == ("available", "in-use")
    assert api.post(f"{V21}/servers/{server}/action", {"unshelve": None}).status_code == 202
    cloud.run()
    assert Instance.objects.get(id=server).vm_state == "active"
    assert {status(volume) for volume in Volume.objects.exclude(id=first.id)} == {"in-use"}


def test_volumes_of_a_deleted_server_wait_for_its_host_or_for_an_operators_word(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    attach(api, server, volume)
    cloud.run()
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    assert Instance.objects.get(id=server).vm_state == "deleted"
    assert status(volume) == "in-use"
    change_host(people.operator.context, Host.objects.get().id, forced_down=True)
    assert status(volume) == "available"


@pytest.mark.slow
def test_a_disk_that_is_not_the_servers_any_more_is_taken_from_its_guest(
    api: Api, cloud: Cloud, people: People
) -> None:
    """An operator has taken its volume; or its host was forced down, and is back with all it had."""
    server, volume, kept = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud)
    for each in (volume, kept):
        attach(api, server, each)
        cloud.run()
    attachment = str(Attachment.objects.get(volume=volume).id)
    volumes.force_detach(people.operator.context, volume.id)
    drain()
    (command,) = commands_of(cloud, DetachVolumeRequest)
    assert (command.body.disk.id, command.body.disk.attachment_id, command.body.force) == (
        str(volume.id),
        attachment,
        True,
    )
    assert [each.id for each in command.body.instance.volumes] == [str(kept.id)]
    assert not BlockDevice.objects.filter(volume_id=volume.id).exists()
    host, attempt = Host.objects.get(), Instance.objects.get(id=server).attempt

    def detachments(*has: object, complete: bool = True) -> list[DetachVolumeRequest]:
        state = GuestState(server, attempt, PowerState.RUNNING, [str(each) for each in has])
        audits.compare(host.id, [state], complete=complete)
        taken = [each.body for each in cloud.agents["h1"].take()]
        return [each for each in taken if isinstance(each, DetachVolumeRequest)]

    assert detachments(volume.id) == [], "it is told already"
    cloud.agents["h1"].report(command, "finished")
    assert detachments(kept.id) == []
    assert detachments(kept.id, uuid.uuid4()) == [], "the records may be lost"
    assert detachments(volume.id, complete=False) == [], "it may have been so a moment ago"
    (again,) = detachments(volume.id, kept.id)
    assert (again.disk.id, again.force) == (str(volume.id), True)


@pytest.mark.slow
def test_a_locked_server_keeps_its_volumes(api: Api, cloud: Cloud, people: People) -> None:
    server, volume, other = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    api.post(f"{V21}/servers/{server}/action", {"lock": None})
    message(attach(api, server, other), 409)
    message(api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}"), 409)
    assert (status(volume), status(other)) == ("in-use", "available")


@pytest.mark.slow
def test_what_becomes_of_a_volume_with_its_server_can_be_changed(
    api: Api, new_api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    attach(new_api, server, volume, tag="data")
    cloud.run()
    url = f"{V21}/servers/{server}/os-volume_attachments/{volume.id}"
    body = {"volumeAttachment": {"volumeId": str(volume.id), "delete_on_termination": True, "tag": "data"}}
    assert new_api.put(url, body).status_code == 202
    shown = new_api.get(url).json()["volumeAttachment"]
    assert (shown["delete_on_termination"], shown["tag"]) == (True, "data")
    body["volumeAttachment"]["tag"] = "other"
    assert "tag" in message(new_api.put(url, body), 400)
    api.delete(f"{V21}/servers/{server}")
    cloud.run()
    assert not Volume.objects.exists()


@pytest.mark.slow
def test_an_operator_puts_another_volume_in_its_place(
    api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    server, old, new = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud, 2)
    attach(api, server, old)
    cloud.run()
    url = f"{V21}/servers/{server}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": str(new.id)}}
    message(api.put(f"{url}/{old.id}", body), 403)
    operator = Api(people.operator)
    assert operator.put(f"{url}/{old.id}", body).status_code == 202
    assert status(new) == "attaching"
    cloud.run()
    assert (status(old), status(new), set(pool.clients)) == ("available", "in-use", {str(new.id)})
    assert [each["volumeId"] for each in api.get(url).json()["volumeAttachments"]] == [str(new.id)]
    assert "same size" in message(operator.put(f"{url}/{new.id}", {"volumeAttachment": {"volumeId": str(old.id)}}), 400)


@pytest.mark.slow
def test_a_grown_volume_grows_at_its_guest(api: Api, cloud: Cloud, people: People, server: str, volume: Volume) -> None:
    attach(api, server, volume)
    cloud.run()
    volumes.Extend.begin(people.alice.context, volume.id, 4)
    [command] = commands_of(cloud, RefreshVolumeRequest)
    assert isinstance(command.body, RefreshVolumeRequest)
    assert command.body.disk.size_gb == 4
    cloud.agents["h1"].carry_out(command)
    cloud.run()
    volume.refresh_from_db()
    assert (volume.status, volume.size_gb, BlockDevice.objects.get().size) == ("in-use", 4, 4)
    action = InstanceAction.objects.get(action="extend_volume")
    assert (action.finished_at is not None, action.message) == (True, None)
    assert action.events.get(name="compute_extend_volume").result == "Success"


@pytest.mark.slow
def test_a_volume_in_use_moves_to_another_pool(api: Api, cloud: Cloud, people: People, pool: ScriptedPool) -> None:
    agent = cloud.agents["h1"]
    agent.serve(ScriptedPool(name="other"))
    other = list(agent.pools.values())[-1]
    server, volume = launch(api, cloud), new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    volume.refresh_from_db()
    before = volume.pool_id
    target = next(each for each in (pool, other) if each.id != str(before))
    volumes.Migrate.begin(people.operator.context, volume.id, uuid.UUID(target.id))
    [command] = commands_of(cloud, SwapVolumeRequest)
    assert isinstance(command.body, SwapVolumeRequest)
    assert command.body.new.serial == command.body.old.serial == str(volume.id)
    agent.carry_out(command)
    cloud.run()
    volume.refresh_from_db()
    assert (volume.status, str(volume.pool_id)) == ("in-use", target.id)
    assert BlockDevice.objects.get().attachment_id == Attachment.objects.get().id
    assert api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}").status_code == 202
    cloud.run()
    assert (status(volume), target.clients) == ("available", {})


@pytest.mark.slow
def test_an_image_of_a_server_that_boots_from_a_volume_boots_another_one(
    new_api: Api, cloud: Cloud, people: People, pool: ScriptedPool
) -> None:
    volume = bootable(people, cloud)  # it has the attributes of its image, which are none of another image's
    root = from_volume(volume, boot_index=0)
    server = launch(new_api, cloud, imageRef=None, networks="auto", block_device_mapping_v2=[root])
    url = f"{V21}/servers/{server}/action"
    assert "specify the rescue image" in message(new_api.post(url, {"rescue": {}}), 400)
    answer = new_api.post(url, {"createImage": {"name": "kept"}})
    assert answer.status_code == 202, answer.content
    cloud.run()
    image = Image.objects.get(id=answer.json()["image_id"])
    assert (image.status, image.size, len(pool.snapshots)) == ("active", 512, 1)
    twin = launch(new_api, cloud, imageRef=str(image.id), networks="auto")
    instance = Instance.objects.get(id=twin)
    assert (instance.vm_state, instance.image_id) == ("active", None)
    device = BlockDevice.objects.get(instance=instance)
    assert (device.source_type, str(device.source_id), device.boot_index) == ("snapshot", *pool.snapshots, 0)
    backup = {"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}
    assert "not supported" in message(new_api.post(url, backup), 400)
    wrongs = ["[", "{}", '[{"source_type": "volume"}]', "[1]", "7", '[{"source_type": "snapshot"}]']
    entry = '"source_type": "snapshot", "destination_type": "volume", "boot_index": 0'
    entry += f', "snapshot_id": "{next(iter(pool.snapshots))}"'
    numbers = ('"volume_size": Infinity', f'"volume_size": {"9" * 30}', '"volume_size": -1')
    for more in (*numbers, r'"tag": "\ud800"', r'"snapshot_id": "\ud800"'):
        wrongs.append(f"[{{{entry}, {more}}}]")
    for wrong in wrongs:
        Image.objects.filter(id=image.id).update(properties={"block_device_mapping": wrong})
        message(new_api.post(f"{V21}/servers", server_body(cloud, imageRef=str(image.id), networks="auto")), 400)


@pytest.mark.slow
def test_volumes_and_snapshots_are_passed_on_in_the_old_form(api: Api, cloud: Cloud, people: People) -> None:
    made = api.post(f"{V21}/os-volumes", {"volume": {"size": 1, "display_name": "old"}}).json()["volume"]
    cloud.run()
    server = launch(api, cloud)
    attach(api, server, made["id"])
    cloud.run()
    url = f"{V21}/os-volumes/{made['id']}"
    shown = api.get(url).json()["volume"]
    assert (shown["status"], shown["displayName"], shown["attachments"][0]["serverId"]) == ("in-use", "old", server)
    for query in ("limit=5", "limit=0", "limit=1&offset=0"):
        assert api.get(f"{V21}/os-volumes/detail?{query}").json()["volumes"] == [shown], query
    assert api.get(f"{V21}/os-volumes?offset=1").json()["volumes"] == []
    for query in ("limit=", "offset="):
        message(api.get(f"{V21}/os-volumes?{query}"), 400)
        message(api.get(f"{V21}/os-snapshots?{query}"), 400)
    message(api.delete(url), 400)
    body = {"snapshot": {"volume_id": made["id"], "force": True, "display_name": "now"}}
    frozen = api.post(f"{V21}/os-snapshots", body).json()["snapshot"]
    cloud.run()
    assert api.get(f"{V21}/os-snapshots/{frozen['id']}").json()["snapshot"]["status"] == "available"
    assert [each["displayName"] for each in api.get(f"{V21}/os-snapshots").json()["snapshots"]] == ["now"]
    assert api.get(f"{V21}/os-snapshots/{frozen['id']}", OpenStack_API_Version="compute 2.36").status_code == 404
    assert Api(people.charlie).get(url).status_code == 404
    assert api.delete(f"{V21}/os-snapshots/{frozen['id']}").status_code == 202
    api.delete(f"{V21}/servers/{server}")
    cloud.run()
    assert api.delete(url).status_code == 202
    cloud.run()
    assert not Volume.objects.exists()


@pytest.mark.slow
def test_servers_have_the_address_of_those_that_boot_from_volumes(new_api: Api, cloud: Cloud) -> None:
    """``os-volumes_boot`` is another address of ``servers``, as in Nova, in every microversion."""
    body = server_body(cloud, networks="auto", block_device_mapping_v2=[from_image(cloud)])
    del body["server"]["imageRef"]
    disks = [from_image(cloud, volume_type="none")]
    typed = {"server": body["server"] | {"block_device_mapping_v2": disks}}
    assert "Volume type none" in message(new_api.post(f"{V21}/os-volumes_boot", typed), 400)
    made = new_api.post(f"{V21}/os-volumes_boot", body).json()["server"]
    cloud.run()
    one = f"{V21}/os-volumes_boot/{made['id']}"
    assert new_api.get(one).json()["server"]["image"] == ""
    assert [each["id"] for each in new_api.get(f"{V21}/os-volumes_boot/detail").json()["servers"]] == [made["id"]]
    assert new_api.post(f"{one}/action", {"os-stop": None}).status_code == 202
    assert new_api.delete(one).status_code == 204
