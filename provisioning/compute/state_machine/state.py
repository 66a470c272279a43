"""Writes the state columns of instances; no other module does. Each write is a conditional update, checked against the
legal transitions, with an event.
"""

import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import Model, QuerySet, Value
from django.db.models.expressions import Combinable
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared, PreparedUpdate
from provisioning.compute import notifications
from provisioning.compute.models import BlockDevice, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.notifications import Note
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import Step
from provisioning.compute.states import LEGAL, TRANSITION_NAMES, State, TaskState, VmState, api_status
from provisioning.compute.states import TaskState as T
from provisioning.events.services import Entry, record_all
from provisioning.volumes.models import Volume
from provisioning.volumes.state_machine.state import keep_still, kept_still

SETTING_OF: dict[T, str] = {
    **dict.fromkeys((T.SCHEDULING, T.NETWORKING), "CAST_TIMEOUT"),
    **dict.fromkeys((T.BLOCK_DEVICE_MAPPING, T.SPAWNING, T.EVACUATING), "BUILD_TIMEOUT"),
}
"""task_state → name of the setting with its timeout in seconds, without ``NOVELLA_``. TASK_TIMEOUTS overrides it for
single tasks. Server actions add their tasks when they are registered.
"""


def lock(ids: Iterable[uuid.UUID]) -> None:
    """Lock these instances and their volumes until the caller's transaction ends, on databases with row locks.

    The lock order is instances, volumes, quota, hosts, commands (``provisioning.volumes.state_machine.state``). To
    prevent deadlocks, code that locks quota, hosts or commands calls this function first.
    """
    if connection.features.has_select_for_update:
        keys = list(ids)
        _LOCK(ids=keys)
        lock_volumes(keys)


def lock_volumes(ids: Iterable[uuid.UUID]) -> None:
    """Lock the volumes of these instances, before code that locks the project's quota and then volumes."""
    if connection.features.has_select_for_update:
        _LOCK_VOLUMES(ids=list(ids))


def _locked(ids: Value) -> QuerySet[Instance, Any]:
    rows = Instance.objects.select_for_update(no_key=True).filter(Among("id", ids))
    return rows.order_by("id").values_list("id")


def _volumes_locked(ids: Value) -> QuerySet[Volume, Any]:
    theirs = BlockDevice.objects.filter(Among("instance_id", ids), volume_id__isnull=False)
    return kept_still(Volume.objects.filter(id__in=theirs.values("volume_id")))


_LOCK, _LOCK_VOLUMES = Prepared(_locked, ids=Ids()), Prepared(_volumes_locked, ids=Ids())


def lock_volumes_among(devices: Sequence[BlockDevice]) -> None:
    """As ``lock_volumes``, for the disks of a locked instance."""
    if devices:
        keep_still(Volume.objects.filter(id__in=[device.volume_id for device in devices]))


class ChangedError(Exception):
    """The server has changed concurrently, so the code that has changed it decides how it continues."""


def apply(
    instance: Instance, *transitions: str, changes: Mapping[str, Any] | None = None, note: Note | None = None
) -> None:
    """Apply transitions as ``walk``, for the instance's attempt. Raises ChangedError if the state has changed
    concurrently, or if they are not legal.
    """
    if walk(instance, transitions, attempt=instance.attempt, changes=changes, note=note) is None:
        raise ChangedError


def advance(
    known: Instance | uuid.UUID,
    transition: str,
    *,
    attempt: int,
    changes: Mapping[str, Any] | None = None,
    forgotten: Mapping[str, Any] | None = None,
    note: Note | None = None,
) -> Instance | None:
    """Apply one legal transition, inside the caller's transaction, and write its event.

    ``known`` may be an instance read earlier: the update requires that its state and attempt are unchanged, so that
    decisions based on them are still valid; after other concurrent changes, such as a new name, the row is read again.
    ``changes`` are additional columns of the update; an ``attempt`` among them invalidates older commands and reports.
    ``forgotten`` are more columns, whose previous values are in the notifications. ``note`` has additional fields of
    the notifications.

    Returns the updated instance, or None when its state has changed concurrently, the transition is not legal, or
    ``attempt`` is not the instance's attempt.
    """
    return walk(known, [transition], attempt=attempt, changes=changes, forgotten=forgotten, note=note)


def walk(
    known: Instance | uuid.UUID,
    transitions: Sequence[str],
    *,
    attempt: int,
    changes: Mapping[str, Any] | None = None,
    forgotten: Mapping[str, Any] | None = None,
    note: Note | None = None,
) -> Instance | None:
    """Apply several transitions in one update, with an event for each; otherwise like ``advance``."""
    if not TRANSITION_NAMES.issuperset(transitions):
        raise ValueError(f"Unknown transition among {list(transitions)}.")
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
            **(forgotten or {}),
        }
        before = {name: getattr(instance, name) for name in forgotten or ()}
        if _write(instance, columns, now, raised=len(passed)):
            first = instance.version - len(passed) + 1
            steps = [{**_names(state), "version": first + at} for at, state in enumerate(passed)]
            announce_all(instance, steps, notifications.moved(_with(instance, before), was, transitions, note))
            return instance
        instance = _unmoved(instance)
    return None


def _with(instance: Instance, values: Mapping[str, Any]) -> Instance:
    """Return a copy of the instance with these values, or the instance itself if there are no values."""
    if not values:
        return instance
    changed = copy(instance)
    for name, value in values.items():
        setattr(changed, name, value)
    return changed


