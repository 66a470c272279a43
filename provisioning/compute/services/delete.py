"""Deleting: possible in every state, with the host up or down, and idempotent."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.messages import DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.services import actions, state
from provisioning.compute.services.release import finish_delete, host_holding
from provisioning.compute.states import TaskState
from provisioning.network import selectors as network
from provisioning.rpc import hosts


def delete(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Delete a server, in one transaction, and return it as it is then.

    1. The attempt rises: every older order and report about it means nothing from here on.  2. Where no host has
    anything of it, it is deleted at once.  3. Else its host is told to destroy it, and it is deleted when the host has
    done so.  4. When that host is down it is deleted at once for its owner, while its room and addresses stay taken
    until the host is back and confirms.

    A server that is being deleted is left alone.  Raises NotFoundError; ConflictError for a locked server.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        if instance.locked and not context.is_admin:
            raise ConflictError("The server is locked.")
        if instance.task_state == TaskState.DELETING:
            return instance
        holder = host_holding(instance)
        deleting = state.advance(
            instance, "delete", attempt=instance.attempt, changes={"attempt": instance.attempt + 1}
        )
        if deleting is None:  # another writer came between: look again
            again = Instance.objects.filter(id=instance.id).exclude(vm_state="deleted").first()
            if again is None:
                raise NotFoundError(f"Instance {instance_id} could not be found.")
            if again.task_state == TaskState.DELETING:
                return again
            raise InstanceBusyError("delete", again.vm_state, again.task_state)
        action = actions.begin(context, deleting.id, "delete", started)
        actions.write([actions.step(action, "api_delete", actions.since(started), attempt=deleting.attempt)])
        hosts.withdraw(deleting.id, deleting.attempt)
        if holder is None:
            return finish_delete(deleting, confirmed=True) or deleting
        send_destroy(deleting.id, holder.id, deleting.attempt)
        if not selectors.is_alive(holder, timezone.now()):
            return finish_delete(deleting, confirmed=False) or deleting
        return deleting


def send_destroy(instance_id: uuid.UUID, host_id: uuid.UUID, attempt: int) -> None:
    """Order a host to remove whatever it has of an instance; the order waits for the host as long as it takes."""
    hosts.command(host_id, instance_id, attempt, DestroyRequest(ports=network.port_refs(instance_id)), None)
