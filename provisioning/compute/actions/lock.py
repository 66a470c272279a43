"""Lock a server against changes by its own project."""

import uuid
from abc import abstractmethod

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute import selectors
from provisioning.compute.actions.base import ServerAction, check_lock
from provisioning.compute.actions.ways import Button
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState

TRIES = 20


class _LockAction(ServerAction[str | None]):
    """Base class of actions that change the lock of a server, without a command to its host."""

    @abstractmethod
    def columns(self, reason: str | None) -> dict[str, object]:
        """Return column → new value of the server."""

    @abstractmethod
    def check(self, context: RequestContext, instance: Instance) -> None:
        """Raise InstanceLockedError when the caller may not change the current lock."""

    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: str | None) -> Instance:
        """Write the lock and its action record in one transaction."""
        started = timezone.now()
        for _ in range(TRIES):
            with transaction.atomic():
                instance = selectors.instance_for(context, instance_id)
                self.check(context, instance)
                note = Note(context, service="nova-api")
                if state.update(instance, self.columns(request), note, self.notification):
                    row = instance_actions.begin(context, instance.id, self.record, started)
                    step = instance_actions.Step(f"api_{self.record}", started)
                    instance_actions.record(row, instance.attempt, step)
                    instance_actions.finish(instance.id, self.record)
                    return instance
        raise ConflictError("The server is changing too quickly; try again.")


class Lock(_LockAction):
    """Lock a server: until it is unlocked, only operators can act on it. The request is the reason that users see."""

    key = record = api = notification = "lock"
    done = "Locked"
    rule = "os_compute_api:os-lock-server:lock"
    rule_description = "Lock a server."
    takes_request = True
    button = Button(
        150,
        "lock",
        "Lock",
        "lock",
        "Lock {name}?",
        "It cannot be changed or deleted until it is unlocked.",
        "{name} is locked.",
    )

    def offered(self, instance: Instance) -> bool:
        """Whether the server is not locked, being built or soft-deleted."""
        return not instance.locked and instance.vm_state not in {VmState.BUILDING, VmState.SOFT_DELETED}

    def why_not(self, instance: Instance) -> str:
        return "it is already locked" if instance.locked else super().why_not(instance)

    def columns(self, reason: str | None) -> dict[str, object]:
        return {"locked": True, "locked_reason": reason}

    def check(self, context: RequestContext, instance: Instance) -> None:
        """Only operators may lock a server that is already locked."""
        if instance.locked:
            check_lock(context, instance)


class Unlock(_LockAction):
    """Unlock a server; a lock set from outside the server's project can only be removed by operators."""

    key = record = api = notification = "unlock"
    done = "Unlocked"
    heeds_lock = False
    rule = "os_compute_api:os-lock-server:unlock"
    rule_description = "Unlock a server."
    button = Button(
        160,
        "unlock",
        "Unlock",
        "unlock",
        "Unlock {name}?",
        "Members of the project can act on it again.",
        "{name} is unlocked.",
    )

    def offered(self, instance: Instance) -> bool:
        return instance.locked

    def why_not(self, instance: Instance) -> str:
        return "it is not locked"

    def columns(self, reason: str | None) -> dict[str, object]:
        return {"locked": False, "locked_reason": None}

    def check(self, context: RequestContext, instance: Instance) -> None:
        """Only operators may remove a lock set from outside the project."""
        if instance.locked and _locked_from_outside(instance):
            check_lock(context, instance)


def lock(context: RequestContext, instance_id: uuid.UUID | str, *, reason: str | None = None) -> Instance:
    """Lock a server. Raises NotFoundError and InstanceLockedError."""
    return Lock.begin(context, instance_id, reason)


def _locked_from_outside(instance: Instance) -> bool:
    """Whether the last lock was set from outside the server's project."""
    last = InstanceAction.objects.filter(instance=instance, action="lock").order_by("-started_at", "-id").first()
    return last is not None and last.project_id != instance.project_id
