"""The order after which a server has other disks."""

from __future__ import annotations

from django.utils import timezone

from compute_agent.contract.commands import RebuildRequest
from provisioning.compute.actions.ends.ordinary import end_task
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.models import Instance


@end_of(RebuildRequest)
def rebuilt(instance: Instance, body: RebuildRequest, outcome: Outcome) -> None:
    """End a rebuild: a server that was stopped is stopped; the guest has its password now, so it is forgotten."""
    forget = {"admin_password": ""}
    changes = {**forget, "launched_at": timezone.now()}
    end = "rebuilt" if body.start else "rebuilt_stopped"
    end_task(instance, body, outcome, end=end, changes=changes, undo=forget)
