"""Create images of servers: snapshots and rotated backups."""

import logging
import uuid
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic

from oslo_utils import strutils

from compute_agent.contract.commands import VARIABLES, SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from compute_agent.contract.steps import COPY_DISK
from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import ForbiddenError, InvalidInputError, OverQuotaError
from provisioning.compute import selectors
from provisioning.compute.actions.base import HostAction, Prepared, R, Stage
from provisioning.compute.actions.registry import action_of
from provisioning.compute.disks import volume_images
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.disks.snapshot_images import (
    BACKUP,
    ServerImage,
    check_properties,
    is_ready,
    keep_variables,
    make_record,
    remove_image,
)
from provisioning.compute.host_link import guest_agent
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.state_machine import state
from provisioning.compute.states import AT_REST, TaskState, VmState
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.quotas import selectors as quotas

log = logging.getLogger(__name__)

QUIESCE = "os_require_quiesce"
NO_BITS = "The image was deleted, or its upload failed."


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to create from a server, and the detail of the action record's first step."""

    made: ServerImage
    detail: Mapping[str, str] = field(default_factory=dict)


class ImageAction(HostAction[R, SnapshotRequest], Generic[R]):
    """Base class of actions that upload a server's root disk to an image."""

    body = SnapshotRequest
    timeout, heavy_io = "SNAPSHOT_TIMEOUT", True

    @abstractmethod
    def new_image(self, instance: Instance, request: R) -> NewImage:
        """Return the image to create."""

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Begin, and write the image's record."""
        new = self.new_image(instance, request)
        detail = {"image": str(new.made.id), **new.detail}
        prepared = Prepared(value=new, detail=detail, image_id=str(new.made.id))
        moved = self.carry_out(context, instance, prepared, started)
        make_record(context, moved, new.made)
        return moved

    def command(self, instance: Instance, prepared: Prepared) -> SnapshotRequest:
        return SnapshotRequest(image_id=prepared.image_id)

    def progressed(self, instance: Instance, steps: set[str]) -> None:
        """Enter the upload stage when the host has copied the disk."""
        if self.stages and COPY_DISK in steps and instance.task_state == self.task:
            state.advance(instance, self.stages[0].transition, attempt=instance.attempt)

    def abandoned(self, instance: Instance, body: SnapshotRequest) -> None:
        """Remove the image of an abandoned command, unless its data is complete."""
        remove_image(body.image_id, unless_ready=True)

    def end(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Instance | None:
        """End the task successfully if the image has its data, even if the host has reported a failure. Otherwise
        remove the image.
        """
        ready = is_ready(body.image_id)
        if ready and VARIABLES in outcome.detail:
            keep_variables(body.image_id, outcome.detail[VARIABLES])
        moved = super().end(instance, body, judged(outcome, "" if ready else NO_BITS))
        if not ready:
            remove_image(body.image_id, unless_ready=True)
        return moved


class CreateImage(ImageAction[NewImage]):
    """Create an image of a server's root disk while the server runs. As in Nova, a lock does not prevent it."""

    key, record, api = "snapshot", "createImage", "createImage"
    done = "Snapshot taken"
    doing = "Taking a snapshot"
    rule = "os_compute_api:servers:create_image"
    rule_description = "Create an image of a server."
    takes_request, heeds_lock = True, False
    from_states, task = AT_REST, TaskState.IMAGE_SNAPSHOT
    stages = (Stage("upload", TaskState.IMAGE_UPLOADING, "Uploading the snapshot"),)
    ends = {"snapshot_taken": None}
    notification = "snapshot"

    def new_image(self, instance: Instance, request: NewImage) -> NewImage:
        return request


class CreateBackup(ImageAction[NewImage]):
    """Create a backup image of a server's root disk, then remove the oldest backups of this server and type."""

    key, record, api = "backup", "createBackup", "createBackup"
    done = "Backup taken"
    doing = "Taking a backup"
    rule = "os_compute_api:os-create-backup"
    rule_description = "Create a backup of a server."
    takes_request, heeds_lock = True, False
    from_states, task = AT_REST, TaskState.IMAGE_BACKUP
    ends = {"backup_taken": None}
    notification = "snapshot"

    def new_image(self, instance: Instance, request: NewImage) -> NewImage:
        return request

    def end(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Instance | None:
        """End the task and remove the oldest backups."""
        row = instance_actions.current(instance.id, self.record)
        moved = super().end(instance, body, outcome)
        if moved is not None and row is not None and is_ready(body.image_id):
            event = InstanceActionEvent.objects.filter(action=row, name="api_createBackup").first()
            _rotate(body.image_id, int(event.detail.get("rotation", "1")) if event else 1)
        return moved


def create_image(
    context: RequestContext, instance_id: uuid.UUID | str, name: str, metadata: Mapping[str, str] | None = None
) -> uuid.UUID:
    """Create an image of a server's root disk while the server runs. Returns the id of the image, whose data is
    uploaded later.

    As in Nova, a lock does not prevent it, because the server does not change. Raises NotFoundError, InstanceBusyError,
    UnavailableError when the host is down, InvalidInputError and ForbiddenError for the metadata.
    """
    made = ServerImage(uuid.uuid4(), name, more=_checked(context, metadata))
    instance = selectors.instance_for(context, instance_id)
    _check_quiesce(instance)
    if boots_from_volume(instance):
        volume_images.make(context, instance, made)
        return made.id
    CreateImage.begin(context, instance_id, NewImage(made))
    return made.id


def create_backup(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    name: str,
    backup_type: str,
    rotation: int,
    metadata: Mapping[str, str] | None = None,
) -> uuid.UUID:
    """Create an image of a server's root disk, then remove all but the ``rotation`` newest images of this server and
    ``backup_type``. Returns the image's id. Raises the errors of ``create_image``.
    """
    instance = selectors.instance_for(context, instance_id)
    _check_quiesce(instance)
    if boots_from_volume(instance):
        raise InvalidInputError("Backup is not supported for volume-backed instances.")
    more = {**_checked(context, metadata), "backup_type": backup_type}
    made = ServerImage(uuid.uuid4(), name, BACKUP, more)
    detail = {"rotation": str(rotation), "backup_type": backup_type}
    CreateBackup.begin(context, instance_id, NewImage(made, detail))
    return made.id


def _check_quiesce(instance: Instance) -> None:
    """Raise InvalidInputError if the image requires quiescing, and the guest is running and has no guest agent."""
    required = strutils.bool_from_string(instance.image_properties.get(QUIESCE, ""))
    if required and instance.vm_state == VmState.ACTIVE and not guest_agent.has_guest_agent(instance):
        raise InvalidInputError(
            f"Quiescing is not supported in instance {instance.id}: its image has {QUIESCE}=yes without"
            f" {guest_agent.PROPERTY}=yes."
        )


def _checked(context: RequestContext, metadata: Mapping[str, str] | None) -> dict[str, str]:
    if not metadata:
        return {}
    limits = quotas.bounds_of(context.project_id, context.user_id).least if context.project_id else {}
    try:
        checked = check_metadata(metadata, limits)
    except OverQuotaError as error:
        raise ForbiddenError("Image metadata limit exceeded", field="metadata") from error
    check_properties(context, checked)
    return checked


def drop_unfinished(before: Instance, *, keep_whole: bool = False) -> None:
    """Remove the image that a host is creating from a server that is being deleted or reset.

    Call it before the command is withdrawn; ``before`` is the server at that time. An image with complete data is kept
    if the action keeps it (``keeps_image``), or always with ``keep_whole``.
    """
    command = host_commands.of_task(before.id, before.attempt)
    if command is None or command.kind != "snapshot_request":
        return
    body = decode_command_body(command.body)
    if isinstance(body, SnapshotRequest):
        action = action_of(before)
        remove_image(body.image_id, unless_ready=keep_whole or action is None or action.keeps_image)


def judged(outcome: Outcome, lacks: str) -> Outcome:
    """Return the outcome to record: success if ``lacks``, the reason of an incomplete image, is empty; otherwise a
    failure with the host's reason, or with ``lacks`` if the host gave none.
    """
    return replace(outcome, well=not lacks, message=lacks and (outcome.message or lacks))


def _rotate(image_id: str, rotation: int) -> None:
    """Remove the oldest backups with the server and backup type of this image, and keep the newest
    ``rotation`` ones.
    """
    image = Image.objects.filter(id=image_id).first()
    if image is None:
        return
    same = {name: image.properties.get(name, "") for name in ("instance_uuid", "backup_type")}
    backups = images.images_for(
        cloud_in_project(image.project_id),
        {"properties": {**same, "image_type": BACKUP}, "status": ["active"], "visibility": "all"},
    )
    mine = [each for each in backups if each.project_id == image.project_id]
    for each in mine[rotation:]:
        if not remove_image(each.id):
            log.warning("Backup %s of server %s could not be removed.", each.id, same["instance_uuid"])
