"""Reverts volumes to their newest snapshot.

available → reverting → available; error with a message if the host fails.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import RevertVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.errors import InvalidSnapshotError
from provisioning.volumes.host_link.host_commands import spec_of
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.selectors import snapshot_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_free
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import SnapshotStatus, VolumeStatus


class Revert(UserVolumeTask[str, RevertVolumeRequest]):
    """Write the data of a volume's newest snapshot back to the volume, which is not attached. The request is the id of
    the snapshot.
    """

    rule = "volume:revert_to_snapshot"
    legal_from = (VolumeStatus.AVAILABLE,)
    status = VolumeStatus.REVERTING
    body = RevertVolumeRequest
    notification = "revert"
    timeouts = by_status({VolumeStatus.REVERTING: 10 * MINUTE})
    when_overdue = "the volume is in `error`, with a message: its data is undefined"
    awaited_in = (VolumeStatus.REVERTING, VolumeStatus.ERROR)

    def prepare(self, context: RequestContext, volume: Volume, request: str) -> Mapping[str, Any]:
        """Raise InvalidInputError for another snapshot than the newest one, and InvalidSnapshotError."""
        snapshot = snapshot_for(context, request)
        newest = Snapshot.objects.filter(volume_id=volume.id).order_by("-created_at", "-id").first()
        check_free(volume)
        if newest is None or newest.id != snapshot.id:
            msg = f"Snapshot {snapshot.id} is not the newest of volume {volume.id}."
            raise InvalidInputError(msg, field="snapshot_id")
        if snapshot.status != SnapshotStatus.AVAILABLE:
            raise InvalidSnapshotError(f"Snapshot {snapshot.id} is {snapshot.status}; it must be available.")
        if snapshot.size_gb != volume.size_gb:
            raise InvalidInputError(f"Volume {volume.id} has been extended since the snapshot.", field="snapshot_id")
        return {}

    def command(self, context: RequestContext, volume: Volume, request: str) -> RevertVolumeRequest:
        return RevertVolumeRequest(volume=spec_of(volume), snapshot_id=str(uuid.UUID(request)))

    def finished(self, volume: Volume, event: AgentEvent, body: RevertVolumeRequest, host_id: uuid.UUID) -> None:
        state.end_task(volume, self.end_of())

    def failed(self, volume: Volume, reason: str) -> None:
        """Set the volume to ``error``: its data is undefined."""
        messages.of_volume(volume, messages.REVERT, reason)
        if volume.status == VolumeStatus.REVERTING:
            state.move(volume, VolumeStatus.ERROR)
