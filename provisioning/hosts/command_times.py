"""Durations of commands that hosts have begun, from creation to end, by kind, for the metrics."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum

from provisioning.common.values.tally import BOUNDS, Tally
from provisioning.hosts.models import CommandTotal, HostCommand

TRIES = 5
_EDGES = [timedelta(-1), *(timedelta(seconds=bound) for bound in BOUNDS), None]


def command_times() -> dict[str, Tally]:
    """Return kind of command → durations. Reads again, up to ``TRIES`` times, if ``fold`` changes the totals in the
    meantime.
    """
    before = _folded()
    for _ in range(TRIES):
        result = {kind: Tally(each.count, each.seconds, list(each.buckets)) for kind, each in before.items()}
        _add(result, _measured(HostCommand.objects.all()))
        after = _folded()
        if {kind: each.count for kind, each in after.items()} == {kind: each.count for kind, each in before.items()}:
            break
        before = after
    return result


def fold(before: datetime) -> None:
    """Add commands that ended before this moment to the totals; the caller deletes them in the same transaction."""
    folded = _folded(lock=True)
    for kind, tally in _add(folded, _measured(HostCommand.objects.filter(finished_at__lt=before))).items():
        values = {"count": tally.count, "seconds": tally.seconds, "buckets": tally.buckets}
        CommandTotal.objects.update_or_create(kind=kind, defaults=values)


def _folded(*, lock: bool = False) -> dict[str, Tally]:
    rows = CommandTotal.objects.select_for_update() if lock else CommandTotal.objects.all()
    return {row.kind: Tally(row.count, row.seconds, list(row.buckets)) for row in rows.order_by("kind")}


def _add(tallies: dict[str, Tally], more: dict[str, Tally]) -> dict[str, Tally]:
    for kind, tally in more.items():
        tallies.setdefault(kind, Tally()).add(tally.count, tally.seconds, tally.buckets)
    return tallies


def _measured(commands: QuerySet[HostCommand]) -> dict[str, Tally]:
    """Aggregate the finished commands in one statement."""
    took = ExpressionWrapper(F("finished_at") - F("created_at"), output_field=DurationField())
    buckets: dict[str, Any] = {}
    for at, (above, upto) in enumerate(pairwise(_EDGES)):
        within = Q(took__gt=above) if upto is None else Q(took__gt=above, took__lte=upto)
        buckets[f"bucket_{at}"] = Count("id", filter=within)
    ended = commands.exclude(begun_at=None).exclude(finished_at=None).annotate(took=took).order_by().values("kind")
    rows: Iterable[Mapping[str, Any]] = ended.annotate(many=Count("id"), all=Sum("took"), **buckets)
    return {
        row["kind"]: Tally(row["many"], row["all"].total_seconds(), [row[name] for name in buckets]) for row in rows
    }
