"""Copies volumes to images. The image's record is created immediately; a host uploads the data independently of other
commands.

available or (with force) in-use → uploading → the previous status.
"""

import contextlib
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import VOLUME_COPY, UploadVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.identity import policy
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.images.records.properties import FOUND
from provisioning.volumes.host_link.host_commands import send_copy, spec_of
from provisioning.volumes.models import Volume
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_texts, pool_of
from provisioning.volumes.services.user_tasks import OfVolume
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import CopyTask, VolumeTask

FORMATS = ("qcow2", "raw")
UPLOADED_TO = "uploading_to"
"""Key of the volume's admin metadata during the upload; its value is the image's id."""
_OF_THE_BITS = frozenset(
    {"image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size", FOUND}
)
"""Image metadata that describes the original data and is not copied to a new image."""


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """The image that is created from a volume; ``force``: also while the volume is attached."""

    image_name: str
    force: bool = False
    container_format: str = "bare"
    disk_format: str = "qcow2"
    visibility: str = "private"
    protected: bool = False


class Uploading(NamedTuple):
    """A volume and the image that is created from it."""

    volume: Volume
    image: Image


def _end(volume: Volume) -> None:
    metadata = {name: value for name, value in volume.admin_metadata.items() if name != UPLOADED_TO}
    if volume.status == VolumeStatus.UPLOADING:
        state.end_task(volume, changes={"admin_metadata": metadata})
    else:  # an operator has reset the status, or the volume is being deleted
        state.update(volume, {"admin_metadata": metadata})


class UploadToImage(
    OfVolume[UploadRequest, Uploading], CopyTask[Volume, UploadVolumeRequest], VolumeTask[UploadVolumeRequest]
):
    """Copy the data of a volume to a new image."""

    rule = "volume_extension:volume_actions:upload_image"
    body = UploadVolumeRequest
    legal_from = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)
    timeouts = by_status({VolumeStatus.UPLOADING: 30 * MINUTE})
    when_overdue = "the image is deleted, unless it has its data; the volume returns to its previous status"

    def allowed(self, request: UploadRequest) -> Collection[str]:
        return self.legal_from if request.force else (VolumeStatus.AVAILABLE,)

    def start(self, context: RequestContext, volume: Volume, request: UploadRequest) -> Uploading:
        """Create the image, and let a host upload the data.

        Raises InvalidVolumeError, InvalidInputError, ForbiddenError if the caller may not create such an image, and
        TooLargeError for the image quota.
        """
        if request.visibility == "public":
            policy.enforce(context, "volume_extension:volume_actions:upload_public")
        check_texts(request.image_name)
        if request.disk_format not in FORMATS:
            msg = f"A volume can be uploaded as {' or '.join(FORMATS)}, not as {request.disk_format[:40]}."
            raise InvalidInputError(msg, field="disk_format")
        pool_of(volume)
        image = images.create(
            context,
            name=request.image_name,
            visibility=request.visibility,
            protected=request.protected,
            disk_format=request.disk_format,
            container_format=request.container_format,
            min_disk=volume.size_gb,
            properties={name: value for name, value in volume.image_metadata.items() if name not in _OF_THE_BITS},
        )
        metadata = {**volume.admin_metadata, UPLOADED_TO: str(image.id)}
        state.move(volume, VolumeStatus.UPLOADING, changes={"admin_metadata": metadata})
        body = UploadVolumeRequest(volume=spec_of(volume), image_id=str(image.id), disk_format=request.disk_format)
        send_copy(volume, image.id, body, status=VolumeStatus.UPLOADING)
        return Uploading(volume, image)

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Volume]:
        busy = Volume.objects.filter(status=VolumeStatus.UPLOADING).values_list("id", "admin_metadata")
        named = {str(key): volume_id for volume_id, metadata in busy for key in [metadata.get(UPLOADED_TO)] if key}
        needed = {key: named[str(key)] for key in ids if str(key) in named}
        rows = state.lock(list(needed.values()))
        return {key: rows[volume_id] for key, volume_id in needed.items() if volume_id in rows}

    def awaited(self, volume: Volume) -> Iterator[HostCommand]:
        yield from super().awaited(volume)
        if image_id := read_id(volume.admin_metadata.get(UPLOADED_TO)):
            yield from commands.unfinished(VOLUME_COPY, image_id)

    def heartbeat(self, volume: Volume, until: datetime) -> None:
        Volume.objects.filter(id=volume.id).update(deadline=until)

    def progress(self, volume: Volume, done: int, total: int) -> None:
        if state.reread(volume):
            state.update(volume, {"progress_bytes": done, "progress_total": total})

    def end(self, volume: Volume, event: AgentEvent, body: UploadVolumeRequest, host_id: uuid.UUID) -> None:
        if state.reread(volume) and volume.admin_metadata.get(UPLOADED_TO) == body.image_id:
            super().end(volume, event, body, host_id)

    def finished(self, volume: Volume, event: AgentEvent, body: UploadVolumeRequest, host_id: uuid.UUID) -> None:
        _end(volume)

    def failed(self, volume: Volume, reason: str) -> None:
        """Write a message and delete the image, unless the image already has data."""
        messages.of_volume(volume, messages.COPY_TO_IMAGE, reason)
        image = Image.objects.filter(id=volume.admin_metadata.get(UPLOADED_TO)).first()
        if image is not None and image.status not in (Image.Status.ACTIVE, Image.Status.DEACTIVATED):
            with contextlib.suppress(NotFoundError, ForbiddenError):  # already deleted, or protected
                images.delete(RequestContext(None, "novella", image.project_id), image.id, though_used=True)
        _end(volume)
