"""The ends of a resize, of its confirmation and of its revert: sizes, room, quota and the record of the migration."""

from __future__ import annotations

from django.utils import timezone

from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from compute_agent.contract.power import PowerState
from provisioning.compute.actions.ends.ordinary import end_task
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.actions.resize import undo_resize
from provisioning.compute.migration_records import set_migration
from provisioning.compute.models import Instance

NOT_RESTORED = "not_restored"
"""What a host says when it could not bring the guest back to what it was."""
_ON = {PowerState.RUNNING, PowerState.PAUSED}
_SETTLED = {"old_flavor": None, "resized_at": None, "previous_vm_state": ""}


@end_of(ResizeRequest)
def resized(instance: Instance, body: ResizeRequest, outcome: Outcome) -> None:
    """The guest has its new size, which waits for a confirmation; or it is as it was before.

    Where nobody knows how it is, the server is in ERROR and goes on holding the larger of both sizes.
    """
    lost = outcome.silent or outcome.code == NOT_RESTORED
    moved = end_task(
        instance,
        body,
        outcome,
        changes={"flavor": instance.old_flavor, "old_flavor": instance.flavor, "resized_at": timezone.now()},
        fail="action_broke" if lost else "action_failed",
        undo={} if lost else _SETTLED,
    )
    if moved is None:
        return
    set_migration(moved.id, "finished" if outcome.well else "error")
    if not outcome.well and not lost:
        undo_resize(moved)


@end_of(ConfirmResizeRequest)
def confirmed(instance: Instance, body: ConfirmResizeRequest, outcome: Outcome) -> None:
    """What was kept is gone, and the larger size is held no more; a confirmation that failed can be repeated."""
    runs = outcome.power in _ON
    moved = end_task(
        instance,
        body,
        outcome,
        end="resize_confirmed" if runs else "resize_confirmed_stopped",
        changes=_SETTLED,
        fail="action_failed",
        undo={"resized_at": timezone.now()},
    )
    if moved is None:
        return
    set_migration(moved.id, "confirmed" if outcome.well else "finished")
    if outcome.well:
        undo_resize(moved)


@end_of(RevertResizeRequest)
def reverted(instance: Instance, body: RevertResizeRequest, outcome: Outcome) -> None:
    """The guest has its old size and the disk of then."""
    moved = end_task(
        instance,
        body,
        outcome,
        end="resize_reverted" if body.start else "resize_reverted_stopped",
        changes={**_SETTLED, "flavor": instance.old_flavor},
    )
    if moved is None:
        return
    set_migration(moved.id, "reverted" if outcome.well else "error")
    if outcome.well:
        undo_resize(moved)
