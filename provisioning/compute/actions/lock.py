"""Locking a server against its own project's hands."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute import instance_actions, selectors, state
from provisioning.compute.actions.base import check_lock
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note

TRIES = 20


def lock(context: RequestContext, instance_id: uuid.UUID | str, *, reason: str | None = None) -> Instance:
    """Lock a server: until it is unlocked, only operators act on it.  ``reason`` is shown with it.  Raises
    NotFoundError.
    """
    return _write(context, instance_id, "lock", {"locked": True, "locked_reason": reason})


def unlock(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Take the lock away.  Raises NotFoundError; InstanceLockedError when an operator has locked it, for others."""
    return _write(context, instance_id, "unlock", {"locked": False, "locked_reason": None})


def _write(context: RequestContext, instance_id: uuid.UUID | str, action: str, columns: dict[str, object]) -> Instance:
    started = timezone.now()
    for _ in range(TRIES):
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            if action == "lock" and instance.locked:
                check_lock(context, instance)
            if action == "unlock" and instance.locked and _locked_from_outside(instance):
                check_lock(context, instance)
            if state.update(instance, columns, Note(context, service="nova-api"), action):
                row = instance_actions.begin(context, instance.id, action, started)
                instance_actions.write(
                    [
                        instance_actions.step(
                            row, f"api_{action}", instance_actions.since(started), attempt=instance.attempt
                        )
                    ]
                )
                instance_actions.finish(instance.id, action)
                return instance
    raise ConflictError("The server is changing too quickly; try again.")


def _locked_from_outside(instance: Instance) -> bool:
    """Whether it was not the server's own project that locked it: then its project cannot take the lock away."""
    last = InstanceAction.objects.filter(instance=instance, action="lock").order_by("-started_at", "-id").first()
    return last is not None and last.project_id != instance.project_id
