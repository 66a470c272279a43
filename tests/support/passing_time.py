"""Time that passes for whatever has a deadline, without waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F, Model

from provisioning.compute.models import Instance
from provisioning.hosts.models import HostCommand
from provisioning.volumes.models import Attachment, Backup, Snapshot, Volume

TIMES: dict[type[Model], tuple[str, ...]] = {
    Instance: ("task_deadline",),
    HostCommand: ("created_at", "acknowledged_at", "begun_at", "deadline", "ends_at"),
    Volume: ("deadline",),
    Snapshot: ("deadline",),
    Backup: ("deadline",),
    Attachment: ("updated_at",),
}


def pass_time(seconds: float) -> None:
    """Move the times of tasks, commands and volumes into the past, as if so many seconds had passed."""
    for model, names in TIMES.items():
        values: dict[str, Any] = {name: F(name) - timedelta(seconds=seconds) for name in names}
        model._default_manager.update(**values)
