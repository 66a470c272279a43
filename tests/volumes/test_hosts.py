"""What hosts say of volumes and pools, what they do not say, and hosts that die."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.volume import VOLUME, ConnectVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, UnavailableError
from provisioning.hosts import liveness
from provisioning.hosts.models import Host, HostCommand
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.image_transfers import image_to_get
from provisioning.volumes.models import (
    Attachment,
    Message,
    PoolHost,
    StoragePool,
    TypeEncryption,
    Volume,
    VolumeType,
)
from provisioning.volumes.records.keys import encryption_of
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, Delete, Extend, VolumeDeletion, force_detach, reset_status
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.upkeep.upkeep import follow_dead_hosts, reap
from tests.support.passing_time import pass_time
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town


def long_after(volume: Volume) -> None:
    """Let the time of what goes on with a volume be over, and its commands'."""
    past = timezone.now() - timedelta(hours=1)
    Volume.objects.filter(id=volume.id).update(deadline=past)
    Attachment.objects.filter(volume_id=volume.id).update(updated_at=past)
    HostCommand.objects.filter(subject_id=volume.id).update(deadline=past, ends_at=past)
    reap()


@pytest.mark.slow
def test_a_silent_host_is_given_up_and_may_still_report(town: Town) -> None:
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1))
    (command,) = town.agent.take(begin=False)
    reap()
    assert town.fresh(volume).status == "creating", "its time is not over"
    long_after(volume)
    assert (town.fresh(volume).status, Message.objects.count()) == ("error", 1)
    town.agent.carry_out(command)
    assert town.fresh(volume).status == "available"

    Extend.begin(town.alice, volume.id, 4)
    (grow,) = town.agent.take()
    long_after(volume)
    assert (town.fresh(volume).status, StoragePool.objects.get().allocated_gb) == ("error_extending", 1)
    town.agent.carry_out(grow)
    assert (town.fresh(volume).status, town.fresh(volume).size_gb) == ("available", 4)
    assert StoragePool.objects.get().allocated_gb == 4

    Delete.begin(town.alice, volume.id, VolumeDeletion())
    (delete,) = town.agent.take()
    long_after(volume)
    assert town.fresh(volume).status == "error_deleting"
    town.agent.carry_out(delete)
    assert not Volume.objects.exists()


def test_a_daemon_that_nobody_hears_of_is_refused(town: Town) -> None:
    volume = town.make()
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, town.host)
    long_after(volume)
    assert [each for each in town.guests.notified if each[1] == attachment.id] != []
    assert (town.fresh(volume).status, Attachment.objects.count()) == ("available", 0)


def test_bytes_that_move_are_shown_and_bits_are_for_who_needs_them(town: Town) -> None:
    volume = Create.begin(town.alice, VolumeRequest(size_gb=3, image_id=str(town.cloud.image.id)))
    (command,) = town.agent.take()
    town.agent.report(command, "progress", detail={"done": "4096", "total": "8192"})
    after = town.fresh(volume)
    assert (after.progress_bytes, after.progress_total) == (4096, 8192)
    assert image_to_get(town.host.id, volume.id, town.cloud.image.id) == town.cloud.image
    with pytest.raises(NotFoundError):
        image_to_get(uuid.uuid4(), volume.id, town.cloud.image.id)
    town.agent.carry_out(command)
    assert (town.fresh(volume).status, town.fresh(volume).progress_bytes) == ("available", 0)
    with pytest.raises(NotFoundError):
        image_to_get(town.host.id, volume.id, town.cloud.image.id)


def test_what_is_reported_after_a_reset_changes_nothing(town: Town, operator: RequestContext) -> None:
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1))
    reset_status(operator, volume.id, status="error")
    town.agent.work()
    assert town.fresh(volume).status == "error"
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    owned = {
        (each.subject_kind, each.subject_id): each.generation for each in liveness.ownership(town.host.id).subjects
    }
    assert owned[VOLUME, str(volume.id)] == 2
    town.agent.work()
    assert not Volume.objects.exists()


def test_a_pool_belongs_to_who_has_it(town: Town) -> None:
    thief = town.cloud.add_host("nadel")
    thief.serve(ScriptedPool(id=town.pool.id, name="mine now"))
    assert [str(each) for each in PoolHost.objects.values_list("host__name", flat=True)] == ["kelvin"]
    assert StoragePool.objects.get().name == "local"
    shared = ScriptedPool(name="ceph", driver="rbd", shared=True)
    thief.serve(shared)
    town.agent.serve(shared)
    assert PoolHost.objects.filter(pool_id=shared.id).count() == 2
    town.agent.pools = {shared.id: shared}
    town.agent.measured()
    assert not PoolHost.objects.get(pool_id=town.pool.id).serving


