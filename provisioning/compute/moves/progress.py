"""Progress of running moves between hosts, by their bytes, with an estimate of the remaining time."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q
from django.utils import timezone

from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.models import Instance, Migration, MoveAllocation
from provisioning.compute.moves.estimates import COLD, LIVE, Estimate, estimates_of
from provisioning.compute.records.migration_records import LIVE_MIGRATION
from provisioning.compute.states import TaskState
from provisioning.hosts.models import Host

FORWARD = (TaskState.RESIZE_MIGRATING, TaskState.RESIZE_MIGRATED, TaskState.RESIZE_FINISH, TaskState.MIGRATING)
TASKS = (*FORWARD, TaskState.RESIZE_REVERTING)
"""Tasks of servers that move, or return after a failure or a revert."""
MEASURABLE = 0.05
"""Share of the bytes from which on the remaining time is estimated by the rate of the transfer."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move that is under way; ``seconds_left`` is estimated, 0 if it should have ended."""

    migration: Migration
    source: str
    target: str
    """Names of the hosts that the server leaves and moves to. A return leaves the target of the move."""
    returns: bool
    done: int
    total: int
    """Bytes of memory and disks, as the hosts report them; 0: not reported."""
    seconds_left: float

    @property
    def live(self) -> bool:
        return self.migration.migration_type == LIVE_MIGRATION

    @property
    def can_abort(self) -> bool:
        return self.live and self.migration.status in ("preparing", "running")

    @property
    def can_complete(self) -> bool:
        return self.live and self.migration.status == "running"


def bytes_moved(migration: Migration) -> tuple[int, int]:
    """Return the bytes of memory and disks that are transferred, and all; 0 if the hosts have not reported them."""
    done = (migration.memory_processed_bytes or 0) + (migration.disk_processed_bytes or 0)
    total = (migration.memory_total_bytes or 0) + (migration.disk_total_bytes or 0)
    return min(done, total), total


def move_of(instance: Instance) -> Move | None:
    """Return the move of a server; None, without a query, if its task is not a move."""
    row = second_of(instance.id) if instance.task_state in TASKS else None
    return _move(row, instance, _Clock()) if row is not None else None


def moves_at(host: Host) -> list[tuple[Instance, Move]]:
    """Return the servers that move from or to a host now, the oldest move first. The number of queries does not grow
    with the moves.
    """
    rows = MoveAllocation.objects.filter(Q(host=host) | Q(instance__host=host), instance__task_state__in=TASKS)
    clock = _Clock()
    records = rows.select_related("host", "migration", "instance__host").order_by("created_at", "id")
    return [(row.instance, _move(row, row.instance, clock)) for row in records]


def moves_of(instance_ids: Collection[uuid.UUID]) -> dict[int, Move]:
    """Return migration id → its move, for the servers among these that move now. The number of queries does not grow
    with the moves.
    """
    rows = MoveAllocation.objects.filter(instance__in=instance_ids, instance__task_state__in=TASKS)
    clock = _Clock()
    records = rows.select_related("host", "migration", "instance__host")
    return {row.migration_id: _move(row, row.instance, clock) for row in records}


class _Clock:
    """Estimates the remaining time of moves. Reads the durations of the last moves of a kind at most once."""

    def __init__(self) -> None:
        self._now = timezone.now()
        self._estimates: dict[str, Estimate] = {}

    def left(self, migration: Migration, instance: Instance) -> float:
        passed = max((self._now - migration.created_at).total_seconds(), 0.0)
        done, total = bytes_moved(migration)
        if total and done >= MEASURABLE * total:
            return passed * (total - done) / done
        return max(self._estimate(migration)(instance) - passed, 0.0)

    def _estimate(self, migration: Migration) -> Estimate:
        kind = migration.migration_type
        if kind not in self._estimates:
            self._estimates[kind] = estimates_of(LIVE if kind == LIVE_MIGRATION else COLD)()
        return self._estimates[kind]


def _move(row: MoveAllocation, instance: Instance, clock: _Clock) -> Move:
    migration, returns = row.migration, instance.task_state == TaskState.RESIZE_REVERTING
    source, target = migration.source_compute, migration.dest_compute
    done, total = bytes_moved(migration)
    return Move(
        migration=migration,
        source=target if returns else source,
        target=source if returns else target,
        returns=returns,
        done=0 if returns else done,
        total=0 if returns else total,
        seconds_left=0.0 if returns else clock.left(migration, instance),
    )
