"""Launches that failed lately, for operators: also of servers that their owners have deleted since."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.selectors.instances import fault_of
from provisioning.compute.states import VmState

COLUMNS = ("id", "name", "project_id", "vm_state", "created_at", "deleted_at")


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A server that never ran, with the reason that its owner sees."""

    instance_id: uuid.UUID
    name: str
    project_id: uuid.UUID
    created_at: datetime
    deleted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class FailedLaunches:
    """The newest failed launches, and their number."""

    newest: list[FailedLaunch]
    total: int


def failed_launches(since: datetime, limit: int) -> FailedLaunches:
    """Return the launches since then that failed; five queries at most, on indexes."""
    faulty = Exists(InstanceFault.objects.filter(instance=OuterRef("pk")))
    never_ran = Instance.objects.filter(created_at__gte=since, launched_at=None).order_by("-created_at", "-id")
    there = never_ran.filter(deleted_at=None, vm_state=VmState.ERROR)
    deleted = never_ran.filter(faulty, deleted_at__gte=since)
    rows = [row for part in (there, deleted) for row in part.only(*COLUMNS)[:limit]]
    newest = sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)[:limit]
    faults = fault_of(newest)
    launches = [
        FailedLaunch(
            row.id,
            row.name,
            row.project_id,
            row.created_at,
            row.deleted_at is not None,
            faults[row.id].message if row.id in faults else "",
        )
        for row in newest
    ]
    full = len(rows) >= limit
    return FailedLaunches(launches, there.count() + deleted.count() if full else len(launches))