def test_the_next_pool_is_tried_when_a_host_fails(town: Town) -> None:
    nadel = town.cloud.add_host("nadel")
    other = nadel.serve(ScriptedPool(name="second", free_gb=50))
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1))
    (command,) = town.agent.take()
    town.agent.report(command, "failed", error_code="host_failed", message="Full.", retryable=True)
    nadel.work()
    town.agent.work()
    assert (town.fresh(volume).status, str(town.fresh(volume).pool), len(other.volumes)) == ("available", "second", 1)
    assert dict(StoragePool.objects.values_list("name", "allocated_gb")) == {"local": 0, "second": 1}


@pytest.fixture
def ceph(town: Town) -> ScriptedPool:
    """A pool that kelvin and nadel both serve."""
    shared = ScriptedPool(name="ceph", driver="rbd", shared=True)
    town.agent.pools.clear()
    town.agent.serve(shared)
    town.cloud.add_host("nadel").serve(shared)
    return shared


@pytest.mark.slow
def test_the_next_host_waits_for_the_end_of_the_first_daemon(town: Town, ceph: ScriptedPool) -> None:
    nadel = town.cloud.agents["nadel"]
    volume = town.make()
    nadel.work()
    first = town.attach(volume)
    assert town.fresh(volume).daemon_host_id == town.host.id
    attachments.begin_detaching(first.id)
    attachments.release(first.id)
    second = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(second, nadel.host)
    assert nadel.work() == 0
    town.agent.work()
    nadel.work()
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id) == ("in-use", nadel.host.id)


@pytest.mark.slow
def test_a_dead_host_is_not_waited_for(town: Town, ceph: ScriptedPool, operator: RequestContext) -> None:
    nadel = town.cloud.agents["nadel"]
    volume = town.make()
    nadel.work()
    first = town.attach(volume)
    attachments.begin_detaching(first.id)
    Host.objects.filter(id=town.host.id).update(forced_down=True)
    follow_dead_hosts()
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id) == ("available", None)
    second = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(second, nadel.host)
    nadel.work()
    assert town.fresh(volume).status == "in-use"
    force_detach(operator, volume.id)
    assert (town.fresh(volume).status, Attachment.objects.count()) == ("available", 0)
    nadel.work()
    assert town.fresh(volume).daemon_host_id is None
    third = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(third, nadel.host)
    nadel.work()
    Host.objects.update(forced_down=False)
    commands = town.agent.take()  # it is back: whatever it has open ends
    assert {type(each.body) for each in commands} == {ConnectVolumeRequest}
    assert [each.body.clients for each in commands] == [[]]
    for command in commands:
        town.agent.carry_out(command)
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id) == ("in-use", nadel.host.id)


@pytest.mark.slow
def test_what_lies_on_a_dead_host_alone_is_refused_with_a_message_until_it_is_back(
    town: Town, operator: RequestContext
) -> None:
    volume, other = town.make(), town.make()
    attachment = town.attach(volume)
    assert town.pool.clients.keys() == {str(volume.id)}
    Host.objects.update(forced_down=True)
    for _ in range(2):
        follow_dead_hosts()
    assert {each.resource_id for each in Message.objects.all()} == {volume.id, other.id}
    assert Message.objects.count() == 2
    assert town.fresh(volume).status == "in-use", "its server may come back with it"
    with pytest.raises(UnavailableError):
        Extend.begin(town.alice, volume.id, 4)
    assert (town.fresh(volume).status, StoragePool.objects.get().allocated_gb) == ("in-use", 2)
    force_detach(operator, volume.id)
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id) == ("available", None)
    again = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    with pytest.raises(UnavailableError):
        attachments.connect(again, town.host)
    attachments.release(again.id)
    Delete.begin(town.alice, other.id, VolumeDeletion())
    assert town.fresh(other).status == "error_deleting"
    Host.objects.update(forced_down=False)
    town.agent.work()
    assert town.pool.clients == {}
    assert attachment.id != town.attach(volume).id
    Delete.begin(town.alice, other.id, VolumeDeletion())
    town.agent.work()
    assert town.pool.volumes.keys() == {str(volume.id)}


