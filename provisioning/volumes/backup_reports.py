"""What hosts say of backups that they make."""

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import BackupVolumeRequest
from provisioning.volumes import copies
from provisioning.volumes.ends import reason_of
from provisioning.volumes.models import Backup, Volume
from provisioning.volumes.services import backups
from provisioning.volumes.states import BackupStatus, VolumeStatus


class BackupCopy(copies.Copy):
    """A backup that a host makes; one that is not being made any more is left as it is."""

    def __init__(self, backup: Backup) -> None:
        self._backup = backup

    def take_life(self, until: datetime) -> None:
        if self._backup.status == BackupStatus.CREATING:
            Backup.objects.filter(id=self._backup.id).update(deadline=until)
            Volume.objects.filter(id=self._backup.volume_id, status=VolumeStatus.BACKING_UP).update(deadline=until)

    def take_progress(self, done: int, total: int) -> None:
        """The parts that arrive say as much (``backup_transfers``)."""

    def take_end(self, event: AgentEvent, body: BackupVolumeRequest) -> None:
        backup = Backup.objects.get(id=self._backup.id)  # its data has come since it was read
        if backup.status != BackupStatus.CREATING:
            return
        if event.kind == "finished":
            backups.complete(backup, full=event.detail.get("full") == "true")
        else:
            backups.fail(backup, reason_of(event))


def load(ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, copies.Copy]:
    """Lock the backups among these ids, and read them."""
    rows = Backup.objects.select_for_update(of=("self",)).filter(id__in=list(ids)).order_by("id")
    return {row.id: BackupCopy(row) for row in rows}
