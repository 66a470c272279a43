"""What is made up for when a step between a volume and its server is lost, comes twice or too late, or its host is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import AttachVolumeRequest, DetachVolumeRequest
from compute_agent.contract.messages import Command
from provisioning.compute.inbound import volume_user
from provisioning.compute.models import BlockDevice, Instance, InstanceAction
from provisioning.hosts.models import Host, RejectedReport
from provisioning.volumes import services as volumes
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.upkeep.upkeep import follow_dead_hosts, reap
from tests.compute_api.conftest import V21, launch, new_volume
from tests.compute_api.test_volumes import attach, cloud, from_image, status
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.landing import one_in

pytestmark = pytest.mark.slow

__all__ = ["cloud"]


def test_a_volume_that_is_connected_reaches_its_guest_in_the_end(
    api: Api, cloud: Cloud, people: People, monkeypatch: pytest.MonkeyPatch, server: str, volume: Volume
) -> None:
    with monkeypatch.context() as lost:

        def lose(*_: object, **__: Any) -> None:
            pass

        lost.setattr(volume_user, "cast_here", lose)
        assert attach(api, server, volume).status_code == 200
        cloud.run()
    assert Attachment.objects.get(volume=volume).connection != {}
    reap()
    cloud.run()
    assert status(volume) == "attaching", "its time is not over"
    Attachment.objects.filter(volume=volume).update(updated_at=timezone.now() - timedelta(hours=1))
    reap()
    cloud.run()
    assert status(volume) == "in-use"


def shelved(api: Api, cloud: Cloud, *volumes: Volume) -> str:
    """Return a server on the shelf that boots from a volume, and has others."""
    server = launch(api, cloud, imageRef=None, block_device_mapping_v2=[from_image(cloud)])
    for each in volumes:
        attach(api, server, each)
        cloud.run()
    assert api.post(f"{V21}/servers/{server}/action", {"shelve": None}).status_code == 202
    cloud.run()
    return server


def begin_to_unshelve(api: Api, server: str) -> None:
    assert api.post(f"{V21}/servers/{server}/action", {"unshelve": None}).status_code == 202
    drain()


def test_a_server_stays_on_its_shelf_with_all_volumes_that_cannot_be_connected(
    api: Api, cloud: Cloud, people: People
) -> None:
    """Each volume is refused for itself, and a refusal may come twice: the first one ends the task."""
    server, agent = shelved(api, cloud, new_volume(people, cloud)), cloud.agents["h1"]
    begin_to_unshelve(api, server)
    for command in agent.take():
        agent.fail(command, "The pool is away.", retryable=False)
    cloud.run()
    for device in BlockDevice.objects.all():
        volume_user.refused(str(device.attachment_id), "The pool is away.")
    assert Instance.objects.get(id=server).vm_state == "shelved_offloaded"
    assert sorted(BlockDevice.objects.values_list("boot_index", flat=True), key=str) == [0, None]
    assert list(Volume.objects.values_list("status", flat=True)) == ["reserved"] * 2
    begin_to_unshelve(api, server)
    cloud.run()
    assert list(Volume.objects.values_list("status", flat=True)) == ["in-use"] * 2


@pytest.mark.parametrize("dead", [False, True])
def test_a_volume_that_is_being_taken_out_outlives_its_server(
    api: Api, new_api: Api, cloud: Cloud, people: People, *, dead: bool, server: str, volume: Volume
) -> None:
    attach(new_api, server, volume, delete_on_termination=True)
    cloud.run()
    assert api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}").status_code == 202
    if dead:
        Host.objects.update(forced_down=True)
        follow_dead_hosts()
        assert status(volume) == "available"
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    Host.objects.update(forced_down=False)
    cloud.run()
    assert status(volume) == "available"


def host_dies(*, back: bool = False) -> None:
    Host.objects.update(forced_down=not back)
    follow_dead_hosts()
    drain()


def open_actions() -> list[str]:
    return list(InstanceAction.objects.filter(finished_at=None).values_list("action", flat=True))


@one_in(2, "spawning", [True, False])
def test_a_server_keeps_its_volumes_while_the_host_dies_on_which_it_comes_off_its_shelf(
    api: Api, cloud: Cloud, people: People, *, spawning: bool
) -> None:
    server, agent = shelved(api, cloud, new_volume(people, cloud)), cloud.agents["h1"]
    begin_to_unshelve(api, server)
    if spawning:
        for command in agent.take():
            agent.carry_out(command)
        drain()
    before = set(BlockDevice.objects.values_list("attachment_id", flat=True))
    host_dies()
    assert set(Volume.objects.values_list("status", flat=True)) == {"attaching"}
    host_dies(back=True)
    cloud.run()
    assert Instance.objects.get(id=server).vm_state == "active"
    assert set(Attachment.objects.values_list("id", flat=True)) == before
    assert set(Volume.objects.values_list("status", flat=True)) == {"in-use"}


def test_a_server_whose_attachments_are_gone_comes_off_its_shelf_with_new_ones(
    api: Api, cloud: Cloud, people: People
) -> None:
    server = shelved(api, cloud)
    Attachment.objects.all().delete()
    Volume.objects.update(status="available")
    begin_to_unshelve(api, server)
    cloud.run()
    assert Instance.objects.get(id=server).vm_state == "active"
    assert Attachment.objects.get().id == BlockDevice.objects.get().attachment_id


@pytest.mark.parametrize("leaving", [False, True])
def test_nothing_is_left_of_a_volume_on_its_way_when_its_host_dies(
    api: Api, cloud: Cloud, people: People, *, leaving: bool, server: str, volume: Volume
) -> None:
    attach(api, server, volume)
    if leaving:
        cloud.run()
        assert api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}").status_code == 202
    host_dies()
    assert (status(volume), BlockDevice.objects.count(), open_actions()) == ("available", 0, [])
    host_dies(back=True)
    cloud.run()
    assert (status(volume), BlockDevice.objects.count(), open_actions()) == ("available", 0, [])


@pytest.mark.parametrize("taken", ["old", "new"])
def test_what_an_operator_takes_during_a_swap_is_taken_from_the_guest(
    api: Api, cloud: Cloud, people: People, taken: str
) -> None:
    """The old one: the new one goes as well; the new one: the guest gets back what it had."""
    server, old, new = launch(api, cloud), new_volume(people, cloud), new_volume(people, cloud)
    attach(api, server, old)
    cloud.run()
    url, agent = f"{V21}/servers/{server}/os-volume_attachments/{old.id}", cloud.agents["h1"]
    assert Api(people.operator).put(url, {"volumeAttachment": {"volumeId": str(new.id)}}).status_code == 202
    for command in agent.take():  # the storage daemon lets the guest in
        agent.carry_out(command)
    drain()
    (swap,) = agent.take()
    volumes.force_detach(people.operator.context, (old if taken == "old" else new).id)
    drain()
    assert open_actions() == []
    agent.carry_out(swap)
    drain()
    bodies = [command.body for command in sent_commands(cloud)]
    removed = {each.disk.id for each in bodies if isinstance(each, DetachVolumeRequest) and each.force}
    plugged = [each.disk.id for each in bodies if isinstance(each, AttachVolumeRequest)]
    assert removed == ({str(old.id), str(new.id)} if taken == "old" else {str(new.id)})
    assert plugged == ([] if taken == "old" else [str(old.id)])
    assert (status(old), status(new)) == (("available" if taken == "old" else "in-use"), "available")
    assert list(BlockDevice.objects.values_list("swap_attachment_id", flat=True)) == ([] if taken == "old" else [None])


def test_what_an_operator_takes_while_it_is_attached_is_taken_from_the_guest(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    attach(api, server, volume)
    for command in agent.take():
        agent.carry_out(command)
    drain()
    (attaching,) = agent.take()
    volumes.force_detach(people.operator.context, volume.id)
    drain()
    agent.carry_out(attaching)
    (removal,) = [each.body for each in sent_commands(cloud) if isinstance(each.body, DetachVolumeRequest)]
    assert (removal.disk.id, removal.force) == (str(volume.id), True)
    assert (status(volume), BlockDevice.objects.count(), open_actions()) == ("available", 0, [])


def sent_commands(cloud: Cloud) -> list[Command]:
    """Return the commands that the host gets until nothing follows from them any more; it carries all out."""
    agent, result = cloud.agents["h1"], list[Command]()
    while commands := agent.take():
        result += commands
        for command in commands:
            agent.carry_out(command)
        drain()
    return result


@pytest.mark.parametrize("well", [True, False])
def test_a_host_may_report_of_an_attachment_that_was_released_a_moment_ago(
    api: Api, cloud: Cloud, people: People, well: bool, server: str, volume: Volume
) -> None:
    """The disk is still in the records, because the job that forgets it has not run yet."""
    agent = cloud.agents["h1"]
    attach(api, server, volume)
    if not well:
        cloud.run()
        assert api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}").status_code == 202
    else:
        for command in agent.take():
            agent.carry_out(command)
        drain()
    (command,) = agent.take()
    volumes.force_detach(people.operator.context, volume.id)
    if well:
        agent.carry_out(command)
    else:
        agent.report(command, "failed", error_code="host_failed", message="The guest has not let go of it.")
    assert not RejectedReport.objects.exists()
    drain()
    cloud.run()
    assert (status(volume), BlockDevice.objects.count(), open_actions()) == ("available", 0, [])
