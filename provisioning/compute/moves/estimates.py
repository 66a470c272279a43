"""Estimated durations of moves: fixed values at first, then those of the last moves of this cloud.

A duration is a fixed part and a part for each GiB. The fixed values are scaled by the median of their ratios to the
last successful moves. Then both parts are fitted to these moves, with the smallest relative errors. The scaled values
of a small and a large server are added to the fit as two moves, so that it stays plausible when all servers have one
size.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from django.db.models import F

from provisioning.compute.models import Instance, InstanceAction, Migration
from provisioning.compute.records.migration_records import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from provisioning.compute.selectors.root_pools import is_in_pool

LAST = 20
"""Number of moves of a kind that count."""
LEAST, LARGE_GIB = 1.0, 16.0
OUTLIER = 3.0
"""Limit of the factor by which a move can be longer or shorter than expected in the fit."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class MoveKind:
    """Moves with comparable durations.

    ``records`` maps Nova's migration types to the names of the instance actions; ``fixed`` and ``per_gib`` are seconds
    for a cloud without such moves; ``memory`` and ``disk``: whether these are transferred.
    """

    records: Mapping[str, str]
    ended: Sequence[str]
    """Statuses of successful moves."""
    fixed: float
    per_gib: float = 0.0
    memory: bool = False
    disk: bool = False

    def gib(self, flavor: Mapping[str, Any], *, local_disk: bool) -> float:
        """Return the maximum GiB that are transferred with a server of this flavor."""
        memory = int(flavor["memory_mb"]) / 1024 if self.memory else 0.0
        return memory + (float(flavor["disk_gb"]) if self.disk and local_disk else 0.0)


LIVE = MoveKind({LIVE_MIGRATION: "live-migration"}, ["completed"], 5.0, 4.0, memory=True, disk=True)
COLD = MoveKind({MIGRATION: "migrate", RESIZE: "resize"}, ["finished", "confirmed", "reverted"], 20.0, 5.0, disk=True)
EVACUATE = MoveKind({EVACUATION: "evacuate"}, ["done", "completed"], 30.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Durations of moves of one kind, in seconds. ``share`` is the fraction of the GiB that is transferred."""

    kind: MoveKind
    fixed: float
    per_gib: float
    share: float = 1.0

    def __call__(self, server: Instance) -> float:
        gib = self.kind.gib(server.flavor, local_disk=server.image_id is not None and not is_in_pool(server))
        return max(self.fixed + self.per_gib * gib * self.share, LEAST)


def estimates_of(kind: MoveKind) -> Callable[[], Estimate]:
    """Return a function that reads the last moves of a kind, in two queries."""

    def read() -> Estimate:
        return fitted(kind, _last_moves(kind))

    return read


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that has ended: the maximum GiB, the transferred GiB (None: unknown), and the duration in seconds."""

    most_gib: float
    gib: float | None
    seconds: float


def fitted(kind: MoveKind, moves: Iterable[PastMove]) -> Estimate:
    """Fit the durations of a kind of move to past ones."""
    past = list(moves)
    shares = [move.gib / move.most_gib for move in past if move.gib is not None and move.most_gib > 0]
    share = min(median(shares), 1.0) if shares else 1.0
    points = [(move.most_gib * share if move.gib is None else move.gib, move.seconds) for move in past]

    def expected(gib: float) -> float:
        return kind.fixed + kind.per_gib * gib

    factor = max(median([1.0, *(seconds / expected(gib) for gib, seconds in points)]), LEAST / expected(0.0))
    points = [
        (gib, min(max(seconds, expected(gib) * factor / OUTLIER), expected(gib) * factor * OUTLIER))
        for gib, seconds in points
    ]
    points += [(gib, expected(gib) * factor) for gib in (0.0, LARGE_GIB)]
    weights = [expected(gib) ** -2 for gib, _ in points]
    total = sum(weights)
    x = sum(weight * gib for weight, (gib, _) in zip(weights, points, strict=True)) / total
    y = sum(weight * seconds for weight, (_, seconds) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (gib - x) ** 2 for weight, (gib, _) in zip(weights, points, strict=True))
    both = sum(weight * (gib - x) * (seconds - y) for weight, (gib, seconds) in zip(weights, points, strict=True))
    per_gib = max(both / spread, 0.0)
    return Estimate(kind, y - per_gib * x, per_gib, share)


def _last_moves(kind: MoveKind) -> list[PastMove]:
    rows = Migration.objects.filter(migration_type__in=list(kind.records), status__in=list(kind.ended))
    rows = rows.exclude(source_compute=F("dest_compute"))  # resizes on one host
    columns = ("migration_type", "instance_id", "created_at", "old_flavor", "instance__image_id")
    amounts = ("memory_total_bytes", "disk_total_bytes")
    found = list(rows.order_by("-id").values(*columns, *amounts)[:LAST])
    spans = _spans({row["instance_id"] for row in found}, kind.records.values()) if found else {}
    moves = []
    for row in found:
        begun = row["created_at"]
        named = spans.get((row["instance_id"], kind.records[row["migration_type"]]), [])
        seconds = next(((to - since).total_seconds() for since, to in named if since <= begun <= to), None)
        if seconds is not None:
            travelled = [row[name] for name in amounts if row[name] is not None]
            local_disk = row["instance__image_id"] is not None and row["disk_total_bytes"] != 0
            most = kind.gib(row["old_flavor"], local_disk=local_disk)
            moves.append(PastMove(most, sum(travelled) / GIB if travelled else None, seconds))
    return moves


def _spans(
    servers: Iterable[uuid.UUID], actions: Iterable[str]
) -> Mapping[tuple[uuid.UUID, str], list[tuple[datetime, datetime]]]:
    """Return (server, action) → begin and end of the successful actions."""
    rows = InstanceAction.objects.filter(instance__in=list(servers), action__in=list(actions))
    ended = rows.filter(finished_at__isnull=False, message=None).order_by()
    result = defaultdict(list)
    for server, action, since, to in ended.values_list("instance_id", "action", "started_at", "finished_at"):
        if to is not None:
            result[server, action].append((since, to))
    return result