def _unmoved(instance: Instance) -> Instance | None:
    """Read an instance again, into the same object, after a conflicting write. Returns None if its state has changed or
    its row was deleted.
    """
    same = Instance.objects.filter(vm_state=instance.vm_state, task_state=instance.task_state, attempt=instance.attempt)
    try:
        instance.refresh_from_db(from_queryset=same)
    except Instance.DoesNotExist:
        return None
    return instance


def _path(instance: Instance, transitions: Sequence[str]) -> list[State] | None:
    """Return the states that a server passes through in these transitions; None if a transition is not allowed."""
    here: State = (VmState(instance.vm_state), TaskState(instance.task_state) if instance.task_state else None)
    passed = []
    for transition in transitions:
        target = LEGAL.get((transition, here))
        if target is None:
            return None
        passed.append(target)
        here = target
    return passed


def update(instance: Instance, columns: Mapping[str, Any], note: Note | None = None, *notices: str) -> bool:
    """Write columns unless the row has changed since ``instance`` was read; increments its version and writes the
    event.

    ``notices`` are notifications to send in addition to ``instance.update``, without the prefix ``instance.``. Returns
    whether the row was written; ``instance`` then has the new values.
    """
    if not _write(instance, columns, timezone.now(), raised=1):
        return False
    announce_all(instance, [{}], notifications.changed(instance, note, notices))
    return True


def _write(instance: Instance, columns: Mapping[str, Any], now: datetime, *, raised: int) -> bool:
    if "attempt" in columns:  # another attempt is another guest, unless the caller sets guest_attempt
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
"""Columns of the update's condition; only ``task_state`` may be null."""
_NOT_PREPARED = (Combinable, Model)
"""Values that cannot be parameters of a prepared statement."""


def _unchanged(known: Mapping[str, Any]) -> QuerySet[Instance]:
    """Return the row if the columns have these values; omitted columns of the condition must be null."""
    return Instance.objects.filter(**{name: known.get(name) for name in _CONDITION})


@functools.lru_cache(maxsize=256)
def _statement(columns: tuple[str, ...], condition: tuple[str, ...]) -> PreparedUpdate:
    """Return the prepared update of these columns; transitions use a few dozen combinations."""
    field = Instance._meta.get_field

    def make(**kwargs: Any) -> tuple[QuerySet[Instance], dict[str, Any]]:
        rows = _unchanged({name: kwargs[f"known_{name}"] for name in condition})
        return rows, {name: kwargs[name] for name in columns}

    parameters: dict[str, Any] = {name: field(name) for name in columns}
    parameters |= {f"known_{name}": field(name) for name in condition}
    return PreparedUpdate(make, **parameters)


def announce_all(instance: Instance, differences: Sequence[Mapping[str, Any]], also: Sequence[Entry] = ()) -> None:
    """Write one event for each of ``differences``, which notifies the project's pages and clients.

    An event has the instance's current values, overridden by the difference: an intermediate state, or the reported
    ``step``. ``also`` are more events to write.
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


def record_steps(instance: Instance, action: InstanceAction, *steps: Step, attempt: int | None = None) -> None:
    """Record steps of an action as ``instance_actions.record``, and write their events. ``attempt``: if it is not the
    instance's.
    """
    number = instance.attempt if attempt is None else attempt
    announce_steps(instance, instance_actions.record(action, number, *steps))


def announce_steps(instance: Instance, rows: Iterable[InstanceActionEvent]) -> None:
    """Write one event for each of these steps of an action, with times in ISO 8601 and without the host."""
    announce_all(instance, [{"step": _shown(row)} for row in rows])


def _shown(row: InstanceActionEvent) -> dict[str, Any]:
    return {
        "name": row.name,
        "attempt": row.attempt,
        "started": row.started_at.isoformat(),
        "finished": row.finished_at.isoformat() if row.finished_at else None,
        "seconds": round((row.finished_at - row.started_at).total_seconds(), 3) if row.finished_at else None,
        "result": row.result,
        "detail": row.detail,
        "message": row.message,
    }


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
    """Record a power state that the hypervisor reports on its own; ignored when the instance's state changes
    concurrently.
    """
    while instance.power_state != power_state:
        if update(instance, {"power_state": int(power_state)}) or _unmoved(instance) is None:
            return


def extend_deadline(instance: Instance, until: datetime | None = None) -> None:
    """Restart the timeout of the current task, or set its deadline to ``until``; ignored when the task has changed."""
    deadline = until or deadline_of(instance.task_state, timezone.now())
    Instance.objects.filter(id=instance.id, task_state=instance.task_state, attempt=instance.attempt).update(
        task_deadline=deadline
    )


def seconds_of(task_state: str) -> int:
    """Return the timeout of a task in seconds; CAST_TIMEOUT is limited to BUILD_TIMEOUT."""
    own: int | None = settings.TASK_TIMEOUTS.get(str(T(task_state).value))
    if own is not None:
        return own
    name = SETTING_OF[T(task_state)]
    seconds: int = getattr(settings, name)
    return min(seconds, settings.BUILD_TIMEOUT) if name == "CAST_TIMEOUT" else seconds


def deadline_of(task_state: str | None, now: datetime) -> datetime | None:
    """Return the deadline of an instance that enters ``task_state`` now."""
    return None if task_state is None else now + timedelta(seconds=seconds_of(task_state))


def check() -> None:
    """Raise ImproperlyConfigured when NOVELLA_TASK_TIMEOUTS contains an unknown task."""
    unknown = sorted(set(settings.TASK_TIMEOUTS) - set(T.values))
    if unknown:
        raise ImproperlyConfigured(
            f"NOVELLA_TASK_TIMEOUTS names {', '.join(unknown)}, which is not a task_state; the task states are"
            f" {', '.join(T.values)}."
        )
