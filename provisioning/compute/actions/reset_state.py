"""Reset the state of a stuck server, for operators."""

import uuid
from collections.abc import Iterable
from copy import copy
from typing import Literal

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError
from provisioning.compute import selectors
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.release import host_holding, keeps_ports, leave_host, not_handed_over, release_place
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import ALIVE, TaskState, Transition, VmState
from provisioning.identity.policies.base import ADMIN
from provisioning.quotas.services.ledger import commit

MIGRATING = (
    "Server {id} is being migrated live, and may run on either host. Abort the migration, or force down the host that"
    " does not answer."
)
MOVING = (
    "The server is moving between two hosts. The move is completed or undone automatically. Force"
    " down a host that is powered off, so that the move does not wait for it."
)
BY_HAND = "An administrator has reset the server's state."


class ResetState(ServerAction[Literal["active", "error"]]):
    """Set a server to ``active`` or ``error``, even during a task; later reports of the host about the task are
    ignored.

    No command is sent to the host. A server that is not yet on its host, or is being offloaded from it, loses its host.
    """

    key, record, api = "reset_state", "resetState", "os-resetState"
    done = "State reset by an operator"
    rule = "os_compute_api:os-admin-actions:reset_state"
    rule_description = "Reset the state of a server."
    rule_check = ADMIN
    heeds_lock = False
    takes_request = True

    def transitions(self) -> Iterable[Transition]:
        """Return transitions from every state and task except a delete."""
        for target in (VmState.ACTIVE, VmState.ERROR):
            for vm in ALIVE:
                for task in (None, *TaskState):
                    if task != TaskState.DELETING:
                        yield Transition(f"reset_{target.value}", (vm, task), (target, None))

    @when_broken_off
    def perform(
        self,
        context: RequestContext,
        instance_id: uuid.UUID | str,
        request: Literal["active", "error"] = "error",
    ) -> Instance:
        """Set the state in one transaction.

        Raises NotFoundError, ConflictError for ``active`` without a host and during a move, InstanceBusyError for a
        server that is being deleted.
        """
        started = timezone.now()
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            state.lock([instance.id])
            if instance.task_state == TaskState.MIGRATING:
                raise ConflictError(MIGRATING.format(id=instance.id))
            if cold.is_moving(instance):
                raise ConflictError(MOVING)
            homeless = not_handed_over(instance) or instance.task_state == TaskState.SHELVING_OFFLOADING
            if request == "active" and (instance.host_id is None or homeless):
                raise ConflictError("The server has no host and cannot be set to active.")
            was, before = (instance.vm_state, instance.task_state), copy(instance)
            nowhere = homeless and host_holding(instance) is None
            changes = {"host": None} if homeless else None
            moved = state.advance(instance, f"reset_{request}", attempt=instance.attempt, changes=changes)
            if moved is None:
                raise InstanceBusyError("os-resetState", instance.id, *was)
            instance_actions.finish_all(moved.id, message=BY_HAND)
            commit(moved.id)
            if nowhere:
                if keeps_ports(moved):
                    leave_host(moved)
                else:
                    release_place(moved.id)
            drop_unfinished(before)
            host_commands.withdraw_of_tasks(moved.id)
            row = instance_actions.begin(context, moved.id, self.record, started)
            instance_actions.record(row, moved.attempt, instance_actions.Step(f"api_{self.record}", started))
            instance_actions.finish(moved.id, self.record)
        return moved
