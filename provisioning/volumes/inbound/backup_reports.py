"""Reports of hosts about backups that they create."""

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import BackupVolumeRequest
from provisioning.volumes.host_link import copies
from provisioning.volumes.models import Backup, Volume
from provisioning.volumes.services import backups
from provisioning.volumes.states import BackupStatus, VolumeStatus
from provisioning.volumes.tasks import reason_of


class BackupCopy(copies.Copy):
    """A backup that a host creates. The host's reports are ignored unless the backup is ``creating``."""

    def __init__(self, backup: Backup) -> None:
        self._backup = backup

    def take_life(self, until: datetime) -> None:
        if self._backup.status == BackupStatus.CREATING:
            Backup.objects.filter(id=self._backup.id).update(deadline=until)
            Volume.objects.filter(id=self._backup.volume_id, status=VolumeStatus.BACKING_UP).update(deadline=until)

    def take_progress(self, done: int, total: int) -> None:
        """Do nothing, because the received chunks update the progress (``backup_transfers``)."""

    def take_end(self, event: AgentEvent, body: BackupVolumeRequest) -> None:
        backup = Backup.objects.get(id=self._backup.id)  # the digest was written after the row was read
        if backup.status != BackupStatus.CREATING:
            return
        if event.kind == "finished":
            backups.complete(backup, full=event.detail.get("full") == "true")
        else:
            backups.fail(backup, reason_of(event))


def load(ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, copies.Copy]:
    """Lock and return the backups with these ids."""
    rows = Backup.objects.select_for_update(of=("self",)).filter(id__in=list(ids)).order_by("id")
    return {row.id: BackupCopy(row) for row in rows}
