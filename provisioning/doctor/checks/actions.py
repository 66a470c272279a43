"""Actions and migrations that are recorded as unfinished although nothing is running on the server."""

from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q, QuerySet

from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Instance, InstanceAction, Migration
from provisioning.compute.records import instance_actions
from provisioning.compute.records.host_commands import about_servers
from provisioning.compute.records.migration_records import UNDER_WAY, WAITING, close_migration
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, Repair, Severity, check
from provisioning.doctor.repairs import named, of_instance

LEFT_OPEN = "The result of this action was not recorded. No operation is running on the server."


def _open() -> QuerySet[InstanceAction]:
    """Return unfinished actions of servers without a task and without a command."""
    commanded = about_servers().filter(subject_id=OuterRef("instance_id"), finished_at=None)
    rows = InstanceAction.objects.select_related("instance").filter(finished_at=None, instance__task_state=None)
    return rows.exclude(Exists(commanded.exclude(kind="destroy_request"))).order_by("id")


OPEN = Prepared(_open)


@check("actions")
def open_actions() -> Iterator[Finding]:
    """Find actions that never ended."""
    for row in OPEN():
        sentence = f"The action {row.action} of {row.started_at:%Y-%m-%d %H:%M} is open, but nothing is running."
        remedy = "Close the action with a message."
        yield Finding("warning", named(row.instance), sentence, remedy, _close(row), row.pk)


def _close(instance_action: InstanceAction) -> Repair:
    def work(row: Instance) -> str | None:
        action = _open().filter(pk=instance_action.pk).first()
        if action is None:
            return None
        instance_actions.close(action, LEFT_OPEN)
        return f"The action {action.action} is closed."

    return of_instance(instance_action.instance_id, work)


def _moving() -> QuerySet[Migration]:
    """Return open migrations of servers without a task, except those that wait for a resize to be confirmed or
    reverted.
    """
    waits = Q(status__in=WAITING, instance__vm_state=VmState.RESIZED)
    rows = Migration.objects.select_related("instance").filter(status__in=[*UNDER_WAY, *WAITING])
    return rows.filter(instance__task_state=None).exclude(waits).order_by("id")


MOVING = Prepared(_moving)


@check("migrations")
def open_migrations() -> Iterator[Finding]:
    """Find open migrations of servers that are not being migrated."""
    for row in MOVING():
        sentence = f"Its {row.migration_type} is {row.status}, but nothing is running."
        severity: Severity = (
            "note" if row.instance.old_flavor else "warning"
        )  # left open by a reset; the next resize closes it
        yield Finding(severity, named(row.instance), sentence, "Close it.", _end(row), (row.pk, row.status))


def _end(migration: Migration) -> Repair:
    def work(row: Instance) -> str | None:
        if not _moving().filter(pk=migration.pk).exists():
            return None
        close_migration(row.id)
        return "It is closed."

    return of_instance(migration.instance_id, work)
