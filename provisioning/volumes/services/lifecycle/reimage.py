"""Writes an image over an existing volume, and keeps the volume's size, type, key and snapshots.

available, error, reserved, or in-use by a stopped server → downloading → the status that its attachments imply; error
with a message if the host fails.
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from compute_agent.contract.build import ImageRef
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ReimageVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.host_commands import spec_of
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors.access import volume_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_thawed
from provisioning.volumes.services.lifecycle.sources import image_metadata, source_of
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import reason_of

UNACCEPTABLE = "image_unacceptable"
"""The host's error code for an image that it refuses; the host has not written to the volume."""


UNRESERVED = (VolumeStatus.AVAILABLE, VolumeStatus.ERROR)
AT_SERVER = (VolumeStatus.IN_USE, VolumeStatus.RESERVED, VolumeStatus.ERROR)


@dataclass(frozen=True, slots=True)
class ReimageRequest:
    """A request to write an image over a volume that is not attached."""

    image_id: str
    reserved: bool = False
    """Whether the volume may be reserved, which needs a policy rule of its own."""
    server_id: uuid.UUID | None = None
    """The stopped server that has the volume and keeps it; it is notified of the end (``VolumeUser.reimaged``)."""


class Reimage(UserVolumeTask[ReimageRequest, ReimageVolumeRequest]):
    """Write an image over the data of a volume. ``Create`` handles its timeouts, because both have the same status."""

    rule = "volume:reimage"
    legal_from = (*UNRESERVED, VolumeStatus.RESERVED, VolumeStatus.IN_USE)
    status = VolumeStatus.DOWNLOADING
    body = ReimageVolumeRequest
    awaited_in = (VolumeStatus.DOWNLOADING, VolumeStatus.ERROR)

    def allowed(self, request: ReimageRequest) -> Collection[VolumeStatus]:
        if request.server_id is not None:
            return AT_SERVER
        return (*UNRESERVED, VolumeStatus.RESERVED) if request.reserved else UNRESERVED

    @classmethod
    def check_at_server(cls, context: RequestContext, volume_id: uuid.UUID, request: ReimageRequest) -> None:
        """Raise the errors that ``begin`` would raise now for a volume of a server."""
        reimage, volume = cls(), volume_for(context, volume_id)
        reimage.check(volume, reimage.allowed(request))
        check_thawed(volume)
        reimage.prepare(context, volume, request)
        reimage.image_of(context, volume, request)

    def prepare(self, context: RequestContext, volume: Volume, request: ReimageRequest) -> Mapping[str, Any]:
        """Raise ForbiddenError if the policy forbids reserved volumes, and InvalidVolumeError for a volume without
        data, or with attachments to other servers than the request's.
        """
        if request.reserved:
            policy.enforce(context, "volume:reimage_reserved")
        if state.at_rest(volume) not in self.allowed(request):
            raise InvalidVolumeError(f"Volume {volume.id} has attachments; it can only be reimaged without them.")
        others = Attachment.objects.filter(volume_id=volume.id).exclude(instance_id=request.server_id)
        if request.server_id is not None and others.exists():
            raise InvalidVolumeError(f"Volume {volume.id} is also attached to other servers; it cannot be reimaged.")
        if volume.launched_at is None:
            raise InvalidVolumeError(f"Volume {volume.id} was never created, so it cannot be reimaged.")
        return {}

    def image_of(self, context: RequestContext, volume: Volume, request: ReimageRequest) -> ImageRef:
        """Return the image.  Raises NotFoundError, and InvalidInputError if it cannot be written or is too large."""
        source = source_of(context, VolumeRequest(image_id=request.image_id))
        if source.least_gb > volume.size_gb or source.body.image is None:
            msg = f"Image {request.image_id} needs {source.least_gb} GiB; volume {volume.id} has {volume.size_gb}."
            raise InvalidInputError(msg, field="image_id")
        return source.body.image

    def command(self, context: RequestContext, volume: Volume, request: ReimageRequest) -> ReimageVolumeRequest:
        return ReimageVolumeRequest(volume=spec_of(volume), image=self.image_of(context, volume, request))

    def end(self, volume: Volume, event: AgentEvent, body: ReimageVolumeRequest, host_id: uuid.UUID) -> None:
        """Handle the report. If the host refused the image before it wrote data, restore the previous status.

        A volume whose previous status was ``error`` stays in ``error``.
        """
        unchanged = event.error_code == UNACCEPTABLE and volume.previous_status != VolumeStatus.ERROR
        if event.kind == "failed" and volume.status == VolumeStatus.DOWNLOADING and unchanged:
            reason = reason_of(event)
            messages.of_volume(volume, messages.REIMAGE, reason)
            state.end_task(volume)
            uses.user().reimaged(volume, reason)
            return
        super().end(volume, event, body, host_id)

    def finished(self, volume: Volume, event: AgentEvent, body: ReimageVolumeRequest, host_id: uuid.UUID) -> None:
        image = Image.objects.filter(id=read_id(body.image.id) or NOBODY).first()
        columns = {"bootable": True, "source_image_id": body.image.id}
        if image is not None:
            columns["image_metadata"] = image_metadata(image)
        state.end_task(volume, changes=columns)
        uses.user().reimaged(volume)

    def failed(self, volume: Volume, reason: str) -> None:
        """Set the volume to ``error``: its data is undefined."""
        if volume.status != VolumeStatus.DOWNLOADING:
            return
        messages.of_volume(volume, messages.REIMAGE, reason)
        state.move(volume, VolumeStatus.ERROR, changes={"progress_bytes": 0, "progress_total": 0})
        uses.user().reimaged(volume, reason)
