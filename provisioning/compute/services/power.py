"""Starting, stopping and rebooting: a move, an action record and an order to the host in one transaction."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.orders import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.services import actions, state
from provisioning.compute.states import TaskState
from provisioning.identity import policy
from provisioning.rpc import hosts


@dataclass(frozen=True, slots=True)
class PowerVerb:
    """One thing a power action is: Nova's action name, the move that begins it, the one that ends it, the order to the
    host.
    """

    action: str
    begin: str
    end: str
    order: Literal["start", "stop", "reboot_soft", "reboot_hard"]


VERBS: dict[TaskState, PowerVerb] = {
    TaskState.POWERING_ON: PowerVerb("start", "power_on", "powered_on", "start"),
    TaskState.POWERING_OFF: PowerVerb("stop", "power_off", "powered_off", "stop"),
    TaskState.REBOOTING: PowerVerb("reboot", "reboot", "rebooted", "reboot_soft"),
    TaskState.REBOOTING_HARD: PowerVerb("reboot", "reboot_hard", "rebooted_hard", "reboot_hard"),
}


def start(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Power a stopped server on.  Raises NotFoundError, InstanceBusyError, UnavailableError when its host is down."""
    return _change(context, instance_id, TaskState.POWERING_ON)


def stop(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Shut an active server down.  Raises as ``start``."""
    return _change(context, instance_id, TaskState.POWERING_OFF)


def reboot(context: RequestContext, instance_id: uuid.UUID | str, *, hard: bool = False) -> Instance:
    """Reboot an active server: soft asks the guest first, hard resets it.  Raises as ``start``."""
    return _change(context, instance_id, TaskState.REBOOTING_HARD if hard else TaskState.REBOOTING)


def _change(context: RequestContext, instance_id: uuid.UUID | str, task: TaskState) -> Instance:
    verb, started = VERBS[task], timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        if instance.locked and not policy.allows(context, "compute:servers:override_lock"):
            raise ConflictError("The server is locked.")
        moved = state.advance(instance, verb.begin, attempt=instance.attempt)
        if moved is None or moved.host is None:
            raise InstanceBusyError(verb.action, instance.vm_state, instance.task_state)
        if not selectors.is_alive(moved.host, started):
            raise UnavailableError("The server's host does not answer. Try again when it is back.")
        actions.begin(context, moved.id, verb.action, started)
        hosts.command(
            moved.host.id,
            moved.id,
            moved.attempt,
            PowerRequest(action=verb.order),
            started + timedelta(seconds=state.POWER_TIMEOUT),
        )
    return moved
