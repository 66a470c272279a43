"""Taking a server off the shelf: started where it is, or built from the copy of its disk on any host that fits."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.retry import when_broken_off
from provisioning.common.unset import UNSET, Unset
from provisioning.compute import instance_actions, selectors, state
from provisioning.compute.actions.base import Deed, check_lock, order
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import availability_zones
from provisioning.identity import policy
from provisioning.jobs.cast import cast


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a server is to come back: ``zone`` None takes back the zone it was bound to; ``host`` is for operators."""

    zone: str | Unset | None = UNSET
    host: str = ""

    @property
    def says_something(self) -> bool:
        """Whether the caller wants more than a place."""
        return bool(self.host) or self.zone is not UNSET


ANYWHERE = Destination()


@when_broken_off
def unshelve(context: RequestContext, instance_id: uuid.UUID | str, to: Destination = ANYWHERE) -> Instance:
    """Bring a shelved server back.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError; InvalidInputError for a zone or a host that there is
    not, ForbiddenError for a host asked for by others than operators, ConflictError for a destination of a server that
    is still on its host, and for a host outside the zone; UnavailableError when the host it is on is down.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        if to.host:
            policy.enforce(context, "os_compute_api:os-shelve:unshelve_to_host")
        check_lock(context, instance)
        if instance.vm_state == VmState.SHELVED_OFFLOADED:
            return _schedule(context, instance, _wanted(instance, to), started)
        if instance.vm_state == VmState.SHELVED and to.says_something:
            raise ConflictError(
                f"Specifying an availability zone or a host when unshelving server {instance.id} with status"
                f" {instance.vm_state} is not supported: it must be {VmState.SHELVED_OFFLOADED.value}."
            )
        return order(context, instance, Deed("unshelve", "unshelve", lambda _: PowerRequest(action="start")), started)


def _wanted(instance: Instance, to: Destination) -> dict[str, Any]:
    """Return the columns that say where the server is to be."""
    zone = instance.availability_zone if to.zone is UNSET else to.zone or ""
    if to.zone is not UNSET and zone and zone not in availability_zones():
        raise InvalidInputError("The requested availability zone is not available", field="availability_zone")
    if to.host:
        host = Host.objects.filter(name=to.host).first()
        if host is None:
            raise InvalidInputError(f"Compute host {to.host} could not be found.", field="host")
        if zone and host.availability_zone != zone:
            raise ConflictError(f"Host {to.host} is not in the availability zone {zone}.", field="host")
    return {"availability_zone": zone, "requested_host": to.host}


def _schedule(context: RequestContext, instance: Instance, wanted: dict[str, Any], started: datetime) -> Instance:
    """Ask the scheduler for a place.  Orders to remove what an earlier try has left somewhere stand."""
    raised, was = instance.attempt + 1, (instance.vm_state, instance.task_state)
    changes = {**wanted, "attempt": raised, "excluded_hosts": []}
    moved = state.advance(instance, "unshelve", attempt=instance.attempt, changes=changes, note=Note(context))
    if moved is None:
        raise InstanceBusyError("unshelve", instance.id, *was)
    action = instance_actions.begin(context, moved.id, "unshelve", started)
    instance_actions.write(
        [instance_actions.step(action, "api_unshelve", instance_actions.since(started), attempt=raised)]
    )
    cast("scheduler", "compute.schedule", instance_id=str(moved.id), attempt=moved.attempt)
    return moved
