"""Each task that a request begins: its rule exists, and it starts only in the statuses that its class declares."""

import uuid
from typing import Any

import pytest

from provisioning.common.tasks import TASKS, CreationTask, UserTask
from provisioning.identity import policy
from provisioning.volumes.models import Backup, Snapshot, Volume
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.services import (
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
    Unmanage,
    UploadRequest,
    UploadToImage,
    VolumeDeletion,
    messages,
)
from provisioning.volumes.services.backups.backup_restores import Restore, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup
from provisioning.volumes.services.lifecycle.manage_snapshots import (
    ManagedSnapshot,
    ManageSnapshot,
    UnmanageSnapshot,
)
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.states import LEGAL, BackupStatus, SnapshotStatus, VolumeStatus
from tests.volumes.conftest import Town

pytestmark = pytest.mark.django_db
NONE = str(uuid.UUID(int=0))
REQUESTS: dict[type[UserTask[Any, Any, Any]], Any] = {
    Delete: VolumeDeletion(),
    Extend: 2,
    Revert: NONE,
    Unmanage: None,
    Reimage: ReimageRequest(NONE, reserved=True),
    UploadToImage: UploadRequest("copy", force=True),
    CreateSnapshot: SnapshotRequest(force=True),
    DeleteSnapshot: Deletion(),
    ManageSnapshot: ManagedSnapshot(),
    UnmanageSnapshot: None,
    CreateBackup: BackupRequest(force=True),
    DeleteBackup: Deletion(),
    Restore: RestoreRequest(NONE),
    Migrate: uuid.UUID(int=0),
    Retype: RetypeRequest("ssd"),
}
"""Task → a request that allows the most statuses."""
STATUSES = {Volume: VolumeStatus, Snapshot: SnapshotStatus, Backup: BackupStatus}


def test_every_such_task_is_in_the_table_and_its_rule_exists() -> None:
    of_volumes = (task for task in TASKS.tasks if type(task).__module__.startswith("provisioning.volumes."))
    tasks = [task for task in of_volumes if isinstance(task, UserTask)]
    assert {type(task) for task in tasks} == REQUESTS.keys()
    rules = {task.rule for task in TASKS.tasks if isinstance(task, UserTask | CreationTask)}
    assert rules <= policy.RULES.keys()


def test_a_status_that_a_task_may_start_from_leads_to_that_of_the_task() -> None:
    for kind in REQUESTS:
        if issubclass(kind, UserVolumeTask):
            assert [each for each in kind.legal_from if kind.status not in LEGAL[VolumeStatus(each)]] == [], kind


@pytest.mark.slow
def test_a_task_starts_in_no_other_status(town: Town) -> None:
    volume = town.make()
    named: dict[type[UserTask[Any, Any, Any]], Volume | Snapshot | Backup] = dict.fromkeys(REQUESTS, volume)
    named[DeleteSnapshot] = named[UnmanageSnapshot] = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    named[DeleteBackup] = named[Restore] = CreateBackup.begin(town.alice, volume.id, BackupRequest())
    for kind, request in REQUESTS.items():
        record, allowed = named[kind], {*kind().allowed(request)}
        if kind is DeleteBackup:  # the second request is ignored
            allowed.add(BackupStatus.DELETING)
        rows = type(record)._default_manager.filter(pk=record.pk)
        for status in {*STATUSES[type(record)].values} - allowed:
            rows.update(status=status)
            with pytest.raises(kind.refused, match=f" is {status}; it must be "):
                kind.begin(town.alice, record.pk, request)
            assert rows.get().status == status, kind


def test_each_action_of_messages_has_an_id_of_its_own() -> None:
    declared = [getattr(task, "failure", None) for task in TASKS.tasks]
    actions = {each for each in [*vars(messages).values(), *declared] if isinstance(each, messages.Action)}
    assert {"manage snapshot", "unmanage snapshot"} <= {action.name for action in actions}
    assert len({action.id for action in actions}) == len({action.name for action in actions}) == len(actions)
