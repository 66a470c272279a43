"""Writes an image over an existing volume, and keeps the volume's size, type, key and snapshots.

available, error, reserved, or in-use by a stopped server → downloading → the status that its attachments imply; error
with a message if the host fails.
"""

import uuid
from collections.abc import Collection

from django.db import transaction

from compute_agent.contract.build import ImageRef
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ReimageVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.images.models import Image
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.host_commands import send, spec_of
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors.access import volume_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_thawed, locked_volume
from provisioning.volumes.services.lifecycle.sources import image_metadata, source_of
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import VolumeTask, reason_of, task

UNACCEPTABLE = "image_unacceptable"
"""The host's error code for an image that it refuses; the host has not written to the volume."""


UNRESERVED = (VolumeStatus.AVAILABLE, VolumeStatus.ERROR)
AT_SERVER = (VolumeStatus.IN_USE, VolumeStatus.RESERVED, VolumeStatus.ERROR)


@when_broken_off
@transaction.atomic
def reimage(context: RequestContext, volume_id: str | uuid.UUID, image_id: str, *, reserved: bool = False) -> Volume:
    """Write an image over a volume that is not attached; ``reserved``: also over a reserved volume.

    Raises InvalidVolumeError for a volume in another status or without data, InvalidInputError for an image that cannot
    be written or is too large, NotFoundError.
    """
    volume = locked_volume(context, volume_id)
    _check_status(volume, (*UNRESERVED, VolumeStatus.RESERVED) if reserved else UNRESERVED)
    return _write(volume, _image_for(context, volume, image_id))


def check_reimage(context: RequestContext, volume_id: uuid.UUID, image_id: str, server_id: uuid.UUID) -> None:
    """Raise the errors that ``reimage_of_server`` would raise now."""
    volume = volume_for(context, volume_id)
    _check_of_server(volume, server_id)
    _image_for(context, volume, image_id)


@transaction.atomic
def reimage_of_server(context: RequestContext, volume_id: uuid.UUID, image_id: str, server_id: uuid.UUID) -> Volume:
    """Write an image over a volume of a stopped server, in the caller's transaction. The volume stays attached.

    The server is notified of the end (``VolumeUser.reimaged``). Raises the errors of ``reimage``, and
    InvalidVolumeError for a volume that is attached to other servers too.
    """
    volume = locked_volume(context, volume_id)
    _check_of_server(volume, server_id)
    return _write(volume, _image_for(context, volume, image_id))


def _check_of_server(volume: Volume, server_id: uuid.UUID) -> None:
    _check_status(volume, AT_SERVER)
    if Attachment.objects.filter(volume_id=volume.id).exclude(instance_id=server_id).exists():
        raise InvalidVolumeError(f"Volume {volume.id} is also attached to other servers; it cannot be reimaged.")


def _check_status(volume: Volume, allowed: Collection[VolumeStatus]) -> None:
    check_thawed(volume)
    Reimage().check(volume, among=allowed)
    if state.at_rest(volume) not in allowed:
        raise InvalidVolumeError(f"Volume {volume.id} has attachments; it can only be reimaged without them.")
    if volume.launched_at is None or volume.pool_id is None:
        raise InvalidVolumeError(f"Volume {volume.id} was never created, so it cannot be reimaged.")


def _image_for(context: RequestContext, volume: Volume, image_id: str) -> ImageRef:
    source = source_of(context, VolumeRequest(image_id=image_id))
    if source.least_gb > volume.size_gb or source.body.image is None:
        msg = f"Image {image_id} needs {source.least_gb} GiB; volume {volume.id} has {volume.size_gb}."
        raise InvalidInputError(msg, field="image_id")
    return source.body.image


def _write(volume: Volume, image: ImageRef) -> Volume:
    state.move(volume, VolumeStatus.DOWNLOADING)
    send(volume, ReimageVolumeRequest(volume=spec_of(volume), image=image))
    return volume


@task
class Reimage(VolumeTask[ReimageVolumeRequest]):
    """Write an image over the data of a volume. ``Create`` handles its timeouts, because both have the same status."""

    body = ReimageVolumeRequest
    legal_from = (*UNRESERVED, VolumeStatus.RESERVED, VolumeStatus.IN_USE)
    awaited_in = (VolumeStatus.DOWNLOADING, VolumeStatus.ERROR)

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
