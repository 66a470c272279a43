"""What is asked of a server whose host is away: refused in words and nothing changed, or it waits for the host."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.detach_volume import detach_volume
from provisioning.compute.actions.guest_disks import ExtendFileSystem, MountVolume, VolumeToMount
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.registry import host_actions
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.swap_volume import swap_volume
from provisioning.compute.models import Allocation, Instance, InstanceAction, Migration
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCommand
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.quotas.models import QuotaUsage
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support import invariants
from tests.support.actions import begin, way_to
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.landing import one_in

pytestmark = pytest.mark.django_db
TOUCHED: list[type[Model]] = [Instance, Allocation, InstanceAction, Migration, HostCommand, Image, Port, QuotaUsage]
TOUCHED += [Volume, Attachment]


WAIT_FOR_THE_HOST = {"delete", "offload", "soft_delete"}
"""Actions that need no answer of the host to begin."""
OF_VOLUMES = {"attach_volume", "detach_volume", "swap_volume", "mount_volume", "extend_file_system"}
"""Volumes have to be there first: they have a test of their own."""
OF_TWO_HOSTS = {key for key, action in host_actions.items() if action.two_hosts}
"""Moves of running servers: the other host has to be there, and the refusal is a conflict."""
ASKED = sorted(set(host_actions) - WAIT_FOR_THE_HOST - OF_VOLUMES - OF_TWO_HOSTS - {"refresh_ports", "refresh_volume"})
"""Every action that a host carries out; the refresh of ports and of volumes is nobody's request."""


def away(cloud: Cloud) -> None:
    Host.objects.update(connected=False, last_seen_at=timezone.now() - timedelta(days=1))


def everything() -> list[list[dict[str, Any]]]:
    return [list(model._default_manager.order_by("pk").values()) for model in TOUCHED]


@pytest.mark.slow
@one_in(3, "requested", ASKED)
def test_it_is_refused_and_changes_nothing(cloud: Cloud, alice: RequestContext, settings: Any, requested: str) -> None:
    settings.SHELVED_OFFLOAD_TIME = -1
    host = cloud.add_host("kelvin", memory_mb=16384)
    Image.objects.update(properties={"hw_qemu_guest_agent": "yes"})
    server = cloud.launch(alice)
    cloud.run()
    for step in way_to(host_actions[requested]):
        begin(step, context("alice"), cloud, server)
        cloud.run()
    away(cloud)
    known = everything()
    with pytest.raises(UnavailableError, match="does not answer"):
        begin(requested, context("alice"), cloud, server)
    assert everything() == known
    host.hello()
    begin(requested, context("alice"), cloud, server)
    cloud.run()
    delete(context("alice"), server.id, force=True)
    cloud.run()
    invariants.check_empty()


@pytest.mark.slow
def test_volumes_are_left_as_they_are(cloud: Cloud, alice: RequestContext) -> None:
    host = cloud.add_host("kelvin")
    host.serve()
    Image.objects.update(properties={"hw_qemu_guest_agent": "yes"})
    server = cloud.running(alice)
    first, second = (Create.begin(alice, VolumeRequest(size_gb=1)).id for _ in range(2))
    cloud.run()
    attach_volume(alice, server.id, VolumeToAttach(str(first)))
    cloud.run()
    away(cloud)
    known = everything()
    for ask in (
        lambda: attach_volume(alice, server.id, VolumeToAttach(str(second))),
        lambda: detach_volume(alice, server.id, str(first)),
        lambda: swap_volume(alice, server.id, str(first), str(second)),
        lambda: MountVolume.begin(alice, server.id, VolumeToMount(str(first), "/srv/data")),
        lambda: ExtendFileSystem.begin(alice, server.id, str(first)),
    ):
        with pytest.raises(UnavailableError, match="does not answer"):
            ask()
    assert everything() == known
    assert set(Volume.objects.values_list("id", "status")) == {(first, "in-use"), (second, "available")}


@pytest.mark.slow
def test_no_running_server_moves_from_it(cloud: Cloud, alice: RequestContext) -> None:
    source = cloud.add_host("kelvin")
    server = cloud.running(alice)
    target = cloud.add_host("nadel")
    away(cloud)
    target.hello()
    known = everything()
    with pytest.raises(ConflictError, match="does not answer"):
        LiveMigrate.begin(context("operator", ADMIN), server.id, LiveMigration())
    assert everything() == known
    assert source.guests


@pytest.mark.slow
def test_a_shelf_waits_for_the_word_of_the_host(cloud: Cloud, alice: RequestContext, settings: Any) -> None:
    """Its room is free when the host has said that nothing is left there, however long that takes."""
    settings.SHELVED_OFFLOAD_TIME = -1
    host = cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Shelve.begin(context("alice"), server.id)
    cloud.run()
    away(cloud)
    Offload.begin(context("operator", ADMIN), server.id)
    for _ in range(5):
        Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
        reap()
        assert state_of(server) == ("shelved", "shelving_offloading")
        assert Allocation.objects.count() == 1
    host.hello()
    cloud.run()
    assert state_of(server) == ("shelved_offloaded", None)
    assert not Allocation.objects.exists()
    assert host.guests == {}
