"""Rebuild of servers that boot from volumes: up to 2.92 the volume keeps its data, from 2.93 on it has the image."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import PowerRequest, RebuildRequest
from compute_agent.contract.volume import ReimageVolumeRequest
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.volume_rebuilds import NO_VOLUME
from provisioning.compute.models import BlockDevice, Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image
from provisioning.volumes.models import Attachment, Message, Volume
from provisioning.volumes.services import force_detach
from provisioning.volumes.upkeep.upkeep import reap
from tests.compute_api.conftest import V21, launch, server_body
from tests.compute_api.test_volumes import from_image, message
from tests.support import invariants
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing

pytestmark = pytest.mark.django_db
ON_THE_WAY = ("active", "rebuild_block_device_mapping")


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve(ScriptedPool(capabilities={"multiattach": "true"}))
    return cloud


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    data = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    return launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud), data])


@pytest.fixture
@standing
def other(cloud: Cloud) -> Image:
    """Another image than the volume was made of."""
    image = Image.objects.get(id=cloud.image.id)
    image.pk, image.name, image.properties = uuid.uuid4(), "other", {"hw_video_model": "qxl"}
    image.save(force_insert=True)
    return image


def rebuild(api: Api, server: str, image: Image, version: str = "2.93", **more: Any) -> Any:
    body = {"rebuild": {"imageRef": str(image.id), **more}}
    return api.post(f"{V21}/servers/{server}/action", body, OpenStack_API_Version=f"compute {version}")


def now(server: str) -> tuple[str, str | None]:
    return Instance.objects.values_list("vm_state", "task_state").get(id=server)


def root_of(server: str) -> Volume:
    return Volume.objects.get(id=BlockDevice.objects.get(instance_id=server, boot_index=0).volume_id)


def steps(server: str) -> list[tuple[str, str]]:
    rows = InstanceActionEvent.objects.filter(action__instance_id=server, action__action="rebuild").order_by(
        "started_at"
    )
    return list(rows.values_list("name", "result"))


def stopped(cloud: Cloud, server: str) -> None:
    """The host has stopped the guest, and nobody has begun to write the volume."""
    host = cloud.agents["h1"]
    [stop] = host.take()
    assert isinstance(stop.body, PowerRequest)
    assert stop.body.action == "stop"
    host.carry_out(stop)
    assert now(server) == ON_THE_WAY


@pytest.mark.slow
def test_up_to_292_the_volume_keeps_its_data(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    assert "different image" in message(rebuild(api, server, other, "2.92"), 400)
    assert rebuild(api, server, cloud.image, "2.92").status_code == 202
    [command] = cloud.agents["h1"].take()
    assert isinstance(command.body, RebuildRequest)
    cloud.agents["h1"].carry_out(command)
    assert (now(server), root_of(server).status) == (("active", None), "in-use")


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.parametrize("was", ["active", "stopped"])
def test_from_293_on_the_image_is_written_between_stop_and_start(
    api: Api, cloud: Cloud, server: str, other: Image, was: str
) -> None:
    if was == "stopped":
        api.post(f"{V21}/servers/{server}/action", {"os-stop": None})
        cloud.run()
    attachments = sorted(Attachment.objects.values_list("id", "status"))
    answer = rebuild(api, server, other, preserve_ephemeral=True)
    assert answer.status_code == 202
    assert (answer.json()["server"]["status"], answer.json()["server"]["image"]) == ("REBUILD", "")
    host = cloud.agents["h1"]
    [stop] = host.take()
    host.carry_out(stop)
    assert now(server) == (was, "rebuild_block_device_mapping")
    assert Instance.objects.get(id=server).power_state == 4
    shown = api.get(f"{V21}/servers/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "rebuild_block_device_mapping")
    invariants.check()
    [write] = host.take()
    assert isinstance(write.body, ReimageVolumeRequest)
    assert (write.body.image.id, root_of(server).status) == (str(other.id), "downloading")
    host.report(write, "progress", detail={"done": "300", "total": "1000"})
    step = InstanceActionEvent.objects.get(name="rebuild_block_device_mapping")
    assert (step.detail, step.finished_at) == ({"done": "300", "total": "1000"}, None)
    host.carry_out(write)
    assert root_of(server).status == "in-use"
    drain()
    assert now(server) == (was, "rebuild_spawning")
    [again] = host.take()
    assert isinstance(again.body, RebuildRequest)
    assert (again.body.start, again.body.preserve_ephemeral) == (was == "active", True)
    assert [disk.device for disk in again.body.instance.volumes] == ["vda", "vdb"]
    host.carry_out(again)
    invariants.check()
    assert now(server) == (was, None)
    assert sorted(Attachment.objects.values_list("id", "status")) == attachments
    instance, volume = Instance.objects.get(id=server), root_of(server)
    assert (instance.image_id, instance.image_properties) == (None, {"hw_video_model": "qxl"})
    assert (volume.source_image_id, volume.image_metadata["image_name"]) == (other.id, "other")
    done = ["api_rebuild", "stop_guest", "rebuild_block_device_mapping", "compute_rebuild"]
    assert steps(server) == [(name, "Success") for name in done]
    assert not InstanceAction.objects.filter(finished_at=None).exists()
    assert rebuild(api, server, cloud.image).status_code == 202


def test_an_image_that_is_too_large_is_refused_at_once(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    Image.objects.filter(id=other.id).update(virtual_size=4 << 30)
    assert "needs 4 GiB" in message(rebuild(api, server, other), 400)
    Image.objects.filter(id=other.id).update(virtual_size=1 << 30, min_ram=1 << 20)
    assert "memory" in message(rebuild(api, server, other), 400)
    Volume.objects.filter(id=root_of(server).id).update(status="extending")
    assert "extending" in message(rebuild(api, server, cloud.image), 400)
    assert now(server) == ("active", None)
    assert "image" in message(rebuild(api, server, Image(id=uuid.uuid4())), 400)


@pytest.mark.slow
def test_what_fails_is_reported_and_another_rebuild_mends_it(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    host = cloud.agents["h1"]
    rebuild(api, server, other)
    [stop] = host.take()
    host.report(stop, "failed", error_code="host_failed", message="It does not stop.")
    assert (now(server), root_of(server).status) == (("error", None), "in-use")
    rebuild(api, server, other)
    host.failing["reimage_volume_request"] = "No space left."
    cloud.run()
    assert (now(server), root_of(server).status) == (("error", None), "error")
    messages = [InstanceFault.objects.order_by("-id")[0].message, Message.objects.get().text]
    assert all("No space left." in each for each in messages)
    assert str(root_of(server).id) in messages[0]
    assert steps(server)[-2:] == [("rebuild_block_device_mapping", "Error"), ("compute_rebuild", "Error")]
    invariants.check()
    rebuild(api, server, other)
    [stop] = host.take()
    host.report(stop, "failed", error_code="instance_not_found", message="There is no such guest.")
    cloud.run()
    assert (now(server), root_of(server).status) == (("active", None), "in-use")


@pytest.mark.slow
def test_bits_that_do_not_fit_leave_the_volume_as_it_was(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    rebuild(api, server, other)
    stopped(cloud, server)
    [write] = cloud.agents["h1"].take()
    cloud.agents["h1"].report(write, "failed", error_code="image_unacceptable", message="The image is larger.")
    cloud.run()
    volume = root_of(server)
    assert (now(server), volume.status, volume.source_image_id) == (("error", None), "in-use", cloud.image.id)


def test_an_image_that_goes_meanwhile_ends_it(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    rebuild(api, server, other)
    Image.objects.filter(id=other.id).update(status="deleted")
    cloud.run()
    assert (now(server), root_of(server).status) == (("error", None), "in-use")
    assert InstanceFault.objects.get().message


@pytest.mark.slow
def test_silence_of_the_storage_host(api: Api, cloud: Cloud, server: str, other: Image) -> None:
    """The server waits as long as its volume is being written; when that is over, it is in error with the reason."""
    rebuild(api, server, other)
    stopped(cloud, server)
    past = timezone.now() - timedelta(seconds=1)
    Instance.objects.filter(id=server).update(task_deadline=past)
    reaper.reap()
    assert now(server) == ON_THE_WAY
    [write] = cloud.agents["h1"].take()
    HostCommand.objects.filter(id=write.id).update(deadline=past)
    Volume.objects.filter(id=root_of(server).id).update(deadline=past)
    reap()
    drain()
    assert (now(server), root_of(server).status) == (("error", None), "error")
    cloud.agents["h1"].report(write, "finished")
    assert root_of(server).status == "in-use"
    assert now(server) == ("error", None)


@pytest.mark.slow
def test_a_delete_in_the_middle(api: Api, cloud: Cloud, people: People, server: str, other: Image) -> None:
    rebuild(api, server, other)
    stopped(cloud, server)
    delete(people.alice.context, uuid.UUID(server), force=True)
    cloud.run()
    invariants.check()
    assert now(server) == ("deleted", None)
    assert [volume.status for volume in Volume.objects.all()] == ["available"]
    assert not Attachment.objects.exists()


@pytest.mark.slow
def test_a_volume_that_an_operator_takes_meanwhile(
    api: Api, cloud: Cloud, people: People, server: str, other: Image
) -> None:
    rebuild(api, server, other)
    stopped(cloud, server)
    force_detach(people.operator.context, root_of(server).id)
    cloud.run()
    assert now(server) == ("error", None)
    assert InstanceFault.objects.get().message == NO_VOLUME
    assert not [each for each in cloud.agents["h1"].take() if isinstance(each.body, RebuildRequest)]
    for version in ("2.92", "2.93"):
        assert NO_VOLUME in message(rebuild(api, server, cloud.image, version), 400)


@pytest.mark.slow
def test_bytes_of_a_new_volume_are_on_the_step_of_the_launch(api: Api, cloud: Cloud) -> None:
    body = server_body(cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    server = api.post(f"{V21}/servers", body).json()["server"]["id"]
    drain()
    [create] = cloud.agents["h1"].take()
    cloud.agents["h1"].report(create, "progress", detail={"done": "5", "total": "20"})
    step = InstanceActionEvent.objects.get(name="block_device_mapping")
    assert (step.detail["done"], step.detail["total"]) == ("5", "20")
    cloud.agents["h1"].carry_out(create)
    cloud.run()
    assert now(server) == ("active", None)
