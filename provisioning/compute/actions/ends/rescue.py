"""Orders after which a server runs from another disk, or from its own again."""

from __future__ import annotations

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from provisioning.compute.actions.ends.ordinary import end_task
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.models import Instance


@end_of(RescueRequest)
def rescued(instance: Instance, body: RescueRequest, outcome: Outcome) -> None:
    """End a rescue; of a host that said nothing nobody knows what the guest runs from, so the server is in error."""
    fail = "action_broke" if outcome.silent else None
    end_task(instance, body, outcome, fail=fail, undo={"rescue_image_id": None})


@end_of(UnrescueRequest)
def unrescued(instance: Instance, body: UnrescueRequest, outcome: Outcome) -> None:
    """End a rescue's undoing."""
    end_task(instance, body, outcome, changes={"rescue_image_id": None})
