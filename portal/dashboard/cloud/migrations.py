"""Migrations and resizes of all projects: the list, and those from or to one host that are under way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q, QuerySet

from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.instances.dialogs.moving import MoveRow, move_row
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, Filter, RecordList, fixed, same, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance, Migration
from provisioning.compute.moves.progress import bytes_moved, moves_at, moves_of
from provisioning.compute.records.migration_records import (
    EVACUATION,
    KIND,
    LIVE_MIGRATION,
    MIGRATION,
    OPEN,
    RESIZE,
    UNDER_WAY,
)
from provisioning.compute.selectors.migrations import EVERY_PROJECT, all_migrations
from provisioning.compute.states import VmState
from provisioning.events.selectors import LoggedEvent
from provisioning.hosts.models import Host
from provisioning.identity.models import Project
from provisioning.identity.selectors.lookups import projects_by_id

KINDS = {
    MIGRATION: "Migration",
    LIVE_MIGRATION: "Live migration",
    RESIZE: "Resize",
    EVACUATION: "Evacuation",
}
_BUSY = Status("In progress", "busy", "arrow-repeat")
_DONE = Status("Done", "ok", "check-circle-fill")
_FAILED = Status("Failed", "bad", "exclamation-octagon-fill")
STATES: Mapping[str, Status] = {
    **dict.fromkeys(UNDER_WAY, _BUSY),
    "finished": Status("To be confirmed", "warn", "question-circle-fill"),
    "confirming": Status("Confirming", "busy", "arrow-repeat"),
    "reverting": Status("Reverting", "busy", "arrow-repeat"),
    "confirmed": Status("Confirmed", "ok", "check-circle-fill"),
    "reverted": Status("Reverted", "off", "arrow-counterclockwise"),
    "completed": _DONE,
    "done": _DONE,
    "cancelled": Status("Aborted", "off", "x-octagon"),
    "error": _FAILED,
    "failed": _FAILED,
}
"""Nova's status of a migration → its label."""
GROUPS: Mapping[str, tuple[str, Q]] = {
    "open": ("In progress", Q(status__in=[*UNDER_WAY, "confirming", "reverting"])),
    "waiting": ("To be confirmed", Q(status="finished")),
    "ended": ("Ended", Q(status__in=["confirmed", "reverted", "completed", "done", "cancelled"])),
    "failed": ("Failed", Q(status__in=["error", "failed"])),
}
"""Value of the filter of states → label and condition."""


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """A migration with its instance; ``moving`` only while it is under way."""

    migration: Migration
    instance: Instance
    project: Project | None
    moving: MoveRow | None = None

    @property
    def status(self) -> Status:
        return STATES.get(self.migration.status, statuses.UNKNOWN)

    @property
    def kind(self) -> str:
        return KINDS.get(self.migration.migration_type, self.migration.migration_type)

    @property
    def bytes(self) -> int:
        return bytes_moved(self.migration)[0]

    @property
    def seconds(self) -> float | None:
        """The duration; None while the migration is in progress. It includes the time until the last change, such as
        the confirmation.
        """
        row = self.migration
        return None if row.status in OPEN else (row.updated_at - row.created_at).total_seconds()


def moves_on(context: RequestContext, host: Host) -> list[dict[str, Any]]:
    """Return the moves from or to a host that are under way, as rows of its page."""
    return [
        {
            "instance": instance,
            "moving": move_row(context, instance, move),
            "kind": KINDS[move.migration.migration_type],
        }
        for instance, move in moves_at(host)
    ]


def _rows(context: RequestContext, records: Sequence[Migration]) -> list[MigrationRow]:
    instances = Instance.objects.in_bulk({each.instance_id for each in records})
    projects = projects_by_id({instance.project_id for instance in instances.values()})
    moves = moves_of([each.instance_id for each in records if each.status in OPEN])
    result = []
    for each in records:
        instance = instances[each.instance_id]
        moving = move_row(context, instance, moves[each.id]) if each.id in moves else None
        result.append(MigrationRow(each, instance, projects.get(instance.project_id), moving))
    return result


def _records(context: RequestContext, _: Mapping[str, str]) -> QuerySet[Migration]:
    return all_migrations(context)


