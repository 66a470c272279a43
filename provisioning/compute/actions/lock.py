"""Locking a server against its own project's hands."""

import uuid
from abc import abstractmethod

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute import instance_actions, selectors, state
from provisioning.compute.actions.base import Button, ServerAction, check_lock
from provisioning.compute.actions.registry import action
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note
from provisioning.compute.states import VmState

TRIES = 20


class _LockAction(ServerAction[str | None]):
    """What changes the lock of a server, and nothing at its host."""

    @abstractmethod
    def columns(self, reason: str | None) -> dict[str, object]:
        """Return what is written."""

    @abstractmethod
    def check(self, context: RequestContext, instance: Instance) -> None:
        """Raise InstanceLockedError where the caller may not change the lock as it is."""

    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: str | None) -> Instance:
        """Write the lock with its action record, in one transaction."""
        started = timezone.now()
        for _ in range(TRIES):
            with transaction.atomic():
                instance = selectors.instance_for(context, instance_id)
                self.check(context, instance)
                note = Note(context, service="nova-api")
                if state.update(instance, self.columns(request), note, self.notification):
                    row = instance_actions.begin(context, instance.id, self.record, started)
                    span = instance_actions.since(started)
                    step = instance_actions.step(row, f"api_{self.record}", span, attempt=instance.attempt)
                    instance_actions.write([step])
                    instance_actions.finish(instance.id, self.record)
                    return instance
        raise ConflictError("The server is changing too quickly; try again.")


@action
class Lock(_LockAction):
    """Lock a server: until it is unlocked, only operators act on it.  The request is the reason, shown with it."""

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
        "Nothing can be done to it until it is unlocked, not even deleting it.",
        "{name} is locked.",
    )

    def offered(self, instance: Instance) -> bool:
        """Whether it is not locked, and there is something to keep from being changed."""
        return not instance.locked and instance.vm_state not in {VmState.BUILDING, VmState.SOFT_DELETED}

    def columns(self, reason: str | None) -> dict[str, object]:
        return {"locked": True, "locked_reason": reason}

    def check(self, context: RequestContext, instance: Instance) -> None:
        """Let only operators lock what is locked."""
        if instance.locked:
            check_lock(context, instance)


@action
class Unlock(_LockAction):
    """Take the lock away; one that somebody outside the server's project has set, only operators."""

    key = record = api = notification = "unlock"
    done = "Unlocked"
    rule = "os_compute_api:os-lock-server:unlock"
    rule_description = "Unlock a server."
    button = Button(
        160,
        "unlock",
        "Unlock",
        "unlock",
        "Unlock {name}?",
        "Everybody in the project can act on it again.",
        "{name} is unlocked.",
    )

    def offered(self, instance: Instance) -> bool:
        """Whether it is locked."""
        return instance.locked

    def columns(self, reason: str | None) -> dict[str, object]:
        """Return that there is no lock."""
        return {"locked": False, "locked_reason": None}

    def check(self, context: RequestContext, instance: Instance) -> None:
        """Let only operators take away a lock from outside the project."""
        if instance.locked and _locked_from_outside(instance):
            check_lock(context, instance)


def lock(context: RequestContext, instance_id: uuid.UUID | str, *, reason: str | None = None) -> Instance:
    """Lock a server; raises NotFoundError and InstanceLockedError."""
    return Lock.begin(context, instance_id, reason)


def _locked_from_outside(instance: Instance) -> bool:
    """Whether it was not the server's own project that locked it: then its project cannot take the lock away."""
    last = InstanceAction.objects.filter(instance=instance, action="lock").order_by("-started_at", "-id").first()
    return last is not None and last.project_id != instance.project_id
