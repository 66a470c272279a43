"""What goes with a project: its limits and counters."""

from __future__ import annotations

from provisioning.identity import ownership
from provisioning.identity.ownership import Ids
from provisioning.quotas.models import QuotaLimit, QuotaUsage, Reservation


def register() -> None:
    """Let limits, counters and reservations go with their project."""
    ownership.register("quotas", None, _remove)


def _remove(project_ids: Ids) -> None:
    for model in (Reservation, QuotaUsage, QuotaLimit):
        model._default_manager.filter(project_id__in=project_ids).delete()
