"""What servers with volumes show in each version, and what the actions of servers make of their volumes."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.new_volumes import create_and_attach
from provisioning.compute.models import BlockDevice, Flavor, Instance
from provisioning.compute.states import TaskState
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from tests.compute_api.conftest import V21, launch, new_volume, server_body
from tests.compute_api.test_volumes import attach, from_image, from_volume, image_disk, message
from tests.support import invariants
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
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


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


@pytest.mark.slow
def test_what_a_server_on_a_volume_shows(api: Api, cloud: Cloud, people: People) -> None:
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud, disk_bus="scsi")])
    [root] = BlockDevice.objects.all()
    url, volumes_attached = f"{V21}/servers/{server}", "os-extended-volumes:volumes_attached"
    assert api.get(url, **at("2.1")).json()["server"][volumes_attached] == [{"id": str(root.volume_id)}]
    later = [{"id": str(root.volume_id), "delete_on_termination": True}]
    for version in ("2.3", "2.96"):
        shown = Api(people.operator).get(url, **at(version)).json()["server"]
        assert (shown["image"], shown[volumes_attached]) == ("", later)
        assert shown["OS-EXT-SRV-ATTR:root_device_name"] == root.device_name == "/dev/sda"
    assert shown["locked"] is False
    listed = api.get(f"{V21}/servers/detail").json()["servers"][0]
    assert listed[volumes_attached] == [{"id": str(root.volume_id)}]


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.1", {"id", "volumeId", "serverId", "device"}),
        ("2.69", {"id", "volumeId", "serverId", "device"}),
        ("2.70", {"id", "volumeId", "serverId", "device", "tag"}),
        ("2.79", {"id", "volumeId", "serverId", "device", "tag", "delete_on_termination"}),
        ("2.88", {"id", "volumeId", "serverId", "device", "tag", "delete_on_termination"}),
        (
            "2.89",
            {"volumeId", "serverId", "device", "tag", "delete_on_termination", "attachment_id", "bdm_uuid"},
        ),
    ],
)
def test_what_attachments_show(
    api: Api, cloud: Cloud, people: People, version: str, fields: set[str], server: str, volume: Volume
) -> None:
    url = f"{V21}/servers/{server}/os-volume_attachments"
    answer = api.post(url, {"volumeAttachment": {"volumeId": str(volume.id)}}, **at(version))
    assert set(answer.json()["volumeAttachment"]) == (fields - {"attachment_id", "bdm_uuid"}) | {"id"}
    cloud.run()
    [listed] = api.get(url, **at(version)).json()["volumeAttachments"]
    assert set(listed) == fields
    assert api.get(f"{url}/{volume.id}", **at(version)).json()["volumeAttachment"] == listed


@pytest.mark.slow
def test_attachments_are_listed_in_parts(api: Api, cloud: Cloud, people: People, server: str) -> None:
    url = f"{V21}/servers/{server}/os-volume_attachments"
    for _ in range(2):
        api.post(url, {"volumeAttachment": {"volumeId": str(new_volume(people, cloud).id)}})
        cloud.run()
    both = api.get(url).json()["volumeAttachments"]
    assert len(both) == 2
    for query, shown in {"limit=0": both, "limit=1": both[:1], "offset=1": both[1:], "limit=1&offset=2": []}.items():
        assert api.get(f"{url}?{query}").json()["volumeAttachments"] == shown, query
    for query in ("limit=", "offset="):
        message(api.get(f"{url}?{query}"), 400)


@pytest.mark.parametrize(
    ("version", "field", "value"),
    [("2.48", "tag", "a"), ("2.78", "delete_on_termination", True)],
)
def test_what_older_versions_cannot_say(
    api: Api, cloud: Cloud, people: People, version: str, field: str, value: object, server: str, volume: Volume
) -> None:
    url, body = f"{V21}/servers/{server}/os-volume_attachments", {"volumeId": str(volume.id), field: value}
    assert field in message(api.post(url, {"volumeAttachment": body}, **at(version)), 400)
    newer = f"2.{int(version[2:]) + 1}"
    assert api.post(url, {"volumeAttachment": body}, **at(newer)).status_code == 200


def test_multiattach_volumes_are_for_who_knows_of_them(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    Volume.objects.update(multiattach=True)
    url, body = f"{V21}/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": str(volume.id)}}
    assert "2.60" in message(api.post(url, body, **at("2.59")), 400)
    disks = [image_disk(cloud), from_volume(volume)]
    launched = server_body(cloud, block_device_mapping_v2=disks, networks="none")
    assert "2.60" in message(api.post(f"{V21}/servers", launched, **at("2.59")), 400)
    assert api.post(url, body, **at("2.60")).status_code == 200
    assert api.post(f"{V21}/servers", launched, **at("2.60")).status_code == 202


@pytest.mark.slow
def test_what_becomes_of_a_server_on_a_volume_that_is_moved_about(api: Api, cloud: Cloud, people: People) -> None:
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    volume = new_volume(people, cloud)
    attach(api, server, volume)
    cloud.run()
    path = f"{V21}/servers/{server}/action"
    before = sorted(Attachment.objects.values_list("id", "volume_id", "status", "mountpoint"))

    def do(body: dict[str, Any], version: str = "2.1", *, status: str = "ACTIVE") -> None:
        answer = api.post(path, body, **at(version))
        assert answer.status_code in (200, 202, 204), answer.content
        cloud.run()
        invariants.check()
        assert api.get(f"{V21}/servers/{server}").json()["server"]["status"] == status

    do({"resize": {"flavorRef": Flavor.objects.get(name="m1.big").flavorid}}, status="VERIFY_RESIZE")
    do({"revertResize": None})
    do({"resize": {"flavorRef": Flavor.objects.get(name="m1.big").flavorid}}, status="VERIFY_RESIZE")
    do({"confirmResize": None})
    assert Instance.objects.get(id=server).flavor["disk_gb"] == 0
    do({"rescue": {"rescue_image_ref": str(cloud.image.id)}}, "2.87", status="RESCUE")
    do({"unrescue": None})
    assert sorted(Attachment.objects.values_list("id", "volume_id", "status", "mountpoint")) == before
    do({"shelve": None}, status="SHELVED_OFFLOADED")
    assert {row.status for row in Volume.objects.all()} == {"reserved"}
    do({"unshelve": None})
    assert sorted(Attachment.objects.values_list("id", "volume_id", "status", "mountpoint")) == before
    assert {row.status for row in Volume.objects.all()} == {"in-use"}

    backup = {"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}
    assert "not supported for volume-backed" in message(api.post(path, backup), 400)
    assert "volume-backed" in message(api.post(path, {"rescue": {}}, **at("2.86")), 400)
    assert "rescue image" in message(api.post(path, {"rescue": {}}, **at("2.87")), 400)
    assert "too old" in message(Api(people.operator).post(path, {"migrate": None}, **at("2.25")), 409)
    live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert "too old" in message(Api(people.operator).post(path, live, **at("2.25")), 409)
    assert sorted(Attachment.objects.values_list("id", "volume_id", "status", "mountpoint")) == before


@pytest.mark.slow
def test_a_server_set_in_error_on_its_way_to_the_shelf_keeps_its_volumes_until_it_is_deleted(
    api: Api, cloud: Cloud, people: People
) -> None:
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    path, agent = f"{V21}/servers/{server}/action", cloud.agents["h1"]
    assert api.post(path, {"shelve": None}).status_code == 202
    while Instance.objects.get(id=server).task_state != TaskState.SHELVING_OFFLOADING:
        [command] = agent.take()
        agent.carry_out(command)
    assert Api(people.operator).post(path, {"os-resetState": {"state": "error"}}).status_code == 202
    cloud.run()
    assert (agent.guests, Instance.objects.get(id=server).host) == ({}, None)
    assert (Volume.objects.get().status, Port.objects.filter(device_id=server).count()) == ("reserved", 1)
    invariants.check()
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.run()
    assert not Volume.objects.exclude(status="deleted").exists()
    invariants.check_empty()


@each_row(("device", "bus"), [("floppy", ""), ("disk", "sata"), ("cdrom", "virtio"), ("", "nvme")])
def test_rescue_disks_that_there_are_not(api: Api, cloud: Cloud, device: str, bus: str, server: str) -> None:
    properties = {"hw_rescue_device": device, "hw_rescue_bus": bus}
    Image.objects.filter(id=cloud.image.id).update(
        properties={name: value for name, value in properties.items() if value}
    )
    assert "is not supported" in message(api.post(f"{V21}/servers/{server}/action", {"rescue": {}}), 400)


@pytest.mark.slow
def test_disks_on_buses_without_hot_plug_are_changed_while_the_server_is_stopped(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    path, disks = f"{V21}/servers/{server}/action", f"{V21}/servers/{server}/os-volume_attachments"
    for bus in ("ide", "sata"):
        Instance.objects.filter(id=server).update(image_properties={"hw_disk_bus": bus})
        assert f"on the bus {bus}" in message(attach(api, server, volume), 400)
        with pytest.raises(InvalidInputError, match="Stop the instance"):
            create_and_attach(people.alice.context, server, VolumeRequest(size_gb=1))
    assert [each.status for each in Volume.objects.all()] == ["available"]

    def do(action: str) -> None:
        assert api.post(path, {action: None}).status_code == 202
        cloud.run()

    do("os-stop")
    assert attach(api, server, volume).status_code == 200
    cloud.run()
    assert (Volume.objects.get().status, BlockDevice.objects.get().disk_bus) == ("in-use", "sata")
    do("os-start")
    assert "on the bus sata" in message(api.delete(f"{disks}/{volume.id}"), 400)
    do("os-stop")
    assert api.delete(f"{disks}/{volume.id}").status_code == 202
    cloud.run()
    assert (Volume.objects.get().status, BlockDevice.objects.exists()) == ("available", False)
