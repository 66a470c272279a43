"""Image data that a host may download or upload: only images of its unfinished commands."""

import uuid

from compute_agent.contract.commands import images_of
from compute_agent.contract.messages import decode_command_body
from provisioning.common.errors import NotFoundError
from provisioning.compute.models import Instance
from provisioning.compute.records import host_commands
from provisioning.compute.states import TaskState
from provisioning.images.models import Image

SENDING = frozenset(
    {TaskState.IMAGE_SNAPSHOT, TaskState.IMAGE_BACKUP, TaskState.IMAGE_UPLOADING}
    | {TaskState.SHELVING, TaskState.SHELVING_IMAGE_UPLOADING}
)
"""Tasks in which a host uploads an image."""


def image_to_get(host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image that the host may download: the server has a task, and an unfinished command to the host needs
    the image.

    Raises NotFoundError otherwise.
    """
    instance = Instance.objects.filter(id=instance_id).exclude(task_state=None).first()
    if instance is not None and instance.task_state != TaskState.DELETING:
        rows = host_commands.unfinished(instance.id).filter(host_id=host_id, generation=instance.attempt)
        rows = rows.exclude(kind="destroy_request")
        needed = set[str]().union(*(images_of(decode_command_body(row.body)) for row in rows))
        image = Image.objects.filter(id=image_id, status=Image.Status.ACTIVE).first()
        if image is not None and str(image_id) in needed:
            return image
    raise NotFoundError("The host has no command that needs this image.")


def image_to_send(host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image that the host may upload: the server's task uploads an image, and the host's unfinished command
    names this image.

    Raises NotFoundError otherwise, and for a deleted image.
    """
    instance = Instance.objects.filter(id=instance_id, host_id=host_id).first()
    if instance is not None and instance.task_state in SENDING:
        rows = host_commands.unfinished(instance.id).filter(host_id=host_id, generation=instance.attempt)
        rows = rows.filter(kind="snapshot_request")
        named = {getattr(decode_command_body(row.body), "image_id", "") for row in rows}
        image = Image.objects.filter(id=image_id).exclude(status=Image.Status.DELETED).first()
        if image is not None and str(image_id) in named:
            return image
    raise NotFoundError("The host has no command that needs this image.")