def _instance(row: MigrationRow) -> object:
    deleted = row.instance.vm_state == VmState.DELETED
    below = cells.bdi(row.project.name) if row.project is not None else ""
    if deleted:
        return cells.name(row.instance.name, beside=["deleted"], below=below)
    return cells.name(row.instance.name, cells.url("dashboard:instance", row.instance.id), below=below)


def _state(row: MigrationRow) -> object:
    status = row.status
    if row.moving is not None and row.moving.move.returns:
        status = replace(status, word="Returning", tone="busy", icon="arrow-repeat")
    return cells.status(status)


def _progress(row: MigrationRow) -> object:
    if row.moving is None:
        return wording.size_in_bytes(row.bytes) if row.bytes else ""
    return cells.progress(row.moving.progress, row.instance.name) + cells.sub(row.moving.left)


def _actions(row: MigrationRow) -> object:
    result = []
    for verb, address, sign, title in (
        ("complete", row.moving.complete if row.moving else "", "fast-forward", "Force complete"),
        ("abort", row.moving.abort if row.moving else "", "x-octagon", "Abort"),
    ):
        if address:
            to, ids = f"dashboard:instance_migration_{verb}", (row.instance.id, row.migration.id)
            result.append(cells.button(sign, title, row.instance.name, to, *ids, label=f"{title}: {{}}"))
    return cells.join("", result)


def _changed(events: Sequence[LoggedEvent]) -> list[object]:
    ids = {event.payload["instance"] for event in events if event.kind == KIND}
    return list(Migration.objects.filter(instance_id__in=ids).values_list("pk", flat=True))


def _host(_: RequestContext, value: str) -> Q:
    return Q(source_compute=value) | Q(dest_compute=value)


def _hosts(_: RequestContext) -> list[tuple[str, str]]:
    return [(name, name) for name in Host.objects.order_by("name").values_list("name", flat=True)]


MIGRATIONS = RecordList[Migration](
    key="migrations",
    model=Migration,
    one="migration",
    noun="migrations",
    rule=EVERY_PROJECT,
    row_id="migration",
    records=_records,
    rows=_rows,
    default="-started",
    columns=(
        Column(
            "instance",
            "Instance",
            _instance,
            sort="instance__name",
            plain=lambda row: row.instance.name,
            css="name",
            titled=False,
        ),
        Column("state", "State", _state, sort="status", plain=lambda row: row.status.word, titled=False),
        Column("kind", "Action", lambda row: row.kind, sort="migration_type", css="muted"),
        Column("source", "From", lambda row: cells.bdi(row.migration.source_compute), sort="source_compute"),
        Column("target", "To", lambda row: cells.bdi(row.migration.dest_compute), sort="dest_compute"),
        Column("progress", "Copied", _progress, plain=lambda row: row.bytes, css="num"),
        Column(
            "started",
            "Started",
            lambda row: cells.when(row.migration.created_at, "seconds"),
            sort=("created_at", "id"),
            plain=lambda row: row.migration.created_at,
            css="muted num text-nowrap",
            largest_first=True,
        ),
        Column(
            "took",
            "Took",
            lambda row: "" if row.seconds is None else wording.duration(row.seconds),
            plain=lambda row: row.seconds,
            css="muted num text-nowrap",
            optional=True,
        ),
        Column("status", "Status in the API", lambda row: cells.mono(row.migration.status), optional=True),
    ),
    actions=_actions,
    search=searched("instance__name", "source_compute", "dest_compute", exact=("instance_id", "uuid")),
    find="Find by instance or host",
    filters=(
        Filter(
            "state",
            "State",
            fixed(*((key, label) for key, (label, _) in GROUPS.items())),
            lambda _, value: GROUPS[value][1],
            quick=True,
        ),
        Filter("kind", "Action", fixed(*KINDS.items()), same("migration_type")),
        Filter("host", "Host", _hosts, _host, closed=False),
    ),
    empty=Empty(
        "truck", "No migrations yet", "Instances that move to another host, or get another size, are listed here."
    ),
    kinds=frozenset({KIND}),
    changed=_changed,
    named=lambda migration: migration.instance.name,
)


class MigrationList(ListPage):
    """The page *Migrations*: moves and resizes of all projects, for operators."""

    records = MIGRATIONS
    lead = "Moves of instances between hosts, and resizes, of all projects."
