"""Deleting: possible in every state, with the host up or down, and idempotent."""

from __future__ import annotations

import uuid
from copy import copy
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.base import check_lock
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.actions.soft_delete import soft_delete
from provisioning.compute.migration_records import close_migration
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.release import finish_delete, host_holding, send_destroy
from provisioning.compute.states import TaskState
from provisioning.hosts.selectors import is_alive

TRIES = 20
"""How often a delete looks again at a server that moves between being read and being marked."""


@when_broken_off
def delete(context: RequestContext, instance_id: uuid.UUID | str, *, force: bool = False) -> Instance:
    """Delete a server, in one transaction, and return it as it is then.

    1. The attempt rises: every older order and report about it means nothing from here on.  2. Where no host has
    anything of it, it is deleted at once.  3. Else its host is told to destroy it, and it is deleted when the host has
    done so.  4. When that host is down it is deleted at once for its owner, while its room and addresses stay taken
    until the host is back and confirms.

    Where operators keep deleted servers for a while (RECLAIM_INSTANCE_INTERVAL), one that can come back is stopped and
    kept instead, unless ``force``.

    A server that is being deleted is left alone.  Raises NotFoundError; ConflictError for a locked server.
    """
    started = timezone.now()
    for _ in range(TRIES):
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            check_lock(context, instance)
            if not force and settings.RECLAIM_INSTANCE_INTERVAL and soft_delete(context, instance, started):
                return selectors.instance_for(context, instance_id)
            if instance.task_state == TaskState.DELETING or _delete(context, instance, started):
                return instance
    raise ConflictError("The server is changing too quickly; try again.")


def _delete(context: RequestContext, instance: Instance, started: datetime) -> bool:
    """Delete the instance as it was read; False when it has moved since, and nothing was written."""
    holder = host_holding(instance)
    raised, before = instance.attempt + 1, copy(instance)
    changes, note = {"attempt": raised}, Note(context)
    if state.advance(instance, "delete", attempt=instance.attempt, changes=changes, note=note) is None:
        return False
    action = instance_actions.begin(context, instance.id, "delete", started)
    instance_actions.write(
        [instance_actions.step(action, "api_delete", instance_actions.since(started), attempt=raised)]
    )
    drop_unfinished(before)
    host_commands.withdraw(instance.id, raised)
    close_migration(instance.id)
    if holder is None:
        finish_delete(instance, confirmed=True)
        return True
    send_destroy(instance.id, holder.id, raised)
    if not is_alive(holder, timezone.now()):
        finish_delete(instance, confirmed=False)
    return True
