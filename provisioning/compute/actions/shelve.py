"""Putting a server on the shelf: stopped and copied, then taken off its host, which gets its room back."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import SnapshotRequest
from provisioning.common.context import RequestContext
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.base import Deed, check_lock, order
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.release import finish_offload, send_destroy
from provisioning.compute.snapshot_images import MadeImage, make_record

SUFFIX = "-shelved"
STOP_WITHIN = 60
"""Seconds that the guest has to shut itself down."""
LONGEST = 255


@when_broken_off
def shelve(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Stop a server, gracefully, and keep its root disk as an image ``<name>-shelved``, from which it comes back.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, UnavailableError when its host is down.
    """
    started, image_id = timezone.now(), uuid.uuid4()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        body = SnapshotRequest(image_id=str(image_id), stop=True, timeout=STOP_WITHIN)
        moved = order(context, instance, Deed("shelve", "shelve", lambda _: body), started)
        make_record(context, moved, MadeImage(image_id, moved.name[: LONGEST - len(SUFFIX)] + SUFFIX))
    return moved


@when_broken_off
def offload(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Take a shelved server off its host: guest and disks go there, ports and addresses stay the server's.

    With the host down it waits for it.  Raises NotFoundError, InstanceLockedError, InstanceBusyError.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        return begin_offload(context, instance, started)


def begin_offload(context: RequestContext, instance: Instance, started: datetime) -> Instance:
    """Begin what ``offload`` says, inside the caller's transaction.

    The attempt rises: a guest of an older one that turns up later is nobody's.  Raises InstanceBusyError.
    """
    raised, was = instance.attempt + 1, (instance.vm_state, instance.task_state)
    changes, note = {"attempt": raised}, Note(context)
    moved = state.advance(instance, "offload", attempt=instance.attempt, changes=changes, note=note)
    if moved is None:
        raise InstanceBusyError("shelveOffload", instance.id, *was)
    action = instance_actions.begin(context, moved.id, "shelveOffload", started)
    instance_actions.write(
        [instance_actions.step(action, "api_shelveOffload", instance_actions.since(started), attempt=raised)]
    )
    host_commands.withdraw(moved.id, raised)
    if moved.host_id is None:
        finish_offload(moved)
    else:
        send_destroy(moved.id, moved.host_id, raised)
    return moved
