"""Whatever a host does with a volume lives as long as the host reports progress, and is given up when it is silent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from compute_agent.contract.messages import Command
from provisioning.common.errors import NotFoundError
from provisioning.common.tasks import TASKS
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import HostCommand
from provisioning.quotas.recounts import drift
from provisioning.volumes.models import Backup, Snapshot, StoragePool, Volume, VolumeType
from provisioning.volumes.records.requests import BackupRequest, VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    Deletion,
    Extend,
    Migrate,
    Reimage,
    ReimageRequest,
    Retype,
    RetypeRequest,
    Revert,
    SnapshotRequest,
    UploadRequest,
    UploadToImage,
    VolumeDeletion,
)
from provisioning.volumes.services.backups.backup_restores import Restore, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.services.lifecycle.manage_snapshots import UnmanageSnapshot
from provisioning.volumes.state_machine import deadlines
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.upkeep import backup_jobs, upkeep
from tests.support.clouds import ADMIN, context
from tests.support.jobs import nobody_looked
from tests.support.landing import one_in
from tests.support.passing_time import pass_time
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town

pytestmark = pytest.mark.slow


def snapshot_of(town: Town, volume: Volume) -> Snapshot:
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    rest(town)
    return snapshot


def backup_of(town: Town, volume: Volume) -> Backup:
    backup = CreateBackup.begin(town.alice, volume.id, BackupRequest())
    rest(town)
    Backup.objects.filter(id=backup.id).update(status="available", digest="x")
    return Backup.objects.get(id=backup.id)


def other_pool() -> Any:
    return StoragePool.objects.get(name="fast").id


BEGIN: dict[str, Callable[[Town, Volume], object]] = {
    "create_volume_request": lambda town, _: Create.begin(town.alice, VolumeRequest(size_gb=1)),
    "create_volume_request of an image": lambda town, _: Create.begin(
        town.alice, VolumeRequest(size_gb=1, image_id=str(town.cloud.image.id))
    ),
    "grow_volume_request": lambda town, volume: Extend.begin(town.alice, volume.id, 2),
    "snapshot_volume_request": lambda town, volume: CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest()),
    "delete_snapshot_request": lambda town, volume: DeleteSnapshot.begin(
        town.alice, snapshot_of(town, volume).id, Deletion()
    ),
    "revert_volume_request": lambda town, volume: Revert.begin(
        town.alice, volume.id, str(snapshot_of(town, volume).id)
    ),
    "upload_volume_request": lambda town, volume: UploadToImage.begin(town.alice, volume.id, UploadRequest("copy")),
    "backup_volume_request": lambda town, volume: CreateBackup.begin(town.alice, volume.id, BackupRequest()),
    "restore_volume_request": lambda town, volume: Restore.begin(
        town.alice, str(backup_of(town, volume).id), RestoreRequest(str(volume.id))
    ),
    "reimage_volume_request": lambda town, volume: Reimage.begin(
        town.alice, volume.id, ReimageRequest(str(town.cloud.image.id))
    ),
    "fetch_volume_request": lambda _, volume: Migrate.begin(context("operator", ADMIN), volume.id, other_pool()),
    "fetch_volume_request of a retype": lambda town, volume: Retype.begin(
        town.alice, volume.id, RetypeRequest("ssd", migration_policy="on-demand")
    ),
    "delete_volume_request": lambda town, volume: Delete.begin(town.alice, volume.id, VolumeDeletion()),
    "unmanage_snapshot_request": lambda town, volume: UnmanageSnapshot.begin(
        context("operator", ADMIN), snapshot_of(town, volume).id, None
    ),
}


JOBS = ("volumes.reap", "compute.reaper")


@dataclass
class Work:
    """A long command that a host has begun."""

    agent: ScriptedAgent
    command: Command

    @property
    def seconds(self) -> int:
        return HostCommand.objects.get(id=self.command.id).timeout or 0

    def moves(self, done: int) -> None:
        self.agent.report(self.command, "progress", detail={"done": str(done), "total": "1000"})


def rest(town: Town) -> None:
    while sum(agent.work() for agent in town.cloud.agents.values()):
        pass


def begun(town: Town, case: str) -> Work:
    """Begin one kind of work, up to the command that takes long."""
    town.cloud.add_host("nadel").serve(ScriptedPool(name="fast", total_gb=10, free_gb=10, capabilities={"ssd": "true"}))
    VolumeType.objects.create(name="ssd", extra_specs={"ssd": "<is> True"})
    BEGIN[case](town, town.make(1))
    kind = case.split(" ", maxsplit=1)[0]
    for _ in range(5):
        for agent in town.cloud.agents.values():
            for command in agent.take():
                if command.body.__struct_config__.tag == kind:
                    return Work(agent, command)
                agent.carry_out(command)
    raise AssertionError(f"no host is told {kind}")


def statuses() -> list[tuple[str, str]]:
    """Return what is recorded of volumes, snapshots and backups."""
    rows = [*Volume.objects.order_by("id"), *Snapshot.objects.order_by("id"), *Backup.objects.order_by("id")]
    return [(str(row.pk), row.status) for row in rows]


def look() -> None:
    upkeep.reap()
    reaper.reap()
    backup_jobs.end_lost_restores()


@one_in(3, "case", BEGIN)
def test_progress_keeps_work_alive_whatever_it_takes_and_silence_ends_it(town: Town, case: str) -> None:
    work = begun(town, case)
    before = statuses()
    for done in range(1, 5):
        pass_time(0.8 * work.seconds)
        work.moves(done)
        pass_time(0.3 * work.seconds)
        look()
        assert statuses() == before, f"given up after {done} signs of life"
    pass_time(2 * work.seconds)
    look()
    assert statuses() != before
    with contextlib.suppress(NotFoundError):  # the image that a given up upload was for is deleted
        work.agent.carry_out(work.command)
    rest(town)
    assert set(dict(statuses()).values()) <= {"available", "error_backing-up", "error", "error_restoring"}
    assert all(Volume.objects.filter(status="available").values_list("pool_id", flat=True))
    for pool in StoragePool.objects.all():
        stored = town.cloud.agents["kelvin" if pool.name == "local" else "nadel"].pools[str(pool.id)].volumes
        there = {str(row.data_id or row.id) for row in Volume.objects.filter(pool=pool).exclude(status="error")}
        assert there <= set(stored), "what is available has its data"
    assert [str(difference) for difference in drift.find()] == []


@pytest.mark.parametrize("case", ["fetch_volume_request", "fetch_volume_request of a retype"])
def test_signs_of_life_of_the_copy_move_the_deadline_of_the_volume(town: Town, case: str) -> None:
    work = begun(town, case)
    moving = Volume.objects.get(migration_of=None)
    pass_time(0.8 * work.seconds)
    before = town.fresh(moving).deadline
    work.moves(5)
    after = town.fresh(moving).deadline
    assert before is not None
    assert after is not None
    assert after > before


@pytest.mark.parametrize("away", [86_400, -86_400])
@pytest.mark.parametrize("case", ["create_volume_request", "fetch_volume_request", "snapshot_volume_request"])
def test_time_in_which_nobody_looked_does_not_count(town: Town, case: str, away: float) -> None:
    """The machine was suspended, or its clock was set, forwards or back."""
    work = begun(town, case)
    before = statuses()
    pass_time(away)
    for job in JOBS:
        nobody_looked(job, away)
    look()
    assert statuses() == before
    for job in JOBS:
        nobody_looked(job, 5)
    pass_time(0.5 * work.seconds)
    look()
    assert statuses() == before
    pass_time(2 * work.seconds)
    look()
    assert statuses() != before


def test_the_next_connection_is_waited_for_after_a_suspension(town: Town) -> None:
    volume = town.make()
    town.guests.slow = True

    attachment = attachments.reserve(town.alice, volume.id, None)
    attachments.connect(attachment, town.host)
    town.agent.take()
    pass_time(86_400)
    HostCommand.objects.filter(finished_at=None).update(deadline=None)
    nobody_looked("volumes.reap", 86_400)
    look()
    assert town.fresh(volume).status == "attaching"


def test_each_status_has_a_timeout_that_operators_can_change(town: Town, settings: Any) -> None:
    settings.VOLUME_TIMEOUTS = {"extending": 77}
    assert deadlines.seconds_of(VolumeStatus.EXTENDING) == 77
    volume = town.make()
    Extend.begin(town.alice, volume.id, 2)
    (grow,) = town.agent.take()
    assert grow.timeout == 77
    assert deadlines.seconds_of(VolumeStatus.AVAILABLE) is None


def test_an_unknown_status_stops_the_start(settings: Any) -> None:
    settings.VOLUME_TIMEOUTS = {"extending": 77, "in-use": 1}
    with pytest.raises(ImproperlyConfigured, match="in-use"):
        TASKS.check()
