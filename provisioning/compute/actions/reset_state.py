"""What operators set by hand when a server is stuck."""

from __future__ import annotations

import uuid
from copy import copy
from typing import Literal

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.release import host_holding, leave_host, not_handed_over, release_place
from provisioning.compute.states import TaskState, VmState
from provisioning.quotas.services.ledger import commit

BY_HAND = "An administrator has reset the server's state."


@when_broken_off
def reset_state(context: RequestContext, instance_id: uuid.UUID | str, to: Literal["active", "error"]) -> Instance:
    """Set a server to ``active`` or ``error`` whatever goes on with it; what its host still says is passed over.

    Nothing is done on the host.  One that was on its way to a host leaves its place there, and one
    that was taken off its host goes from there.

    Raises NotFoundError, ConflictError for ``active`` without a host, InstanceBusyError when it is being deleted.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        homeless = not_handed_over(instance) or instance.task_state == TaskState.SHELVING_OFFLOADING
        if to == "active" and (instance.host_id is None or homeless):
            raise ConflictError("The server is on no host: it cannot be set to active.")
        was, before = (instance.vm_state, instance.task_state), copy(instance)
        nowhere = homeless and host_holding(instance) is None
        changes = {"host": None} if homeless else None
        moved = state.advance(instance, f"reset_{to}", attempt=instance.attempt, changes=changes)
        if moved is None:
            raise InstanceBusyError("os-resetState", instance.id, *was)
        instance_actions.finish(moved.id, message=BY_HAND)
        commit(moved.id)
        if nowhere:
            (leave_host if before.vm_state == VmState.SHELVED_OFFLOADED else release_place)(moved.id)
        drop_unfinished(before)
        host_commands.withdraw_of_tasks(moved.id)
        row = instance_actions.begin(context, moved.id, "resetState", started)
        instance_actions.write(
            [instance_actions.step(row, "api_resetState", instance_actions.since(started), attempt=moved.attempt)]
        )
        instance_actions.finish(moved.id, "resetState")
    return moved
