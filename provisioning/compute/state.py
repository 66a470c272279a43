"""The only writer of an instance's state columns: conditional updates against the table of legal transitions, each with
its event.
"""

import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet
from django.db.models.expressions import Combinable
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.common.prepared import PreparedUpdate
from provisioning.compute import notifications
from provisioning.compute.deadlines import deadline_of
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.notifications import Note
from provisioning.compute.states import LEGAL, TRANSITION_NAMES, State, TaskState, VmState, api_status
from provisioning.events.services import Entry, record_all
from provisioning.volumes.models import Volume
from provisioning.volumes.state import keep_still


def lock(ids: Iterable[uuid.UUID]) -> None:
    """Let nobody else move these instances before the caller's transaction ends, where the database locks rows.

    Volumes, quota, hosts and commands are locked behind instances, in this order (``provisioning.volumes.state``):
    whoever would touch one of them first calls this, so that no two wait in a ring.  Their volumes are locked with
    them.
    """
    if connection.features.has_select_for_update:
        keys = list(ids)
        list(Instance.objects.select_for_update(no_key=True).filter(id__in=keys).order_by("id").values_list("id"))
        lock_volumes(keys)


def lock_volumes(ids: Iterable[uuid.UUID]) -> None:
    """Lock the volumes of these instances, where what follows locks them behind their project's quota."""
    theirs = BlockDevice.objects.filter(instance_id__in=list(ids), volume_id__isnull=False)
    keep_still(Volume.objects.filter(id__in=theirs.values("volume_id")))


def advance(
    known: Instance | uuid.UUID,
    transition: str,
    *,
    attempt: int,
    changes: Mapping[str, Any] | None = None,
    note: Note | None = None,
) -> Instance | None:
    """Make one legal transition, inside the caller's transaction, and write its event.

    ``known`` may be an instance read earlier: the update is conditional on the state and the attempt it had then, so
    that what was decided on their ground still holds; only other changes (a new name) are read anew.  ``changes`` are
    further columns of the same update (``attempt`` among them raises the fence); ``note`` is what the
    notifications say beside the instance.  Returns the instance as it is now, or None when its state has changed
    meanwhile, the transition is not legal from it, or ``attempt`` is not its attempt.
    """
    return walk(known, [transition], attempt=attempt, changes=changes, note=note)


def walk(
    known: Instance | uuid.UUID,
    transitions: Sequence[str],
    *,
    attempt: int,
    changes: Mapping[str, Any] | None = None,
    note: Note | None = None,
) -> Instance | None:
    """Make several transitions at once: one update, and an event for each; else as ``advance``."""
    if not TRANSITION_NAMES.issuperset(transitions):
        raise ValueError(f"There is no transition called one of {list(transitions)}.")
    instance = known if isinstance(known, Instance) else Instance.objects.filter(id=known).first()
    while instance is not None and instance.attempt == attempt:
        passed = _path(instance, transitions)
        if passed is None:
            return None
        now, target, was = timezone.now(), passed[-1], (str(instance.vm_state), _text(instance.task_state))
        columns: dict[str, Any] = {
            "vm_state": target[0],
            "task_state": target[1],
            "task_deadline": deadline_of(target[1], now),
            **(changes or {}),
        }
        if _write(instance, columns, now, raised=len(passed)):
            first = instance.version - len(passed) + 1
            steps = [{**_names(state), "version": first + at} for at, state in enumerate(passed)]
            announce_all(instance, steps, notifications.moved(instance, was, transitions, note))
            return instance
        instance = _unmoved(instance)
    return None


def _unmoved(instance: Instance) -> Instance | None:
    """Read an instance whose row has changed again, in place; None when it has also moved, or is gone."""
    same = Instance.objects.filter(vm_state=instance.vm_state, task_state=instance.task_state, attempt=instance.attempt)
    try:
        instance.refresh_from_db(from_queryset=same)
    except Instance.DoesNotExist:
        return None
    return instance


def _path(instance: Instance, transitions: Sequence[str]) -> list[State] | None:
    """Return the states that the transitions pass through; None when one of them is not legal."""
    here: State = (VmState(instance.vm_state), TaskState(instance.task_state) if instance.task_state else None)
    passed = []
    for transition in transitions:
        target = LEGAL.get((transition, here))
        if target is None:
            return None
        passed.append(target)
        here = target
    return passed


