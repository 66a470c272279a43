"""What goes on with a server that was built: how each task begins, the order it waits for, and how it ends.

A task begins with a move, an action record and an order, in one transaction.  The host's word ends it
(``conductor.ends``), or its deadline (``compute.reaper``).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import (
    CommandBody,
    ConfirmResizeRequest,
    PasswordRequest,
    PowerRequest,
    RebuildRequest,
    RescueRequest,
    ResizeRequest,
    RevertResizeRequest,
    SnapshotRequest,
    UnrescueRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import UnavailableError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.states import TaskState as T
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy

HOST_AWAY = "The server's host does not answer. Try again when it is back."


@dataclass(frozen=True, slots=True)
class Task:
    """One task: Nova's action name, the order it waits for, the moves that end it well and badly.

    ``power``: what a ``PowerRequest`` must ask for.  ``fail`` is ``action_broke`` where nobody can say what a failed
    order has left.
    """

    action: str
    order: type[CommandBody]
    end: str
    fail: str = "action_failed"
    power: str = ""

    def awaits(self, body: CommandBody) -> bool:
        """Whether the task waits for this very order."""
        return isinstance(body, self.order) and (not isinstance(body, PowerRequest) or body.action == self.power)


TASKS: dict[T, Task] = {
    T.POWERING_ON: Task("start", PowerRequest, "powered_on", power="start"),
    T.POWERING_OFF: Task("stop", PowerRequest, "powered_off", power="stop"),
    T.REBOOTING: Task("reboot", PowerRequest, "rebooted", power="reboot_soft"),
    T.REBOOTING_HARD: Task("reboot", PowerRequest, "rebooted_hard", power="reboot_hard"),
    T.PAUSING: Task("pause", PowerRequest, "paused", power="pause"),
    T.UNPAUSING: Task("unpause", PowerRequest, "unpaused", power="unpause"),
    T.SUSPENDING: Task("suspend", PowerRequest, "suspended", power="suspend"),
    T.RESUMING: Task("resume", PowerRequest, "resumed", power="resume"),
    T.UPDATING_PASSWORD: Task("changePassword", PasswordRequest, "password_changed"),
    T.RESCUING: Task("rescue", RescueRequest, "rescued"),
    T.UNRESCUING: Task("unrescue", UnrescueRequest, "unrescued"),
    T.REBUILDING: Task("rebuild", RebuildRequest, "rebuilt", "action_broke"),
    T.RESIZE_PREP: Task("resize", ResizeRequest, "resized", "action_broke"),
    T.RESIZE_MIGRATING: Task("resize", ResizeRequest, "resized", "action_broke"),
    T.RESIZE_FINISH: Task("resize", ResizeRequest, "resized", "action_broke"),
    T.RESIZE_CONFIRMING: Task("confirmResize", ConfirmResizeRequest, "resize_confirmed"),
    T.RESIZE_REVERTING: Task("revertResize", RevertResizeRequest, "resize_reverted", "action_broke"),
    T.IMAGE_SNAPSHOT: Task("createImage", SnapshotRequest, "snapshot_taken"),
    T.IMAGE_BACKUP: Task("createBackup", SnapshotRequest, "backup_taken"),
    T.IMAGE_UPLOADING: Task("createImage", SnapshotRequest, "snapshot_taken"),
    T.SHELVING: Task("shelve", SnapshotRequest, "shelved"),
    T.SHELVING_IMAGE_UPLOADING: Task("shelve", SnapshotRequest, "shelved"),
    T.UNSHELVING: Task("unshelve", PowerRequest, "unshelved", power="start"),
    T.SOFT_DELETING: Task("delete", PowerRequest, "soft_deleted", power="stop"),
    T.RESTORING: Task("restore", PowerRequest, "restored", power="start"),
}
"""Tasks that a host ends; the operator's settings say how long each may take (``deadlines``)."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be done with a server: the name of the action, the move that begins it, the columns that change with
    it, and the order to its host, made from the instance as it is then.
    """

    action: str
    move: str
    order: Callable[[Instance], CommandBody]
    changes: Mapping[str, Any] | Callable[[Instance], Mapping[str, Any]] | None = None
    image_id: str = ""
    """Of the image that is made by it."""


def check_lock(context: RequestContext, instance: Instance) -> None:
    """Refuse to act on a locked server; InstanceLockedError."""
    if instance.locked and not policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override"):
        raise InstanceLockedError(instance.id, instance.locked_reason)


@when_broken_off
def begin(context: RequestContext, instance_id: uuid.UUID | str, deed: Deed) -> Instance:
    """Begin a deed, in one transaction: lock, move, action record, order.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, UnavailableError when its host is down, and whatever
    making the order raises.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        return order(context, instance, deed, started)


def order(context: RequestContext, instance: Instance, deed: Deed, started: datetime) -> Instance:
    """Move, record and order, inside the caller's transaction; raises as ``begin``."""
    changes = deed.changes(instance) if callable(deed.changes) else deed.changes
    was = instance.vm_state, instance.task_state
    note = Note(context, image_id=deed.image_id)
    moved = state.advance(instance, deed.move, attempt=instance.attempt, changes=changes, note=note)
    if moved is None:
        raise InstanceBusyError(deed.action, instance.id, *was)
    if moved.host is None:
        raise InstanceBusyError(deed.action, instance.id, moved.vm_state, None)
    if not is_alive(moved.host, started):
        raise UnavailableError(HOST_AWAY)
    action = instance_actions.begin(context, moved.id, deed.action, started)
    instance_actions.write(
        [instance_actions.step(action, f"api_{deed.action}", instance_actions.since(started), attempt=moved.attempt)]
    )
    host_commands.send(moved.host.id, moved.id, moved.attempt, deed.order(moved), moved.task_deadline)
    return moved
