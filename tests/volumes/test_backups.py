"""Lives of backups: what they hold, how they build on each other and come back, and what follows when they fail."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.disk_formats.extents import Extent, chunks
from compute_agent.virt.driver import never
from compute_agent.virt.errors import BackupTransferError
from compute_agent.volumes.backup_outlet import Progress, SentBackup
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.jobs.queue.cast import cast
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.backups.backup_store import current
from provisioning.volumes.errors import BackupNotFoundError, InvalidBackupError, InvalidVolumeError, VolumeNotFoundError
from provisioning.volumes.models import Backup, Message, Volume
from provisioning.volumes.records.requests import BackupRequest, VolumeRequest
from provisioning.volumes.selectors.copies import newest_of
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    Deletion,
    SnapshotRequest,
    VolumeDeletion,
)
from provisioning.volumes.services.backups import backups
from provisioning.volumes.services.backups.backup_records import (
    BackupRecord,
    export_record,
    import_record,
    reset_status,
)
from provisioning.volumes.services.backups.backup_restores import Restore, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup
from provisioning.volumes.upkeep import backup_jobs, upkeep
from tests.support.backup_host import BackupHost, ClientLink, MemoryCopies
from tests.support.clouds import ADMIN, context
from tests.support.jobs import drain
from tests.support.passing_time import pass_time
from tests.volumes.conftest import Town


@pytest.fixture
def disks(town: Town, tmp_path: Path, settings: Any) -> MemoryCopies:
    settings.BACKUP_DIR = tmp_path / "backups"
    copies = MemoryCopies(tmp_path)
    town.agent.backups = BackupHost(ClientLink(town.host), copies)
    return copies


def back_up(town: Town, volume: Volume, **values: object) -> Backup:
    backup = CreateBackup.begin(town.alice, volume.id, BackupRequest(**values))  # type: ignore[arg-type]
    town.agent.work()
    return Backup.objects.get(id=backup.id)


def held(town: Town) -> tuple[int, int]:
    assert town.alice.project_id is not None
    assert [str(each) for each in drift.find()] == []
    result = usage_of(town.alice.project_id)
    return result["backups"], result["backup_gigabytes"]


@pytest.mark.slow
def test_each_of_a_chain_comes_back_as_it_was_and_outlives_its_volume(town: Town, disks: MemoryCopies) -> None:
    volume = town.make(1, name="data")
    moments = []
    for number, blocks in enumerate(([1, 2, 3], [2], [9, 3])):
        for block in blocks:
            disks.write(volume.id, block, f"{number}-{block}".encode())
        backup = back_up(town, volume, incremental=number > 0)
        moments.append((backup, dict(disks.disks[str(volume.id)])))
    first, second, third = (backup for backup, _ in moments)
    assert [b.status for b, _ in moments] == ["available"] * 3
    assert (first.parent_id, second.parent_id, third.parent_id) == (None, first.id, second.id)
    assert second.stored_bytes < first.stored_bytes + 4096
    assert (town.fresh(volume).status, held(town)) == ("available", (3, 3))
    with pytest.raises(InvalidBackupError):
        DeleteBackup.begin(town.alice, str(first.id), Deletion())
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    town.agent.work()
    for backup, data in moments:
        made = Restore.begin(town.alice, str(backup.id), RestoreRequest())
        assert (made.backup.status, made.volume.status) == ("restoring", "creating")
        town.agent.work()
        volume = town.fresh(made.volume)
        assert (volume.status, volume.name) == ("available", f"restore_backup_{backup.id}")
        assert disks.disks[str(volume.id)] == data
        assert Backup.objects.get(id=backup.id).status == "available"
    for backup in (third, second, first):
        DeleteBackup.begin(town.alice, str(backup.id), Deletion())
        drain()
    assert (held(town), current().folders(), Backup.objects.count()) == ((0, 0), [], 0)


@pytest.mark.slow
def test_an_incremental_backup_builds_on_the_newest_of_its_own_project(town: Town, disks: MemoryCopies) -> None:
    volume, operator = town.make(1), context("operator", ADMIN)

    def made(caller: RequestContext, *, incremental: bool = False) -> Backup:
        backup = CreateBackup.begin(caller, volume.id, BackupRequest(incremental=incremental))
        town.agent.work()
        return backup

    own, members = made(operator), made(town.alice)
    assert (made(operator, incremental=True).parent_id, made(town.alice, incremental=True).parent_id) == (
        own.id,
        members.id,
    )


@pytest.mark.slow
def test_a_backup_is_written_over_a_volume_that_fits_and_is_free(town: Town, disks: MemoryCopies) -> None:
    volume, other, small = town.make(2), town.make(3), town.make(1)
    disks.write(volume.id, 5, b"kept")
    backup = back_up(town, volume)
    disks.write(other.id, 1, b"old")
    with pytest.raises(InvalidVolumeError):
        Restore.begin(town.alice, str(backup.id), RestoreRequest(str(small.id)))
    town.attach(volume)
    for status in ("in-use", "available"):  # also after an operator's reset
        Volume.objects.filter(id=volume.id).update(status=status)
        with pytest.raises(InvalidVolumeError):
            Restore.begin(town.alice, str(backup.id), RestoreRequest(str(volume.id)))
    restored = Restore.begin(town.alice, str(backup.id), RestoreRequest(str(other.id)))
    assert restored.volume.status == "restoring-backup"
    with pytest.raises(InvalidBackupError):
        DeleteBackup.begin(town.alice, str(backup.id), Deletion(force=True))
    town.agent.work()
    assert (town.fresh(other).status, town.fresh(other).name) == ("available", other.name)
    assert disks.disks[str(other.id)] == disks.disks[str(volume.id)]
    made = Create.begin(town.alice, VolumeRequest(size_gb=4, backup_id=str(backup.id)))
    town.agent.work()
    assert (town.fresh(made).status, town.fresh(made).size_gb) == ("available", 4)
    assert disks.disks[str(made.id)] == disks.disks[str(volume.id)]
    assert ("ready", made.id) in town.guests.notified


@pytest.mark.slow
def test_what_cannot_be_backed_up_is_refused(town: Town, disks: MemoryCopies) -> None:
    volume = town.make(1)
    with pytest.raises(InvalidBackupError):
        CreateBackup.begin(town.alice, volume.id, BackupRequest(incremental=True))
    town.attach(volume)
    with pytest.raises(InvalidVolumeError):
        CreateBackup.begin(town.alice, volume.id, BackupRequest())
    backup = CreateBackup.begin(town.alice, volume.id, BackupRequest(force=True))
    assert town.fresh(volume).status == "backing-up"
    with pytest.raises(InvalidVolumeError):
        CreateBackup.begin(town.alice, volume.id, BackupRequest(force=True))
    town.agent.work()
    assert (town.fresh(volume).status, Backup.objects.get(id=backup.id).status) == ("in-use", "available")
    stranger = context("charlie", project="outside")
    for ask in (
        lambda: CreateBackup.begin(stranger, volume.id, BackupRequest(force=True)),
        lambda: Restore.begin(stranger, str(backup.id), RestoreRequest()),
        lambda: DeleteBackup.begin(stranger, str(backup.id), Deletion()),
    ):
        with pytest.raises((VolumeNotFoundError, BackupNotFoundError)):
            ask()
    assert town.alice.project_id is not None
    set_limit(town.alice.project_id, "backups", 1)
    with pytest.raises(OverQuotaError):
        CreateBackup.begin(town.alice, volume.id, BackupRequest(force=True))
    assert (held(town), town.fresh(volume).status) == ((1, 1), "in-use")


@pytest.mark.both_databases("locks")
def test_a_backup_that_fails_says_why_and_leaves_nothing(town: Town, disks: MemoryCopies) -> None:
    volume = town.make(1)
    disks.write(volume.id, 1, b"data")
    town.agent.failing["backup_volume_request"] = "The store is full."
    backup = back_up(town, volume)
    assert (backup.status, backup.fail_reason, town.fresh(volume).status) == (
        "error",
        "The store is full.",
        "available",
    )
    assert Message.objects.get().resource_type == "VOLUME_BACKUP"
    silent = CreateBackup.begin(town.alice, volume.id, BackupRequest())
    current().put(str(silent.id), "00000000-half", b"half")
    pass_time(86_400)
    assert (upkeep.reap(), backup_jobs.end_lost_restores()) == (1, 0)
    drain()
    silent.refresh_from_db()
    assert (silent.status, town.fresh(volume).status, current().folders()) == ("error", "available", [])
    town.agent.work()  # the host that was slow: its command is withdrawn
    assert back_up(town, volume).status == "available"


@pytest.mark.slow
def test_a_volume_without_its_backup_can_be_used_again(town: Town, disks: MemoryCopies) -> None:
    """The record of the backup was lost, for example by a restore of the database."""
    volume = town.make(1)
    backup = CreateBackup.begin(town.alice, volume.id, BackupRequest())
    pass_time(86_400)
    assert (upkeep.reap(), town.fresh(volume).status) == (1, "available")
    Volume.objects.filter(id=volume.id).update(status="backing-up", deadline=timezone.now() - timedelta(minutes=1))
    backup.refresh_from_db()
    assert (backup.status, upkeep.reap(), town.fresh(volume).status) == ("error", 1, "available")


@pytest.mark.slow
def test_a_backup_whose_record_alone_is_behind_is_completed(town: Town, disks: MemoryCopies) -> None:
    """A copy of the records from before its end was put back: its data is kept."""
    volume = town.make(1)
    disks.write(volume.id, 1, b"data")
    first = back_up(town, volume)
    second = back_up(town, volume, incremental=True)
    for backup in (first, second):
        whole = Backup.objects.values("status", "digest", "stored_bytes", "object_count", "parent").get(id=backup.id)
        behind = {"status": "creating", "digest": "", "stored_bytes": 0, "object_count": 0}
        Backup.objects.filter(id=backup.id).update(**behind, deadline=timezone.now() - timedelta(minutes=1))
        assert upkeep.reap() == 1
        drain()
        row = Backup.objects.values("status", "digest", "stored_bytes", "object_count", "parent").get(id=backup.id)
        assert (row, row["status"]) == (whole, "available")


@pytest.mark.slow
def test_a_damaged_backup_is_reported_and_the_volume_keeps_what_it_had(
    town: Town, disks: MemoryCopies, settings: Any
) -> None:
    volume, other = town.make(1), town.make(1)
    disks.write(volume.id, 1, b"data")
    disks.write(other.id, 1, b"old")
    backup = back_up(town, volume)
    (part,) = [p for p in (settings.BACKUP_DIR / str(backup.id)).iterdir() if p.suffix != ".json"]
    part.write_bytes(part.read_bytes()[:-1])
    Restore.begin(town.alice, str(backup.id), RestoreRequest(str(other.id)))
    town.agent.work()
    assert (town.fresh(other).status, Backup.objects.get(id=backup.id).status) == ("error_restoring", "available")
    assert "damaged" in Message.objects.get().text
    assert disks.disks[str(other.id)][1].startswith(b"old")


@pytest.mark.slow
def test_a_host_sends_and_gets_only_what_it_was_sent_for(town: Town, disks: MemoryCopies) -> None:
    volume = town.make(1)
    backup = back_up(town, volume)
    mine, other = link_of(town), ClientLink(town.cloud.add_host("faraday").host)
    waiting = CreateBackup.begin(town.alice, volume.id, BackupRequest())
    chunk = next(chunks([Extent(0, 1 << 30, zero=True)], lambda at, n: b""))
    for refused in (
        lambda: mine.stored(str(backup.id), never),
        lambda: mine.send_chunk(str(backup.id), 0, chunk, Progress(0, 0), never),
        lambda: other.send_chunk(str(waiting.id), 0, chunk, Progress(0, 0), never),
        lambda: mine.send_chunk(str(waiting.id), 10**6, chunk, Progress(0, 0), never),
        lambda: mine.send_chunk(str(waiting.id), 0, b"no chunk", Progress(0, 0), never),
        lambda: mine.seal(str(waiting.id), SentBackup(["0" * 64], 5, full=True), never),
    ):
        with pytest.raises(BackupTransferError):
            refused()
    assert current().folders() == [str(backup.id)]
    mine.faults = [503, 0, 401]
    mine.send_chunk(str(waiting.id), 0, chunk, Progress(3, 4), never)
    assert current().folders() == sorted([str(backup.id), str(waiting.id)])
    DeleteBackup.begin(town.alice, str(waiting.id), Deletion(force=True))
    with pytest.raises(BackupTransferError):
        mine.send_chunk(str(waiting.id), 1, chunk, Progress(3, 4), never)
    drain()
    assert (current().folders(), town.fresh(volume).status) == ([str(backup.id)], "available")


def link_of(town: Town) -> ClientLink:
    assert town.agent.backups is not None
    assert isinstance(town.agent.backups.outlet, ClientLink)
    return town.agent.backups.outlet


def test_records_are_carried_to_another_cloud_and_back(
    town: Town, disks: MemoryCopies, operator: RequestContext
) -> None:
    volume = town.make(1)
    disks.write(volume.id, 1, b"data")
    backup = back_up(town, volume, name="whole")
    record = export_record(operator, str(backup.id))
    with pytest.raises(InvalidBackupError):
        import_record(operator, record)
    Backup.objects.all().delete()
    result = import_record(operator, record)
    assert (result.id, result.name, result.status, result.digest) == (backup.id, "whole", "available", backup.digest)
    for bad in (BackupRecord("folder", "bm8="), BackupRecord("folder", "\x00"), BackupRecord("s3", record.backup_url)):
        with pytest.raises((InvalidInputError, InvalidBackupError)):
            import_record(operator, bad)
    reset_status(operator, str(result.id), "error")
    result.refresh_from_db()
    assert result.status == "error"


@pytest.mark.slow
def test_a_whole_backup_that_an_operator_sets_in_error_keeps_its_data(
    town: Town, disks: MemoryCopies, operator: RequestContext
) -> None:
    volume = town.make(1)
    disks.write(volume.id, 1, b"first")
    full, child = back_up(town, volume), back_up(town, volume, incremental=True)
    reset_status(operator, str(full.id), "error")
    Backup.objects.filter(id=full.id).update(updated_at=timezone.now() - timedelta(hours=1))
    cast(backups.TOPIC, backups.DISCARD, backup_id=str(full.id))  # of an earlier failure, and late
    drain()
    assert backup_jobs.sweep() == 0
    reset_status(operator, str(full.id), "available")
    made = Restore.begin(town.alice, str(child.id), RestoreRequest()).volume
    town.agent.work()
    assert town.fresh(made).status == "available"


@pytest.mark.both_databases("locks")
def test_no_backup_builds_on_one_that_is_being_deleted(
    town: Town, disks: MemoryCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = town.make(1)
    full = back_up(town, volume)
    result = newest_of

    def deleted_meanwhile(*args: Any) -> Backup | None:
        parent = result(*args)
        DeleteBackup.begin(town.alice, str(full.id), Deletion())
        return parent

    monkeypatch.setattr(backups, "newest_of", deleted_meanwhile)
    with pytest.raises(InvalidBackupError, match="No backups available"):
        CreateBackup.begin(town.alice, volume.id, BackupRequest(incremental=True))
    assert town.fresh(volume).status == "available"


@pytest.mark.both_databases("locks")
def test_what_nobody_ends_is_given_up(town: Town, disks: MemoryCopies) -> None:
    """A backup of a snapshot, a restore of which its host says nothing, and data that the store does not remove."""
    volume = town.make(1)
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    backup = back_up(town, volume, snapshot_id=str(snapshot.id))
    assert (backup.status, backup.snapshot_id) == ("available", snapshot.id)
    Restore.begin(town.alice, str(backup.id), RestoreRequest(str(volume.id)))
    town.agent.take()
    upkeep.reap()
    pass_time(86_400)
    upkeep.reap()
    backup.refresh_from_db()
    assert (town.fresh(volume).status, backup.status) == ("error_restoring", "available")
    DeleteBackup.begin(town.alice, str(backup.id), Deletion())
    backups.DeleteBackup().given_up(backup.id)
    backup.refresh_from_db()
    assert backup.status == "error_deleting"