def test_an_export_ends_even_if_its_volume_could_not_be_deleted(town: Town) -> None:
    volume = town.make()
    attachment = town.attach(volume)
    assert town.pool.clients != {}
    Host.objects.update(forced_down=True)
    attachments.release(attachment.id)
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    assert town.fresh(volume).status == "error_deleting"
    Host.objects.update(forced_down=False)
    pass_time(86_400)
    [ending] = town.agent.take()
    assert ending.begin_within is None, "the host may have been away for any time"
    town.agent.carry_out(ending)
    assert not any(town.pool.clients.values())
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    town.agent.work()
    assert not Volume.objects.exists()


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_several_servers_have_a_volume_whose_type_allows_it(town: Town, ceph: ScriptedPool, *, encrypted: bool) -> None:
    """Also of an encrypted one: only the host of the daemon is told its key."""
    nadel = town.cloud.agents["nadel"]
    many = VolumeType.objects.create(name="many", extra_specs={"multiattach": "<is> True"})
    if encrypted:
        TypeEncryption.objects.create(volume_type=many, provider="luks")
    volume = town.make(volume_type="many")
    nadel.work()
    first = town.attach(volume)
    with pytest.raises(InvalidVolumeError):
        attachments.reserve(town.alice, volume.id, first.instance_id)
    second = attachments.reserve(town.alice, volume.id, uuid.uuid4(), mode="ro")
    attachments.connect(second, nadel.host)
    requests = [command.body for command in town.agent.take() if isinstance(command.body, ConnectVolumeRequest)]
    clients = [(each.attachment_id, each.local, each.read_only) for each in requests[-1].clients]
    assert clients == [(str(first.id), True, False), (str(second.id), False, True)], "one daemon opens the data"
    assert requests[-1].volume.encryption == encryption_of(volume)
    assert bool(encryption_of(volume)) is encrypted
    attachments.release(second.id)
    assert town.fresh(volume).status == "in-use"
    assert nadel.take() == []


@pytest.mark.slow
def test_a_daemon_stays_while_a_guest_of_another_host_has_the_volume_through_it(town: Town, ceph: ScriptedPool) -> None:
    nadel = town.cloud.agents["nadel"]
    ceph.driver = "dir"
    for agent in (town.agent, nadel):
        agent.measured()
    VolumeType.objects.create(name="many", extra_specs={"multiattach": "<is> True"})
    volume = town.make(volume_type="many")
    nadel.work()
    first = town.attach(volume)
    second = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(second, nadel.host)
    town.agent.work()
    attachments.begin_detaching(first.id)
    attachments.release(first.id)
    assert nadel.work() == 0
    (command,) = town.agent.take()
    assert isinstance(command.body, ConnectVolumeRequest)
    assert [(each.attachment_id, each.local) for each in command.body.clients] == [(str(second.id), False)]
    town.agent.carry_out(command)
    attachments.release(second.id)
    town.agent.work()
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id) == ("available", None)


def test_a_volume_whose_pool_no_host_serves_is_not_connected(town: Town) -> None:
    volume = town.make()
    PoolHost.objects.all().delete()
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    with pytest.raises(UnavailableError):
        attachments.connect(attachment, town.host)
    attachments.release(attachment.id)
    assert town.fresh(volume).status == "available"


@pytest.mark.slow
def test_a_machine_that_starts_anew_is_sent_the_keys_of_what_it_served(town: Town) -> None:
    secret = VolumeType.objects.create(name="secret")
    TypeEncryption.objects.create(volume_type=secret, provider="luks")
    held, given_back, elsewhere = (town.make(volume_type="secret") for _ in range(3))
    attachment = town.attach(held)
    other = town.cloud.add_host("nadel").serve()
    Volume.objects.filter(id=elsewhere.id).update(pool_id=other.id)
    town.pool.unserved = [str(held.id), str(given_back.id), str(elsewhere.id), str(uuid.uuid4()), "nonsense"]
    for _ in range(2):  # once is enough as long as the host has not done it
        town.agent.measured()
    bodies = {command.subject_id: command.body for command in town.agent.take()}
    assert set(bodies) == {str(held.id), str(given_back.id)}
    body = bodies[str(held.id)]
    assert isinstance(body, ConnectVolumeRequest)
    assert body.volume.encryption == encryption_of(held)
    assert [client.attachment_id for client in body.clients] == [str(attachment.id)]
    assert bodies[str(given_back.id)].clients == []  # type: ignore[union-attr]
    town.agent.work()
    assert (town.fresh(held).status, town.fresh(given_back).status) == ("in-use", "available")


@pytest.mark.slow
def test_each_server_of_a_volume_has_an_export_of_its_own_also_after_a_growth(town: Town) -> None:
    VolumeType.objects.create(name="many", extra_specs={"multiattach": "<is> True"})
    volume = town.make(volume_type="many")
    ids = [town.attach(volume).id for _ in range(2)]

    def exports() -> list[str]:
        rows = {row.id: row.connection["export"] for row in Attachment.objects.all()}
        return [rows[key] for key in ids]

    before = exports()
    assert [export.endswith(f".{key}") for export, key in zip(before, ids, strict=True)] == [True, True]
    Extend.begin(town.alice, volume.id, 2)
    town.agent.work()
    after = exports()
    assert [export.endswith(f".{key}") for export, key in zip(after, ids, strict=True)] == [True, True]
    assert not set(before) & set(after)
