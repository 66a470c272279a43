"""Reading the state of queue and workers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.rpc.models import WorkerBeat

ALIVE_WITHIN = 20.0
"""Seconds since the last beat of a worker group that counts as alive."""


def live_workers() -> int:
    """How many worker groups are alive."""
    return _alive().count()


def live_groups() -> Iterator[tuple[str, frozenset[str], datetime]]:
    """Yield of each live worker group its machine, the topics it serves and when it was last heard of, oldest first."""
    for name, topics, beat_at in _alive().order_by("beat_at").values_list("name", "topics", "beat_at"):
        yield name.partition(":")[0], frozenset(topics.split(",")), beat_at


def _alive() -> QuerySet[WorkerBeat]:
    return WorkerBeat.objects.filter(beat_at__gte=timezone.now() - timedelta(seconds=ALIVE_WITHIN))
