"""Orders after which the server is simply in its next state: power, pause, suspend, a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compute_agent.contract.commands import CommandBody, PasswordRequest, PowerRequest
from provisioning.compute import instance_actions, state
from provisioning.compute.actions.base import TASKS, Task
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.faults import record_fault
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.snapshot_images import remove_image
from provisioning.compute.states import TaskState

COULD_NOT = "The host could not do it."


@end_of(PowerRequest)
def switched(instance: Instance, body: PowerRequest, outcome: Outcome) -> None:
    """End a change of power; what belongs to no task (a crash dump) ends its action alone."""
    if body.action == "crash_dump":
        phase = "end" if outcome.well else "error"
        notify(instance, f"trigger_crash_dump.{phase}", Note(fault=outcome.message or COULD_NOT, cause=outcome.code))
        write_end(instance, "trigger_crash_dump", outcome)
        return
    if instance.task_state == TaskState.UNSHELVING:
        image_id = instance.snapshot_image_id
        back = end_task(instance, body, outcome, changes={"snapshot_image_id": None, "shelved_at": None})
        if back is not None and outcome.well and image_id is not None:
            remove_image(image_id)
        return
    end_task(instance, body, outcome)


@end_of(PasswordRequest)
def password_set(instance: Instance, body: PasswordRequest, outcome: Outcome) -> None:
    """End the setting of a password."""
    end_task(instance, body, outcome)


def end_task(
    instance: Instance,
    body: CommandBody,
    outcome: Outcome,
    *,
    end: str | None = None,
    fail: str | None = None,
    changes: Mapping[str, Any] | None = None,
    undo: Mapping[str, Any] | None = None,
) -> Instance | None:
    """Move the server out of the task that waits for this order, and close its action.

    ``end`` takes the place of the task's own move and ``changes`` are further columns, when it went well; ``fail`` and
    ``undo`` when it did not.  Returns the instance as it is now; None when no task waits for the order.
    """
    task = task_awaiting(instance, body)
    if task is None:
        return None
    columns: dict[str, Any] = {} if outcome.power is None else {"power_state": int(outcome.power)}
    said = "" if outcome.well else outcome.message or COULD_NOT
    move, more = (end or task.end, changes) if outcome.well else (fail or task.fail, undo)
    note = Note(fault=said, cause=outcome.code, image_id=getattr(body, "image_id", ""))
    moved = state.advance(instance, move, attempt=instance.attempt, changes={**columns, **(more or {})}, note=note)
    if moved is None:
        return None
    if not outcome.well:
        host = moved.host.name if moved.host else ""
        record_fault(moved, said, details=f"{task.action}: {outcome.code}", host_name=host)
    write_end(moved, task.action, outcome)
    return moved


def task_awaiting(instance: Instance, body: CommandBody) -> Task | None:
    """Return the task that waits for this order, None when the server is about something else."""
    task = TASKS.get(TaskState(instance.task_state)) if instance.task_state else None
    return task if task is not None and task.awaits(body) else None


def write_end(instance: Instance, action: str, outcome: Outcome) -> None:
    """Close the action with the step at the host."""
    row = instance_actions.current(instance.id, action)
    if row is None:
        return
    failure = None if outcome.well else outcome.message or COULD_NOT
    span = instance_actions.Span(max(outcome.begun_at, row.started_at), outcome.ended_at)
    host = instance.host.name if instance.host else ""
    step = instance_actions.step(row, f"compute_{action}", span, attempt=instance.attempt, host=host, failure=failure)
    instance_actions.write([step])
    instance_actions.finish(instance.id, action, message=failure)
    state.announce_all(instance, [{"step": instance_actions.shown(step)}])
