"""The only writer of an instance's state columns: conditional updates against the table of legal moves, each with its
event.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.compute.models import Instance
from provisioning.compute.states import LEGAL, MOVES, TaskState, VmState, api_status
from provisioning.events.services import record

MOVE_NAMES = frozenset(move.name for move in MOVES)
CAST_TIMEOUT = 60
"""Seconds that a queue job may be silent about an instance before it is cast again."""
POWER_TIMEOUT = 180
"""Seconds that a power action may take."""


def deadline_of(task_state: str | None, now: datetime) -> datetime | None:
    """Return when the reaper looks after an instance that entered ``task_state`` now."""
    if task_state is None:
        return None
    seconds = {
        TaskState.SCHEDULING: min(CAST_TIMEOUT, settings.BUILD_TIMEOUT),
        TaskState.NETWORKING: min(CAST_TIMEOUT, settings.BUILD_TIMEOUT),
        TaskState.BLOCK_DEVICE_MAPPING: min(CAST_TIMEOUT, settings.BUILD_TIMEOUT),
        TaskState.SPAWNING: settings.BUILD_TIMEOUT,
        TaskState.DELETING: settings.DELETE_TIMEOUT,
    }.get(TaskState(task_state), POWER_TIMEOUT)
    return now + timedelta(seconds=seconds)


def advance(
    known: Instance | uuid.UUID,
    move: str,
    *,
    attempt: int,
    changes: Mapping[str, Any] | None = None,
    step: Mapping[str, Any] | None = None,
) -> Instance | None:
    """Make one legal move, inside the caller's transaction, and write its event.

    ``known`` may be an instance read earlier: the update is conditional on the state, attempt and version it had, and
    the row is read
    again when another writer came between.  ``changes`` are further columns of the same update (``attempt`` among
    them raises the
    fence).  Returns the instance as it is now, or None when the move is not legal from where it is, or ``attempt`` is
    not its attempt.
    """
    if move not in MOVE_NAMES:
        raise ValueError(f"There is no move called {move!r}.")
    instance = known if isinstance(known, Instance) else Instance.objects.filter(id=known).first()
    while instance is not None and instance.attempt == attempt:
        source = (VmState(instance.vm_state), TaskState(instance.task_state) if instance.task_state else None)
        target = LEGAL.get((move, source))
        if target is None:
            return None
        now = timezone.now()
        columns: dict[str, Any] = {
            "vm_state": target[0],
            "task_state": target[1],
            "task_deadline": deadline_of(target[1], now),
            **(changes or {}),
        }
        if update(instance, columns, now=now, step=step):
            return instance
        instance = Instance.objects.filter(id=instance.id).first()
    return None


def update(
    instance: Instance,
    columns: Mapping[str, Any],
    *,
    now: datetime | None = None,
    step: Mapping[str, Any] | None = None,
) -> bool:
    """Write columns if nobody changed the row since ``instance`` was read; raise its version, write the event.

    Returns whether it was written; then ``instance`` has the new values.
    """
    moment = now or timezone.now()
    values = {**columns, "version": instance.version + 1, "updated_at": moment}
    unchanged = Instance.objects.filter(
        id=instance.id,
        version=instance.version,
        vm_state=instance.vm_state,
        task_state=instance.task_state,
        attempt=instance.attempt,
    )
    if not unchanged.update(**values):
        return False
    for name, value in values.items():
        setattr(instance, name, value)
    announce(instance, step=step)
    return True


def announce(instance: Instance, *, step: Mapping[str, Any] | None = None) -> None:
    """Write the event that wakes the project's pages and scripts: the instance as it is now and, if any, the step just
    reported.
    """
    record(
        f"project:{instance.project_id}",
        "instance",
        {
            "id": str(instance.id),
            "name": instance.name,
            "project_id": str(instance.project_id),
            "vm_state": str(instance.vm_state),
            "task_state": str(instance.task_state) if instance.task_state else None,
            "power_state": int(instance.power_state),
            "status": api_status(instance.vm_state, instance.task_state),
            "version": instance.version,
            "deleted": instance.vm_state == VmState.DELETED,
            "step": dict(step) if step else None,
            "host_id": str(instance.host_id) if instance.host_id else None,
        },
    )


def set_power_state(instance: Instance, power_state: PowerState) -> None:
    """Record what the hypervisor says while no move belongs to it; the row is read again when another writer came
    between.
    """
    current: Instance | None = instance
    while current is not None and current.power_state != power_state:
        if update(current, {"power_state": int(power_state)}):
            instance.power_state, instance.version = current.power_state, current.version
            return
        current = Instance.objects.filter(id=instance.id).first()
