"""Reverts volumes to their newest snapshot.

available → reverting → available; error with a message if the host fails.
"""

import uuid

from django.db import transaction

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import RevertVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.errors import InvalidSnapshotError
from provisioning.volumes.host_link.host_commands import send, spec_of
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.selectors import snapshot_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_free, check_thawed, locked_volume
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import SnapshotStatus, VolumeStatus
from provisioning.volumes.tasks import VolumeTask, task


@when_broken_off
@transaction.atomic
def revert_to_snapshot(context: RequestContext, volume_id: str | uuid.UUID, snapshot_id: str | uuid.UUID) -> Volume:
    """Revert a volume that is not attached to its newest snapshot.  Raises InvalidVolumeError, InvalidInputError."""
    volume = locked_volume(context, volume_id)
    check_thawed(volume)
    snapshot = snapshot_for(context, snapshot_id)
    newest = Snapshot.objects.filter(volume_id=volume.id).order_by("-created_at", "-id").first()
    Revert().check(volume)
    check_free(volume)
    if newest is None or newest.id != snapshot.id:
        msg = f"Snapshot {snapshot.id} is not the newest of volume {volume.id}."
        raise InvalidInputError(msg, field="snapshot_id")
    if snapshot.status != SnapshotStatus.AVAILABLE:
        raise InvalidSnapshotError(f"Snapshot {snapshot.id} is {snapshot.status}; it must be available.")
    if snapshot.size_gb != volume.size_gb:
        raise InvalidInputError(f"Volume {volume.id} has been extended since the snapshot.", field="snapshot_id")
    state.move(volume, VolumeStatus.REVERTING, Revert().start_of())
    send(volume, RevertVolumeRequest(volume=spec_of(volume), snapshot_id=str(snapshot.id)))
    return volume


@task
class Revert(VolumeTask[RevertVolumeRequest]):
    """Write the data of a volume's newest snapshot back to the volume."""

    body = RevertVolumeRequest
    legal_from = (VolumeStatus.AVAILABLE,)
    notification = "revert"
    timeouts = by_status({VolumeStatus.REVERTING: 10 * MINUTE})
    awaited_in = (VolumeStatus.REVERTING, VolumeStatus.ERROR)

    def finished(self, volume: Volume, event: AgentEvent, body: RevertVolumeRequest, host_id: uuid.UUID) -> None:
        state.end_task(volume, self.end_of())

    def failed(self, volume: Volume, reason: str) -> None:
        """Set the volume to ``error``: its data is undefined."""
        messages.of_volume(volume, messages.REVERT, reason)
        if volume.status == VolumeStatus.REVERTING:
            state.move(volume, VolumeStatus.ERROR)
