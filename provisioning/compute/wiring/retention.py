"""Retention of servers and their history: deleted servers are purged with their history, existing ones lose old
history.

An existing server keeps its creation and its last action regardless of age.
"""

from datetime import datetime

from django.db.models import Exists, Max, Model, OuterRef, QuerySet

from provisioning.compute.models import (
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceFault,
    Migration,
    SchedulingDecision,
    UsageAudit,
)
from provisioning.compute.records.host_commands import about_servers
from provisioning.compute.records.migration_records import UNDER_WAY, WAITING
from provisioning.compute.services.totals import fold
from provisioning.compute.states import VmState
from provisioning.jobs.retention import Part, Purged
from provisioning.network.models import Port

STEPS, ACTIONS, FAULTS = "steps of actions", "actions", "faults"
DECISIONS, MIGRATIONS = "scheduling decisions", "migrations"
_OF_SERVER = "Deleted with its server."
_BY_QUOTA = "Bounded by its quota, or created by operators."


def _count_all() -> None:
    """Add finished actions to the totals of the metrics before they are purged."""
    while fold():
        pass


def _servers(before: datetime) -> QuerySet[Instance]:
    """Return servers deleted before this time that have no allocation, port, task or unfinished command."""
    held = Exists(Port.objects.filter(device_id=OuterRef("pk")))
    commanded = Exists(about_servers().filter(subject_id=OuterRef("pk"), finished_at=None))
    rows = Instance.objects.filter(vm_state=VmState.DELETED, deleted_at__lt=before, allocation=None, task_state=None)
    rows = rows.filter(move_allocation=None)
    return rows.filter(~held, ~commanded)


def _actions(before: datetime) -> QuerySet[InstanceAction]:
    rows = InstanceAction.objects.filter(finished_at__lt=before, counted=True).exclude(action="create")
    return rows.filter(Exists(_newer(InstanceAction)))


def _faults(before: datetime) -> QuerySet[InstanceFault]:
    return InstanceFault.objects.filter(Exists(_newer(InstanceFault)), created_at__lt=before)


def _decisions(before: datetime) -> QuerySet[SchedulingDecision]:
    return SchedulingDecision.objects.filter(Exists(_newer(SchedulingDecision)), created_at__lt=before)


def _migrations(before: datetime) -> QuerySet[Migration]:
    return Migration.objects.filter(updated_at__lt=before).exclude(status__in=[*UNDER_WAY, *WAITING])


def _audits(before: datetime) -> QuerySet[UsageAudit]:
    """Return old audits, except the audits of the last period, which would be audited again."""
    last = UsageAudit.objects.aggregate(last=Max("period_ending"))["last"]
    rows = UsageAudit.objects.filter(period_ending__lt=before)
    return rows if last is None else rows.exclude(period_ending=last)


def _newer(model: type[Model]) -> QuerySet[Model]:
    return model._default_manager.filter(instance_id=OuterRef("instance_id"), pk__gt=OuterRef("pk"))


PURGED = (
    Purged(
        "deleted servers",
        Instance,
        _servers,
        (
            Part(STEPS, InstanceActionEvent, "action__instance"),
            Part(ACTIONS, InstanceAction, "instance"),
            Part(FAULTS, InstanceFault, "instance"),
            Part(DECISIONS, SchedulingDecision, "instance"),
            Part(MIGRATIONS, Migration, "instance"),
        ),
        prepare=_count_all,
    ),
    Purged(ACTIONS, InstanceAction, _actions, (Part(STEPS, InstanceActionEvent, "action"),)),
    Purged(FAULTS, InstanceFault, _faults),
    Purged(DECISIONS, SchedulingDecision, _decisions),
    Purged(MIGRATIONS, Migration, _migrations),
    Purged("usage audits", UsageAudit, _audits),
)
UNPURGED = {
    "compute.InstanceTag": _OF_SERVER,
    "compute.BlockDevice": _OF_SERVER,
    "compute.NewerGuest": _OF_SERVER,
    "compute.FirmwareState": "Deleted when its server is unshelved or deleted.",
    "compute.InterfaceDifference": _OF_SERVER,
    "compute.Allocation": "Deleted when its server leaves the host.",
    "compute.MoveAllocation": "Deleted when the move of its server ends.",
    "compute.ConsoleToken": "Deleted soon after it has expired (NOVELLA_CONSOLE_TOKEN_TTL).",
    "compute.Total": "One row for each set of labels.",
    "compute.Flavor": _BY_QUOTA,
    "compute.FlavorAccess": _BY_QUOTA,
    "compute.KeyPair": _BY_QUOTA,
    "compute.Aggregate": _BY_QUOTA,
    "compute.AggregateHost": _BY_QUOTA,
    "compute.ServerGroup": _BY_QUOTA,
}
