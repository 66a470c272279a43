"""Extends volumes, also attached volumes while their guests run.

available → extending → available: one command. in-use → extending → in-use: the volume's daemon host creates a second
export of the new size, the guests' hosts switch their disks to it, and the older export ends.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import GrowVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.identity import policy
from provisioning.quotas.services.sizes import grow, shrink
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link import connections
from provisioning.volumes.host_link.host_commands import spec_of
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.records import quota, uses
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_not_leaving, check_size, pool_of
from provisioning.volumes.services.connections.attachments import follow_refreshed, reported_connection
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import AttachStatus, VolumeStatus


class Extend(UserVolumeTask[int, GrowVolumeRequest]):
    """Grow the data of a volume; guests that use the volume switch to an export of the new size. The request is that
    size in GiB.
    """

    rule = "volume:extend"
    legal_from = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE, VolumeStatus.ERROR_EXTENDING)
    status = VolumeStatus.EXTENDING
    body = GrowVolumeRequest
    notification = "resize"
    timeouts = by_status({VolumeStatus.EXTENDING: 5 * MINUTE})
    when_overdue = (
        "the volume is in `error_extending` with its previous size; if only a guest has not switched, the task ends"
    )

    def prepare(self, context: RequestContext, volume: Volume, request: int) -> Mapping[str, Any]:
        """Raise ForbiddenError for an attached volume if the policy forbids it, and InvalidInputError for the size."""
        if volume.status == VolumeStatus.IN_USE:
            policy.enforce(context, "volume:extend_attached_volume")
        check_not_leaving(volume)
        size = check_size(volume.project_id, request)
        if size <= volume.size_gb:
            msg = f"New size for extend must be greater than current size ({volume.size_gb} GiB)."
            raise InvalidInputError(msg, field="new_size")
        if Attachment.objects.filter(volume_id=volume.id).exclude(status=AttachStatus.ATTACHED).exists():
            raise InvalidVolumeError(f"Volume {volume.id} is being attached or detached.")
        return {"wanted_gb": size}

    def usage(self, volume: Volume, request: int) -> Mapping[str, int]:
        return quota.of_volume(volume.volume_type, request)

    def reserve(self, volume: Volume, request: int) -> None:
        """Claim the pool's capacity. Raises InvalidInputError if the pool has no space."""
        if not placement.claim(pool_of(volume).id, request - volume.size_gb):
            raise InvalidInputError("The storage pool has no space for that size.", field="new_size")

    def command(self, context: RequestContext, volume: Volume, request: int) -> GrowVolumeRequest:
        return GrowVolumeRequest(volume=spec_of(volume, size_gb=request))

    def finished(self, volume: Volume, event: AgentEvent, body: GrowVolumeRequest, host_id: uuid.UUID) -> None:
        """Record the new size, even if the task has timed out."""
        size = body.volume.size_gb
        if size <= volume.size_gb:
            return
        if volume.status != VolumeStatus.EXTENDING:
            grow(volume.project_id, volume.id, quota.of_volume(volume.volume_type, size), refuse=False)
            placement.claim_anyway(volume.pool_id, size - max(volume.size_gb, volume.wanted_gb or 0))
        attached = Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.ATTACHED)
        changes = {"size_gb": size, "wanted_gb": None}
        if not attached.exists():
            if volume.status in (VolumeStatus.EXTENDING, VolumeStatus.ERROR_EXTENDING):
                state.end_task(volume, self.end_of(), changes=changes)
            else:
                state.update(volume, changes, self.end_of())
            return
        state.update(volume, changes)
        for attachment in attached:
            connection = reported_connection(attachment, event, body.volume, host_id)
            attachment.connection = (
                connections.as_column(connection) if connection is not None else attachment.connection
            )
            attachment.refreshing = True
            attachment.save(update_fields=["connection", "refreshing"])
        uses.user().changed(volume)
        state.reread(volume)
        follow_refreshed(volume)

    def failed(self, volume: Volume, reason: str) -> None:
        """Keep the previous size, and release the quota and capacity of the new size.

        If the data has grown, and only a guest has not switched to the new size, the task ends without an error status.
        """
        if volume.status != VolumeStatus.EXTENDING:
            return
        messages.of_volume(volume, messages.EXTEND, reason)
        if volume.wanted_gb is None:  # the data has grown; a guest has not followed
            state.end_task(volume)
            return
        release_growth(volume)
        state.move(volume, VolumeStatus.ERROR_EXTENDING, changes={"wanted_gb": None})


def release_growth(volume: Volume) -> None:
    """Release the quota and capacity that were claimed for the new size."""
    shrink(volume.id, quota.of_volume(volume.volume_type, volume.size_gb))
    placement.release(volume.pool_id, (volume.wanted_gb or volume.size_gb) - volume.size_gb)
