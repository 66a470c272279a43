"""Revert a resize: restore the previous flavor, disk and host of a server."""

from datetime import datetime

import msgspec

from compute_agent.contract.commands import CommandBody, ReturnGuestRequest, RevertResizeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import UnavailableError
from provisioning.compute.actions.base import BROKE, Ending, Prepared
from provisioning.compute.actions.resize import SETTLED, SizeAction, finish_change, size_before
from provisioning.compute.actions.resize_checks import is_elsewhere
from provisioning.compute.actions.ways import Button
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.host_link.guest_spec import flavor_ref, guest_spec
from provisioning.compute.host_link.outcome import Outcome, silent_since
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold
from provisioning.compute.records.migration_records import set_migration
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.selectors import is_alive

OLD_HOST_AWAY = "The host that the server would return to does not answer. Try again when it is back."


class RevertResize(SizeAction[None, RevertResizeRequest]):
    """Restore the previous flavor and disk of a server; one that was stopped before the resize stays stopped."""

    key, record, api = "revert_resize", "revertResize", "revertResize"
    done = "Resize reverted"
    doing = "Reverting the resize"
    rule = "os_compute_api:servers:revert_resize"
    rule_description = "Revert a resize."
    from_states, task = (VmState.RESIZED,), TaskState.RESIZE_REVERTING
    ends = {"resize_reverted": VmState.ACTIVE, "resize_reverted_stopped": VmState.STOPPED}
    badly = BROKE
    status = {VmState.RESIZED: "REVERT_RESIZE"}
    heavy_io = remakes_guest = True
    notification = "resize_revert"
    body = RevertResizeRequest
    migration = ("reverting", "reverted", "error")
    button = Button(
        100,
        "revert",
        "Revert",
        "arrow-counterclockwise",
        "Revert the resize or migration of {name}?",
        "It gets its old size, host and disk back. Data written since then is lost.",
        "{name} is being reverted.",
        danger=True,
    )

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin. After a move, the record returns to the old host; that host starts the guest when the other
        one has removed it. Both must be up then.
        """
        second = second_of(instance.id)
        if instance.old_flavor is None or second is None or not is_elsewhere(instance):
            return super().start(context, instance, request, started)
        left = self.host_of(instance, started)
        if not is_alive(second.host, started):
            raise UnavailableError(OLD_HOST_AWAY)
        moved = cold.return_record(context, instance, second, self.key)
        if moved is None:
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        set_migration(moved.id, self.migration[0])
        self.write_begin(context, moved, started)
        send_destroy(moved.id, left.id, moved.attempt)
        return moved

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, RevertResizeRequest | ReturnGuestRequest)

    def recorded_as(self, instance: Instance) -> str:
        return self.record if instance.vm_state == VmState.RESIZED else cold.record_of(instance)

    def end(self, instance: Instance, body: CommandBody, outcome: Outcome) -> Instance | None:
        """End the revert, or the return of a server whose move has failed."""
        if isinstance(body, ReturnGuestRequest) and instance.vm_state != VmState.RESIZED:
            back = cold.returned(instance, outcome)
            if back is not None:
                finish_change(back)
            return back
        if not isinstance(body, RevertResizeRequest | ReturnGuestRequest):
            return None
        moved = super().end(instance, body, outcome)  # type: ignore[arg-type]
        if moved is not None and isinstance(body, ReturnGuestRequest) and outcome.well:
            cold.is_there(moved)
        return moved

    def overdue(self, instance: Instance) -> None:
        """End the revert without a report, or keep waiting for the host that the server left."""
        if cold.is_returning(instance):
            cold.overdue(instance, silent_since(instance.updated_at))
        else:
            super().overdue(instance)

    def forced_down(self, instance: Instance) -> None:
        """End the revert, or the return after a failed move, if it waits for the host."""
        if cold.is_returning(instance):
            cold.forced_down(instance)
        else:
            super().forced_down(instance)

    def command(self, instance: Instance, prepared: Prepared) -> RevertResizeRequest:
        """Describe the guest with its previous flavor. Raises InvalidInputError when the server was never resized."""
        flavor = flavor_ref(size_before(instance))
        spec = msgspec.structs.replace(guest_spec(instance), flavor=flavor)
        return RevertResizeRequest(instance=spec, start=instance.previous_vm_state != VmState.STOPPED)

    def finished(self, instance: Instance, body: RevertResizeRequest | ReturnGuestRequest, outcome: Outcome) -> Ending:
        """Restore the previous flavor in the records. After a move it is already there."""
        if not outcome.well:
            return Ending()
        end = "resize_reverted" if body.start else "resize_reverted_stopped"
        flavor = instance.flavor if isinstance(body, ReturnGuestRequest) else instance.old_flavor
        return Ending(end, {**SETTLED, "flavor": flavor})
