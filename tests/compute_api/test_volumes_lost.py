"""What is made up for when a step between a volume and its server is lost, comes twice or too late, or its host is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute import volume_user
from provisioning.compute.models import BlockDevice, Instance
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.upkeep import follow_dead_hosts, reap
from tests.compute_api.conftest import V21, launch
from tests.compute_api.test_volumes import attach, cloud, from_image, new_volume, status
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain

__all__ = ["cloud"]


def test_a_volume_that_is_connected_reaches_its_guest_in_the_end(
    api: Api, cloud: Cloud, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, volume = launch(api, cloud), new_volume(people, cloud)
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
    api: Api, new_api: Api, cloud: Cloud, people: People, *, dead: bool
) -> None:
    server, volume = launch(api, cloud), new_volume(people, cloud)
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
