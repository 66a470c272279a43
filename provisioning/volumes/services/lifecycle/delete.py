"""Deletes volumes that are not attached. Their quota and capacity are released after their data is deleted.

available, error → deleting → deleted; error_deleting with a message if the host fails.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Model

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import VOLUME, ConnectVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError, UnavailableError
from provisioning.hosts import commands
from provisioning.quotas.services.ledger import release
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.host_commands import send, spec_of
from provisioning.volumes.models import Attachment, Snapshot, Volume
from provisioning.volumes.pools import deleted_data, placement
from provisioning.volumes.records.announcements import announce, announce_snapshot
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import SWAPPING, check_in_no_group, check_thawed
from provisioning.volumes.services.user_tasks import OfVolume
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import SnapshotStatus, VolumeStatus
from provisioning.volumes.tasks import VolumeTask

CONNECT = str(ConnectVolumeRequest.__struct_config__.tag)
DELETABLE_SNAPSHOTS = (SnapshotStatus.AVAILABLE, SnapshotStatus.ERROR, SnapshotStatus.ERROR_DELETING)


@dataclass(frozen=True, slots=True)
class VolumeDeletion:
    """The parameters of the deletion of a volume."""

    cascade: bool = False
    """Whether to delete its snapshots too."""
    force: bool = False
    """Whether the status does not matter, if the volume is not attached."""
    after_snapshots: bool = False
    """Whether to accept the request also while all its snapshots are being deleted."""


def delete(volume: Volume, *, cascade: bool = False, force: bool = False, deleting: bool = False) -> None:
    """Delete a locked volume in the caller's transaction. A volume without data is deleted immediately.

    ``deleting``: the snapshots are already being deleted, so their status is not checked. The commands to delete the
    snapshots are sent again.
    """
    check_deletable(volume, cascade=cascade, force=force, deleting=deleting)
    _delete_open_data(volume)
    if volume.pool is None:
        announce(volume, "delete.start")
        end(volume)
        return
    earlier = commands.unfinished(VOLUME, volume.id).filter(acknowledged_at=None)
    commands.withdraw(earlier.exclude(kind=CONNECT))
    state.move(volume, VolumeStatus.DELETING, "delete.start", changes={"generation": volume.generation + 1})
    try:
        for snapshot in Snapshot.objects.filter(volume_id=volume.id).order_by("created_at", "id"):
            snapshot.status = SnapshotStatus.DELETING
            snapshot.save(update_fields=["status", "updated_at"])
            announce_snapshot(snapshot, "delete.start")
            send(volume, DeleteSnapshotRequest(volume=spec_of(volume), snapshot_id=str(snapshot.id)))
        send(volume, DeleteVolumeRequest(volume=spec_of(volume, with_key=False)))
    except UnavailableError as error:
        Delete().failed(volume, error.message)  # the volume's exports end nevertheless when the host is up
    else:
        commands.withdraw(earlier.filter(kind=CONNECT))


def _delete_open_data(volume: Volume) -> None:
    """Delete the new data of a migration whose result is unknown."""
    ids = list(Volume.objects.filter(migration_of=volume.id, migration_status=SWAPPING).values_list("id", flat=True))
    for hidden in state.lock(ids).values():
        Attachment.objects.filter(volume_id=hidden.id).delete()
        delete(hidden, force=True)


def check_deletable(volume: Volume, *, cascade: bool = False, force: bool = False, deleting: bool = False) -> None:
    """Raise InvalidVolumeError for a volume that cannot be deleted now."""
    if not force:
        check_thawed(volume)
    check_detached(volume.id)
    if volume.migration_status in ("starting", "migrating", "completing"):
        raise InvalidVolumeError(f"Volume {volume.id} is being migrated.")
    if not force:
        Delete().check(volume)
    if volume.status == VolumeStatus.AWAITING_TRANSFER:
        raise InvalidVolumeError(f"Volume {volume.id} waits for a transfer; delete the transfer first.")
    if not force:
        check_in_no_group(volume)
    snapshots = Snapshot.objects.filter(volume_id=volume.id)
    if not cascade and snapshots.exists():
        raise InvalidVolumeError(f"Volume {volume.id} has snapshots; delete them first, or with it (cascade).")
    if not force and not deleting:
        _check_snapshots(snapshots)


def check_detached(volume_id: uuid.UUID) -> None:
    """Raise InvalidVolumeError for a volume with attachments."""
    if Attachment.objects.filter(volume_id=volume_id).exists():
        raise InvalidVolumeError(f"Volume {volume_id} is attached; detach it first.")


def _check_snapshots(snapshots: Iterable[Snapshot]) -> None:
    """Raise InvalidVolumeError for a snapshot that cannot be deleted with its volume."""
    for snapshot in snapshots:
        if snapshot.group_snapshot_id is not None:
            of_group = f"Snapshot {snapshot.id} belongs to group snapshot {snapshot.group_snapshot_id}"
            raise InvalidVolumeError(f"{of_group}; delete that first.")
        if snapshot.status not in DELETABLE_SNAPSHOTS:
            statuses = ", ".join(DELETABLE_SNAPSHOTS)
            raise InvalidVolumeError(f"Snapshot {snapshot.id} is {snapshot.status}; it must be one of: {statuses}.")


class Delete(OfVolume[VolumeDeletion, None], VolumeTask[DeleteVolumeRequest]):
    """Delete the data of a volume."""

    rule = "volume:delete"
    body = DeleteVolumeRequest
    legal_from = (
        VolumeStatus.AVAILABLE,
        VolumeStatus.ERROR,
        VolumeStatus.ERROR_RESTORING,
        VolumeStatus.ERROR_EXTENDING,
        VolumeStatus.ERROR_BACKING_UP,
        VolumeStatus.ERROR_DELETING,
    )
    timeouts = by_status({VolumeStatus.DELETING: 10 * MINUTE})
    when_overdue = "the volume is in `error_deleting`, with a message; it can be deleted again"
    awaited_in = (VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING)

    def allowed(self, request: VolumeDeletion) -> Collection[str]:
        return VolumeStatus.values if request.force else self.legal_from

    def check(
        self, record: Model, among: Collection[str] | None = None, refused: type[NovellaError] | None = None
    ) -> None:
        """Explain for a volume in use that it is attached, rather than its status."""
        check_detached(record.pk)
        super().check(record, among, refused)

    def start(self, context: RequestContext, volume: Volume, request: VolumeDeletion) -> None:
        statuses = set(Snapshot.objects.filter(volume_id=volume.id).values_list("status", flat=True))
        deleting = request.after_snapshots and statuses == {SnapshotStatus.DELETING}
        delete(volume, cascade=request.cascade or deleting, force=request.force, deleting=deleting)

    def finished(self, volume: Volume, event: AgentEvent, body: DeleteVolumeRequest, host_id: uuid.UUID) -> None:
        end_reported(volume, event)

    def failed(self, volume: Volume, reason: str) -> None:
        """Set the volume to ``error_deleting``; it can be deleted again."""
        messages.of_volume(volume, messages.DELETE, reason)
        if volume.status == VolumeStatus.DELETING:
            state.move(volume, VolumeStatus.ERROR_DELETING)


def end_reported(volume: Volume, event: AgentEvent) -> None:
    """Delete the record of a locked volume after its host has deleted it.

    Data that the host keeps for clones still counts in the project's quota and in the pool. The quotas are updated
    before the pool, in the locking order of volume creation.
    """
    more = deleted_data.begin(volume, event)
    end(volume)
    placement.claim_anyway(volume.pool_id, more)


def end(volume: Volume) -> None:
    """Delete the record of a locked volume and its snapshots, and release its quota and capacity."""
    for snapshot in Snapshot.objects.filter(volume_id=volume.id):
        end_snapshot(snapshot)
    Attachment.objects.filter(volume_id=volume.id).delete()
    release(volume.id)
    placement.release(volume.pool_id, max(volume.size_gb, volume.wanted_gb or 0))
    announce(volume, "delete.end", gone=True)
    commands.withdraw(commands.unfinished(VOLUME, volume.id))
    Volume.objects.filter(id=volume.id).delete()


def end_snapshot(snapshot: Snapshot) -> None:
    """Delete the record of a snapshot, and release its quota."""
    release(snapshot.id)
    announce_snapshot(snapshot, "delete.end", gone=True)
    Snapshot.objects.filter(id=snapshot.id).delete()
