"""A host that has seen newer changes of volumes than the records, because a copy of the database was put back or a
failure took the last transactions: nothing is detached, shrunk, overwritten or deleted, and the doctor reports it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compute_agent.contract.volume import ConnectVolumeRequest, DeleteVolumeRequest, KnownVolume, VolumeClient
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError, UnavailableError
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts import audits, commands, liveness, restored
from provisioning.hosts.models import HostCommand
from provisioning.jobs.models import Lease
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.selectors import usage_of
from provisioning.volumes.inbound import kept_open
from provisioning.volumes.inbound.restored import HEARD_WITHIN
from provisioning.volumes.models import Attachment, Message, Snapshot, StoragePool, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    Extend,
    Migrate,
    Revert,
    SnapshotRequest,
    VolumeDeletion,
)
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.upkeep.upkeep import ask_places, reap
from tests.core.doctor.findings import look
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town
from tests.volumes.test_deleted_data import locked_in_turn
from tests.volumes.test_host_pools import keys_in, secret_type

TABLES: tuple[type[Model], ...] = (StoragePool, Volume, Snapshot, Attachment, Reservation, QuotaUsage)


class Copy:
    """A copy of the tables that say who has which volume, and how it is put back."""

    def __init__(self) -> None:
        self._rows = {model: list(model._base_manager.values()) for model in TABLES}

    def put_back(self) -> None:
        HostCommand.objects.filter(finished_at=None).delete()
        for model in reversed(TABLES):
            model._base_manager.exclude(pk__in=[row["id"] for row in self._rows[model]]).delete()
        for model, rows in self._rows.items():
            for row in rows:
                model._base_manager.update_or_create(pk=row["id"], defaults=row)


def back(agent: ScriptedAgent) -> None:
    """Let the host come back and say what it knows."""
    liveness.compare_volumes(agent.host.id, agent.memory.listed())


def after_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "LOOK_AGAIN", 0)
    restored.after_restore()


@pytest.fixture(params=["forgotten", "run"])
def put_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Copy], None]:
    """Put a copy back, whether or not the operator runs ``manage.py after_restore``."""

    def work(copy: Copy) -> None:
        copy.put_back()
        if request.param == "run":
            after_restore(monkeypatch)

    return work


PutBack = Callable[[Copy], None]


@pytest.mark.both_databases("sql")
def test_an_attachment_since_the_copy_is_kept_and_nobody_else_is_let_in(town: Town, put_back: PutBack) -> None:
    volume = town.make()
    copy = Copy()
    lost = town.attach(volume)
    put_back(copy)
    back(town.agent)
    row = Attachment.objects.get(id=lost.id)
    assert (row.host_id, row.instance_id) == (town.host.id, None)
    assert town.fresh(volume).status == "in-use"
    with pytest.raises(NovellaError):
        attachments.reserve(town.alice, volume.id, uuid.uuid4())
    town.agent.work()
    assert [client.attachment_id for client in town.pool.clients[str(volume.id)]] == [str(lost.id)]
    assert {finding.subject for finding in look("newer_volumes")} == {f"volume {volume.id}"}
    attachments.release(lost.id)
    town.agent.work()
    assert (town.fresh(volume).status, town.pool.clients) == ("available", {})
    for finding in look("newer_volumes"):
        treat([finding], repair=True)
    assert look("newer_volumes") == []


@pytest.mark.slow
@pytest.mark.both_databases
def test_an_attachment_elsewhere_before_the_host_is_back_cuts_nobody_off(town: Town) -> None:
    """The link was never broken, and the next change has the numbers of the lost one."""
    volume = town.make()
    copy = Copy()
    lost = town.attach(volume)
    copy.put_back()
    other = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(other, town.host)
    town.agent.work()
    assert [client.attachment_id for client in town.pool.clients[str(volume.id)]] == [str(lost.id)]
    assert not Attachment.objects.filter(id=other.id).exists()
    assert Message.objects.filter(resource_id=volume.id).exists()
    assert town.fresh(volume).status == "in-use"


@pytest.mark.parametrize("silent", [False, True], ids=["fails", "is silent"])
@pytest.mark.both_databases("sql")
def test_a_host_is_asked_again_for_the_place_of_a_volume_that_was_given_back(town: Town, *, silent: bool) -> None:
    """A guest that is made again opens its disk there."""
    volume, server = town.make(), uuid.uuid4()
    copy = Copy()
    lost = town.attach(volume)
    copy.put_back()
    back(town.agent)
    town.agent.work()
    assert kept_open.assign(kept_open.held_on(town.host.id)[volume.id], server, "/dev/vdb")
    if silent:
        town.agent.take()
        HostCommand.objects.update(deadline=timezone.now() - timedelta(seconds=1))
    else:
        town.agent.failing["connect_volume_request"] = "not now"
        town.agent.work()
    assert "socket" not in Attachment.objects.get(id=lost.id).connection
    ask_places()
    town.agent.work()
    attachment = Attachment.objects.get(id=lost.id)
    assert (attachment.connection["socket"], attachment.status) == (lost.connection["socket"], "attached")
    ask_places()
    assert town.agent.take() == []


@pytest.mark.slow
def test_a_pending_attachment_fails_when_the_host_is_back(town: Town, put_back: PutBack) -> None:
    volume = town.make()
    copy = Copy()
    lost = town.attach(volume)
    put_back(copy)
    other = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(other, town.host)
    Volume.objects.filter(id=volume.id, copied=None).update(version=2)  # fewer changes than were lost
    back(town.agent)
    town.agent.work()
    assert [client.attachment_id for client in town.pool.clients[str(volume.id)]] == [str(lost.id)]
    assert set(Attachment.objects.values_list("id", flat=True)) == {lost.id}


@pytest.mark.slow
def test_one_who_has_let_go_since_the_copy_does_not_keep_another_out(town: Town, put_back: PutBack) -> None:
    volume = town.make()
    before = town.attach(volume)
    copy = Copy()
    attachments.begin_detaching(before.id)
    attachments.release(before.id)
    town.agent.work()
    lost = town.attach(town.fresh(volume))
    put_back(copy)
    back(town.agent)
    rows = {row.id: row.host_id for row in Attachment.objects.filter(volume_id=volume.id)}
    assert rows == {before.id: None, lost.id: town.host.id}
    with pytest.raises(UnavailableError):
        attachments.connect(Attachment.objects.get(id=before.id), town.host)
    town.agent.work()
    assert [client.attachment_id for client in town.pool.clients[str(volume.id)]] == [str(lost.id)]


@pytest.mark.slow
@pytest.mark.both_databases
def test_a_larger_size_is_taken_over_and_never_shrunk(town: Town, put_back: PutBack) -> None:
    volume = town.make(1)
    copy = Copy()
    Extend.begin(town.alice, volume.id, 5)
    town.agent.work()
    put_back(copy)
    back(town.agent)
    assert town.fresh(volume).size_gb == 5
    assert town.alice.project_id is not None
    assert usage_of(town.alice.project_id)["gigabytes"] == 5
    assert StoragePool.objects.get().allocated_gb == 5
    Extend.begin(town.alice, volume.id, 6)
    town.agent.work()
    assert (town.fresh(volume).size_gb, town.pool.volumes[str(volume.id)]) == (6, 6)


@pytest.mark.slow
def test_volumes_that_have_grown_count_in_every_quota_before_their_pool(town: Town) -> None:
    """Whoever makes a volume locks the counters of a project, then the pool."""
    volumes = [town.make(1), town.make(1)]
    copy = Copy()
    for volume in volumes:
        Extend.begin(town.alice, volume.id, 5)
    town.agent.work()
    copy.put_back()
    with CaptureQueriesContext(connection) as queries:
        back(town.agent)
    tables = locked_in_turn(queries)
    assert (tables.count("quotas_quotausage"), tables.count("pool")) == (2, 1)
    assert StoragePool.objects.get().allocated_gb == 10


@pytest.mark.slow
def test_an_extension_that_the_copy_says_goes_on_is_finished(town: Town) -> None:
    volume = town.make(1)
    Extend.begin(town.alice, volume.id, 5)
    copy = Copy()
    town.agent.work()
    town.attach(town.fresh(volume))
    copy.put_back()
    back(town.agent)
    assert town.fresh(volume).size_gb == 5
    assert StoragePool.objects.get().allocated_gb == 5


@pytest.mark.slow
def test_data_that_is_gone_is_an_error_that_is_shown(town: Town, put_back: PutBack) -> None:
    volume = town.make()
    copy = Copy()
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    town.agent.work()
    put_back(copy)
    back(town.agent)
    assert town.fresh(volume).status == "error"
    assert Message.objects.filter(resource_id=volume.id).exists()
    for _ in range(2):
        if Volume.objects.filter(id=volume.id).exists():
            Delete.begin(town.alice, volume.id, VolumeDeletion())
            town.agent.work()
    assert not Volume.objects.filter(id=volume.id).exists()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["revert", "delete"])
def test_what_was_ordered_of_older_records_is_refused_and_shown(town: Town, order: str) -> None:
    volume = town.make()
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    copy = Copy()
    gone = town.attach(town.fresh(volume))
    attachments.begin_detaching(gone.id)
    attachments.release(gone.id)
    town.agent.work()
    copy.put_back()
    if order == "revert":
        Revert.begin(town.alice, volume.id, str(snapshot.id))
    else:
        Delete.begin(town.alice, volume.id, VolumeDeletion(cascade=True))
    before = dict(town.pool.volumes)
    town.agent.work()
    assert town.pool.volumes == before
    assert town.fresh(volume).status in ("error", "error_deleting")
    assert look("newer_volumes")
    Delete.begin(town.alice, volume.id, VolumeDeletion(cascade=True))
    town.agent.work()
    assert not Volume.objects.filter(id=volume.id).exists()


@pytest.mark.slow
def test_a_move_that_has_ended_since_the_copy_loses_no_data(
    town: Town, operator: RequestContext, put_back: PutBack
) -> None:
    """The records give the move up and remove its target, which has the only data."""
    volume = town.make()
    other = town.cloud.add_host("nadel")
    target = other.serve(ScriptedPool(name="fast", total_gb=10, free_gb=10))
    Migrate.begin(operator, volume.id, StoragePool.objects.get(name="fast").id)
    town.agent.work()
    other_work = other.take()
    copy = Copy()
    for command in other_work:
        other.carry_out(command)
    town.agent.work()
    other.work()
    (data,) = target.volumes
    assert str(volume.id) not in town.pool.volumes
    town.attach(town.fresh(volume))
    other.work()
    put_back(copy)
    Volume.objects.update(deadline="2026-01-01T00:00:00Z")
    reap()
    other.work()
    town.agent.work()
    assert target.volumes == {data: 1}
    back(town.agent)
    assert town.fresh(volume).status == "error"
    assert look("newer_volumes")


def shared_secret(town: Town) -> Volume:
    """Return an encrypted volume in a pool that two hosts serve."""
    secret_type()
    town.pool.shared = True
    town.agent.measured()
    return town.make(volume_type="secret")


@pytest.mark.slow
def test_an_encrypted_volume_in_a_shared_pool_is_kept_for_who_has_it_open(town: Town, put_back: PutBack) -> None:
    volume = shared_secret(town)
    copy = Copy()
    lost = town.attach(volume)
    put_back(copy)
    back(town.agent)
    assert Attachment.objects.get().id == lost.id
    assert town.fresh(volume).status == "in-use"
    assert town.agent.take() == [], "its daemon goes on as it is"
    with pytest.raises(NovellaError):
        attachments.reserve(town.alice, volume.id, uuid.uuid4())
    assert str(lost.id) in look("newer_volumes")[-1].sentence
    attachments.release(lost.id)
    town.agent.work()
    assert str(volume.id) not in town.pool.clients
    assert town.attach(town.fresh(volume)).status == "attached"


@pytest.mark.slow
@pytest.mark.parametrize("multiattach", [False, True])
def test_no_host_is_given_a_key_because_it_says_that_it_has_the_volume_open(town: Town, *, multiattach: bool) -> None:
    volume = shared_secret(town)
    Volume.objects.update(multiattach=multiattach)
    evil = town.cloud.add_host("evil")
    served = evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    client = VolumeClient(attachment_id=str(uuid.uuid4()), host_id=str(evil.host.id), local=True)
    claim = KnownVolume(data_id=str(volume.id), version=500, volume_id=str(volume.id), size_gb=1, clients=[client])
    audits.compare_volumes(evil.host.id, [claim])
    assert kept_open.held_on(evil.host.id) == {}, "no server is given it"
    served.unserved = [str(volume.id)]
    evil.measured()
    commands = evil.take()
    for row in Attachment.objects.all():
        attachments.release(row.id)
    back(town.agent)
    town.attach(town.fresh(volume))
    assert keys_in([*commands, *evil.take()]) == []


def test_a_host_s_word_counts_for_volumes_of_its_own_only(town: Town) -> None:
    volume = town.make()
    evil = town.cloud.add_host("evil")
    claim = KnownVolume(data_id=str(volume.id), version=500, volume_id=str(volume.id), size_gb=90, gone=True)
    audits.compare_volumes(evil.host.id, [claim])
    kept = town.fresh(volume)
    assert (kept.size_gb, kept.status, kept.lost) == (1, "available", {})
    audits.compare_volumes(town.host.id, [KnownVolume(data_id=str(volume.id), version=1 << 40, gone=True)])
    assert town.fresh(volume).status == "available"


@pytest.mark.slow
def test_a_host_that_knows_no_more_than_the_records_changes_nothing(town: Town) -> None:
    volume = town.make()
    town.attach(volume)
    before = Volume.objects.values().get()
    back(town.agent)
    assert Volume.objects.values().get() == before
    assert look("newer_volumes", "volumes") == []


@pytest.mark.slow
def test_commands_that_overtake_each_other_are_sent_again(town: Town) -> None:
    volume = town.make()
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, town.host)
    (command,) = town.agent.take()
    town.agent.memory.begin(ConnectVolumeRequest(volume=command.body.volume, clients=[]))
    with_newer = command.body.volume.__class__(
        id=str(volume.id), pool_id="", size_gb=1, version=command.body.volume.version + 1
    )
    Volume.objects.filter(id=volume.id).update(version=with_newer.version)
    town.agent.memory.begin(DeleteVolumeRequest(volume=with_newer))
    town.agent.carry_out(command)
    town.agent.work()
    assert [client.attachment_id for client in town.pool.clients[str(volume.id)]] == [str(attachment.id)]
    assert town.fresh(volume).lost == {}


@pytest.mark.slow
def test_a_host_cannot_fill_the_records_with_attachments(town: Town) -> None:
    volume = town.make()
    clients = [VolumeClient(attachment_id=str(uuid.uuid4()), host_id="?", local=True) for _ in range(200)]
    claim = KnownVolume(data_id=str(volume.id), version=500, size_gb=1, clients=clients)
    audits.compare_volumes(town.host.id, [claim])
    assert Attachment.objects.count() == attachments.MOST_OF_VOLUME


@pytest.mark.slow
def test_every_guest_of_a_volume_of_many_goes_on(town: Town) -> None:
    volume = town.make()
    Volume.objects.update(multiattach=True)
    rows = [
        Attachment.objects.create(
            volume=volume, project_id=volume.project_id, instance_id=uuid.uuid4(), host=town.host, exclusive=False,
            status="attached", connection={"export": str(volume.id)},
        )
        for _ in range(30)
    ]  # fmt: skip
    clients = [VolumeClient(attachment_id=str(row.id), host_id=str(town.host.id), local=True) for row in rows]
    claim = KnownVolume(data_id=str(volume.id), version=500, size_gb=1, clients=clients)
    audits.compare_volumes(town.host.id, [claim])
    assert Attachment.objects.filter(status="attached").exclude(connection={}).count() == len(rows)
    too_many = [VolumeClient(attachment_id=str(uuid.uuid4()), host_id="?", local=True) for _ in range(200)]
    claim = KnownVolume(data_id=str(volume.id), version=600, size_gb=1, clients=[*too_many, *clients])
    audits.compare_volumes(town.host.id, [claim])
    assert Attachment.objects.filter(id__in=[row.id for row in rows]).exclude(connection={}).count() == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("taken", [False, True])
def test_what_a_copy_says_is_under_way_ends_soon_unless_its_host_still_works(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """A host does not report a second time what has ended since the copy."""
    quiet, works = (Create.begin(town.alice, VolumeRequest(size_gb=1)) for _ in range(2))
    if taken:
        town.agent.take()
    Lease.objects.create(
        name="volumes.reap", holder="", expires_at=timezone.now(), last_finished_at=timezone.now() - timedelta(days=1)
    )
    after_restore(monkeypatch)
    back(town.agent)
    reap()
    assert (town.fresh(quiet).status, town.fresh(works).status) == ("creating", "creating")
    moments = ((Volume, "deadline"), (HostCommand, "deadline"))
    for model, name in moments:
        model._default_manager.update(**{name: timezone.now() - timedelta(seconds=1)})
    alive = HostCommand.objects.get(subject_id=works.id)
    alive.refresh_from_db()
    commands.goes_on(alive, begun=True)
    reap()
    assert (town.fresh(quiet).status, town.fresh(works).status) == ("error", "creating")


def test_the_time_of_what_a_copy_says_is_under_way_is_short(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1))
    Volume.objects.filter(id=volume.id).update(deadline=timezone.now() + timedelta(hours=9))
    after_restore(monkeypatch)
    until = timezone.now() + HEARD_WITHIN
    deadline = town.fresh(volume).deadline
    assert deadline is not None
    assert deadline <= until
    assert HostCommand.objects.get(subject_id=volume.id).deadline == deadline