def update(instance: Instance, columns: Mapping[str, Any], note: Note | None = None, *tell: str) -> bool:
    """Write columns if nobody changed the row since ``instance`` was read; raise its version, write the event.

    ``tell`` are notifications to be sent beside ``instance.update``, by their names without ``instance.``.  Returns
    whether it was written; then ``instance`` has the new values.
    """
    if not _write(instance, columns, timezone.now(), raised=1):
        return False
    announce_all(instance, [{}], notifications.changed(instance, note, tell))
    return True


def _write(instance: Instance, columns: Mapping[str, Any], now: datetime, *, raised: int) -> bool:
    if "attempt" in columns:  # the guest of another attempt is another guest, unless it is said to be the same
        columns = {"guest_attempt": None, **columns}
    values = {**columns, "version": instance.version + raised, "updated_at": now}
    known = {name: getattr(instance, name) for name in _CONDITION if getattr(instance, name) is not None}
    if any(isinstance(value, _NOT_PREPARED) for value in values.values()):
        written = _unchanged(known).update(**values)
    else:
        statement = _statement(tuple(values), tuple(known))
        written = statement(**values, **{f"known_{name}": value for name, value in known.items()})
    if not written:
        return False
    for name, value in values.items():
        setattr(instance, name, value)
    return True


_CONDITION = ("id", "version", "vm_state", "task_state", "attempt")
"""Columns that must still be as they were; of these only ``task_state`` may be null."""
_NOT_PREPARED = (Combinable, Model, dict, list)
"""Expressions, records and JSON, which Django puts into each statement in its own way."""


def _unchanged(known: Mapping[str, Any]) -> QuerySet[Instance]:
    """Return the row if these columns are so; one of the condition that is not named is null."""
    return Instance.objects.filter(**{name: known.get(name) for name in _CONDITION})


@functools.lru_cache(maxsize=256)
def _statement(columns: tuple[str, ...], condition: tuple[str, ...]) -> PreparedUpdate:
    """Return the update of these columns; transitions write a few dozen sets of them."""
    field = Instance._meta.get_field

    def make(**given: Any) -> tuple[QuerySet[Instance], dict[str, Any]]:
        rows = _unchanged({name: given[f"known_{name}"] for name in condition})
        return rows, {name: given[name] for name in columns}

    parameters: dict[str, Any] = {name: field(name) for name in columns}
    parameters |= {f"known_{name}": field(name) for name in condition}
    return PreparedUpdate(make, **parameters)


def announce_all(instance: Instance, differences: Sequence[Mapping[str, Any]], also: Sequence[Entry] = ()) -> None:
    """Write events that wake the project's pages and scripts, one for each of ``differences``.

    Each says how the instance is now, but for what the difference says: a state passed on the way, or the ``step`` that
    was reported.  ``also`` are events to be written with them.
    """
    now = {
        "id": str(instance.id),
        "name": instance.name,
        "project_id": instance.project_id.hex,
        **_names((instance.vm_state, instance.task_state)),
        "power_state": int(instance.power_state),
        "version": instance.version,
        "step": None,
        "host_id": str(instance.host_id) if instance.host_id else None,
    }
    topic = f"project:{instance.project_id}"
    record_all([*((topic, "instance", {**now, **difference}) for difference in differences), *also])


def _text(task_state: str | None) -> str | None:
    return str(task_state) if task_state else None


def _names(state: tuple[str, str | None]) -> dict[str, Any]:
    vm_state, task_state = state
    return {
        "vm_state": str(vm_state),
        "task_state": _text(task_state),
        "status": api_status(vm_state, task_state),
        "deleted": vm_state == VmState.DELETED,
    }


def set_power_state(instance: Instance, power_state: PowerState) -> None:
    """Record what the hypervisor says by itself; nothing when the state of the instance changes at that moment."""
    while instance.power_state != power_state:
        if update(instance, {"power_state": int(power_state)}) or _unmoved(instance) is None:
            return


def extend_deadline(instance: Instance, until: datetime | None = None) -> None:
    """Give the task that goes on its whole time again, or time ``until``; nothing when another one goes on since."""
    deadline = until or deadline_of(instance.task_state, timezone.now())
    Instance.objects.filter(id=instance.id, task_state=instance.task_state, attempt=instance.attempt).update(
        task_deadline=deadline
    )
