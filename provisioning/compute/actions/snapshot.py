"""Images of servers: a snapshot, or the next of a row of backups."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, OverQuotaError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors
from provisioning.compute.actions.base import Deed, order
from provisioning.compute.models import Instance
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.snapshot_images import BACKUP, MadeImage, check_properties, make_record, remove_image
from provisioning.compute.states import TaskState
from provisioning.quotas import selectors as quotas

SHELVING = frozenset({TaskState.SHELVING, TaskState.SHELVING_IMAGE_UPLOADING})


def create_image(
    context: RequestContext, instance_id: uuid.UUID | str, name: str, metadata: Mapping[str, str] | None = None
) -> uuid.UUID:
    """Make an image of a server's root disk; it goes on.  Returns the image's id: its record is there, its bits come.

    A lock does not keep from it, as in Nova: the server is not changed.  Raises NotFoundError, InstanceBusyError,
    UnavailableError when its host is down, InvalidInputError and ForbiddenError for the metadata.
    """
    made = MadeImage(uuid.uuid4(), name, more=_checked(context, metadata))
    _begin(context, instance_id, made, Deed("createImage", "snapshot", _order_of(made), image_id=str(made.id)), {})
    return made.id


def create_backup(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    name: str,
    backup_type: str,
    rotation: int,
    metadata: Mapping[str, str] | None = None,
) -> uuid.UUID:
    """Make an image of a server's root disk, and when it is there remove all but the ``rotation`` newest of this server
    and ``backup_type``.  Returns the image's id; raises as ``create_image``.
    """
    more = {**_checked(context, metadata), "backup_type": backup_type}
    made = MadeImage(uuid.uuid4(), name, BACKUP, more)
    told = {"rotation": str(rotation), "backup_type": backup_type}
    _begin(context, instance_id, made, Deed("createBackup", "backup", _order_of(made), image_id=str(made.id)), told)
    return made.id


def _checked(context: RequestContext, metadata: Mapping[str, str] | None) -> dict[str, str]:
    if not metadata:
        return {}
    limits = quotas.limits_of(context.project_id) if context.project_id else {}
    try:
        checked = check_metadata(metadata, limits)
    except OverQuotaError as error:
        raise ForbiddenError("Image metadata limit exceeded", field="metadata") from error
    check_properties(context, checked)
    return checked


def _order_of(made: MadeImage) -> Callable[[Instance], SnapshotRequest]:
    return lambda _: SnapshotRequest(image_id=str(made.id))


@when_broken_off
def _begin(
    context: RequestContext, instance_id: uuid.UUID | str, made: MadeImage, deed: Deed, told: Mapping[str, str]
) -> Instance:
    """Order and write the record, in one transaction; ``told`` stands in the action's first step."""
    started = timezone.now()
    with transaction.atomic():
        moved = order(context, selectors.instance_for(context, instance_id), deed, started)
        make_record(context, moved, made)
        action = instance_actions.current(moved.id, deed.action)
        if action is not None:
            detail = {"image": str(made.id), **told}
            span = instance_actions.since(started)
            step = instance_actions.step(action, f"api_{deed.action}", span, attempt=moved.attempt, detail=detail)
            instance_actions.write([step])
    return moved


def drop_unfinished(before: Instance) -> None:
    """End the image that a host is making of a server that is being deleted, or reset: nobody will finish it.

    Called before the order is withdrawn; ``before`` is the server as it was then.
    """
    command = host_commands.of_task(before.id, before.attempt)
    if command is None or command.kind != "snapshot_request":
        return
    body = decode_command_body(command.body)
    if isinstance(body, SnapshotRequest):
        remove_image(body.image_id, unless_ready=before.task_state not in SHELVING)
