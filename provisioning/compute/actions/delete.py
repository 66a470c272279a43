"""Delete servers: in every state, with the host up or down, and idempotent."""

import uuid
from collections.abc import Iterable
from copy import copy
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError
from provisioning.compute import selectors
from provisioning.compute.actions.base import HostAction, Prepared, check_lock
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.actions.soft_delete import soft_delete
from provisioning.compute.actions.ways import Button
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.release import finish_delete, host_holding, send_destroy
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands
from provisioning.compute.records.migration_records import close_migration
from provisioning.compute.state_machine import state
from provisioning.compute.states import ALIVE, TaskState, Transition, VmState
from provisioning.hosts.selectors import is_alive

TRIES = 20
"""Attempts to begin a delete while the server changes concurrently."""
DESTROY_COMMANDS = 3
"""Number of destroy commands after which the delete ends without the host's confirmation. They are sent at intervals of
DELETE_TIMEOUT.
"""


class Delete(HostAction[bool, DestroyRequest]):
    """Delete a server.

    With RECLAIM_INSTANCE_INTERVAL set, a server that can be restored is soft-deleted instead, unless the request is
    True (force). A server that is already being deleted stays unchanged.
    """

    key = record = "delete"
    done = "Deleted"
    doing = "Deleting"
    rule = "os_compute_api:servers:delete"
    rule_description = "Delete a server."
    from_states, task = ALIVE, TaskState.DELETING
    ends = {"deleted": VmState.DELETED}
    timeout = "DELETE_TIMEOUT"
    notification = "delete"
    body = DestroyRequest
    button = Button(
        200,
        "delete",
        "Delete",
        "trash",
        "Delete {name}?",
        "The guest is stopped and its disk is removed. This cannot be undone.",
        "{name} is being deleted.",
        danger=True,
    )

    def transitions(self) -> Iterable[Transition]:
        """Allow a delete from every state and task; it cannot fail."""
        for vm in ALIVE:
            for task in (None, *(task for task in TaskState if task != self.task)):
                yield Transition(self.key, (vm, task), (vm, self.task))
            yield Transition("deleted", (vm, self.task), (VmState.DELETED, None))

    def notified_tasks(self) -> tuple[TaskState, ...]:
        """Return no tasks, because a delete cannot fail."""
        return ()

    def offered(self, instance: Instance) -> bool:
        """Whether the server is not already being deleted."""
        return instance.vm_state in self.from_states and instance.task_state != self.task

    @when_broken_off
    def perform(
        self,
        context: RequestContext,
        instance_id: uuid.UUID | str,
        request: bool | None,  # noqa: FBT001 - the base class has this parameter
    ) -> Instance:
        """Delete a server in one transaction and return it. Raises ConflictError for a locked server."""
        started = timezone.now()
        for _ in range(TRIES):
            with transaction.atomic():
                instance = selectors.instance_for(context, instance_id)
                check_lock(context, instance)
                if not request and settings.RECLAIM_INSTANCE_INTERVAL and soft_delete(context, instance, started):
                    return selectors.instance_for(context, instance_id)
                if instance.task_state == self.task or self._delete(context, instance, started):
                    return instance
        raise ConflictError("The server is changing too quickly; try again.")

    def _delete(self, context: RequestContext, instance: Instance, started: datetime) -> bool:
        """Delete the instance, unless it has changed since it was read; then return False, with nothing written.

        1. The attempt is raised, so that older commands and reports about the server are ignored.
        2. Without an allocation on a host the server is deleted immediately.
        3. Otherwise a destroy command is sent, and the server is deleted when the host has carried it out.
        4. When the host is down, the server is deleted for its owner immediately. Its allocation and addresses are kept
           until the host is up again and confirms the removal.
        """
        holder = host_holding(instance)
        raised, before = instance.attempt + 1, copy(instance)
        changes, note = {"attempt": raised}, Note(context)
        if state.advance(instance, self.key, attempt=instance.attempt, changes=changes, note=note) is None:
            return False
        self.write_begin(context, instance, started)
        if host_commands.has_unfinished(instance.id):
            drop_unfinished(before)
            host_commands.withdraw(instance.id, raised)
        if close_migration(instance.id):
            leave_second(instance)
        newer_guests.remove_all(instance)
        if holder is not None:
            send_destroy(instance.id, holder.id, raised, decided=True)
        if holder is None or not is_alive(holder, timezone.now()):
            finish_delete(instance, holder)
        return True

    def command(self, instance: Instance, prepared: Prepared) -> DestroyRequest:
        return DestroyRequest()

    def overdue(self, instance: Instance) -> None:
        """Send the destroy command again, or end the delete when the host is down or DESTROY_COMMANDS were sent; the
        allocation is then kept until the host reports.
        """
        held = Allocation.objects.select_related("host", "instance").filter(instance=instance).first()
        if held is None:
            finish_delete(instance, None)
        elif is_alive(held.host, timezone.now()) and _number_of_commands(held) < DESTROY_COMMANDS:
            state.extend_deadline(instance)
            send_destroy(instance.id, held.host_id, instance.attempt)
        else:
            finish_delete(instance, held.host)


def _number_of_commands(held: Allocation) -> int:
    """Return the number of destroy commands sent to the allocation's host for the current attempt."""
    rows = host_commands.to_destroy().filter(host_id=held.host_id, subject_id=held.instance_id)
    return rows.filter(generation=held.instance.attempt).count()


def delete(context: RequestContext, instance_id: uuid.UUID | str, *, force: bool = False) -> Instance:
    """Delete a server; ``force`` skips soft deletion. Raises the errors of ``Delete.begin``."""
    return Delete.begin(context, instance_id, force)


def delete_once(context: RequestContext, instance_id: uuid.UUID | str, *, permanent: bool = False) -> None:
    """Delete a server; a server that can be restored is deleted only with ``permanent``, because the request may have
    been sent twice. Raises the errors of ``Delete.begin``.
    """
    now = selectors.instance_for(context, instance_id)
    kept = now.vm_state == VmState.SOFT_DELETED
    if permanent or not (kept or now.task_state == TaskState.SOFT_DELETING):
        delete(context, instance_id, force=kept)
