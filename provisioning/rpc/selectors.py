"""Reading the state of queue and workers."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from provisioning.rpc.models import WorkerBeat

ALIVE_WITHIN = 20.0
"""Seconds since the last beat of a worker group that counts as alive."""


def live_workers() -> int:
    """How many worker groups are alive."""
    return WorkerBeat.objects.filter(beat_at__gte=timezone.now() - timedelta(seconds=ALIVE_WITHIN)).count()
