"""The end of an order to make an image of a server, and of what is made of it: a snapshot, a backup, a shelf."""

from __future__ import annotations

import logging
from dataclasses import replace

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.steps import COPY_DISK
from provisioning.common.context import system_context
from provisioning.compute import instance_actions, state
from provisioning.compute.actions.ends.ordinary import end_task, task_awaiting
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.actions.shelve import begin_offload
from provisioning.compute.actions.snapshot import SHELVING
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.snapshot_images import BACKUP, in_project_of, is_ready, remove_image
from provisioning.compute.states import TaskState
from provisioning.images import selectors as images
from provisioning.images.models import Image

log = logging.getLogger(__name__)

NO_BITS = "The image was deleted, or its data did not come."
_UPLOADS = {TaskState.IMAGE_SNAPSHOT: "upload", TaskState.SHELVING: "upload_shelved"}


def on_the_way(instance: Instance, steps: set[str]) -> None:
    """Show that the copy is made and goes to the portal now; ``steps`` are those that have just ended."""
    move = _UPLOADS.get(TaskState(instance.task_state)) if instance.task_state else None
    if move is not None and COPY_DISK in steps:
        state.advance(instance, move, attempt=instance.attempt)


@end_of(SnapshotRequest)
def taken(instance: Instance, body: SnapshotRequest, outcome: Outcome) -> None:
    """End what the image was made for; one without its bits goes.

    An image that has its bits is there, whatever became of the host's word; but a server is on its shelf only when its
    host says so.
    """
    if task_awaiting(instance, body) is None:
        remove_image(body.image_id, unless_ready=True)
    elif instance.task_state in SHELVING:
        _shelved(instance, body, outcome)
    else:
        _made(instance, body, outcome)


def _made(instance: Instance, body: SnapshotRequest, outcome: Outcome) -> None:
    ready = is_ready(body.image_id)
    backup = (
        instance_actions.current(instance.id, "createBackup") if instance.task_state == TaskState.IMAGE_BACKUP else None
    )
    moved = end_task(instance, body, _judged(outcome, ready=ready, well=ready))
    if not ready:
        remove_image(body.image_id, unless_ready=True)
    elif moved is not None and backup is not None:
        event = InstanceActionEvent.objects.filter(action=backup, name="api_createBackup").first()
        _rotate(body.image_id, int(event.detail.get("rotation", "1")) if event else 1)


def _shelved(instance: Instance, body: SnapshotRequest, outcome: Outcome) -> None:
    well = outcome.well and is_ready(body.image_id)
    now, older = timezone.now(), instance.snapshot_image_id
    changes = {"snapshot_image_id": body.image_id, "shelved_at": now}
    moved = end_task(instance, body, _judged(outcome, ready=well, well=well), changes=changes)
    if not well:
        remove_image(body.image_id)
    elif older is not None:  # it was taken off its shelf by hand
        remove_image(older)
    if well and moved is not None and settings.SHELVED_OFFLOAD_TIME == 0:
        begin_offload(system_context(), moved, now)


def _judged(outcome: Outcome, *, ready: bool, well: bool) -> Outcome:
    """Return the outcome as the records have it, with a reason when the host gave none."""
    if well:
        return replace(outcome, well=True, message="")
    message = outcome.message or ("" if ready else NO_BITS)
    return replace(outcome, well=False, message=message)


def _rotate(image_id: str, rotation: int) -> None:
    """Remove the oldest backups of the image's server and type beyond ``rotation``."""
    image = Image.objects.filter(id=image_id).first()
    if image is None:
        return
    same = {name: image.properties.get(name, "") for name in ("instance_uuid", "backup_type")}
    backups = images.images_for(
        in_project_of(image), {"properties": {**same, "image_type": BACKUP}, "status": ["active"], "visibility": "all"}
    )
    mine = [each for each in backups if each.project_id == image.project_id]
    for each in mine[rotation:]:
        if not remove_image(each.id):
            log.warning("Backup %s of server %s could not be removed.", each.id, same["instance_uuid"])
