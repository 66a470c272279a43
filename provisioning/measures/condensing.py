"""Condenses complete blocks of the finest resolution into the others, and deletes old blocks."""

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.measures.collect import BATCH, PAUSE, ROUND, save
from provisioning.measures.models import Block, Rejection
from provisioning.measures.points import condense, put
from provisioning.measures.resolutions import COARSE, DAY, FINE, MIDDLE, RESOLUTIONS, Resolution

Targets = dict[tuple[uuid.UUID, int, int], dict[int, bytes]]
"""(subject, width, start of a block) → points by place."""


def condense_complete(now: float) -> None:
    """Condense the blocks that ended before the minute that is being collected."""
    before = int((now - 120) // FINE.block)
    end = time.monotonic() + ROUND
    while time.monotonic() < end and _condense_some(before):
        time.sleep(PAUSE)


@when_broken_off
@transaction.atomic
def _condense_some(before: int) -> int:
    rows = list(
        Block.objects.select_for_update()
        .filter(condensed=False, resolution=FINE.seconds, start__lt=before)
        .order_by("start", "id")[: BATCH // 2]
    )
    middle: Targets = defaultdict(dict)
    coarse: Targets = defaultdict(dict)
    minutes = FINE.block // MIDDLE.seconds
    for row in rows:
        points, whole = condense(bytes(row.data), row.width)
        for number, point in enumerate(points, row.start * minutes):
            start, place = divmod(number, MIDDLE.points)
            middle[row.subject_id, row.width, start][place] = point
        start, place = divmod(row.start, COARSE.points)
        coarse[row.subject_id, row.width, start][place] = whole
    _put(MIDDLE, middle)
    _put(COARSE, coarse)
    Block.objects.filter(id__in=[row.id for row in rows]).update(condensed=True)
    return len(rows)


def _put(resolution: Resolution, targets: Mapping[tuple[uuid.UUID, int, int], Mapping[int, bytes]]) -> None:
    known = {
        (subject, start): bytes(data)
        for subject, start, data in Block.objects.filter(
            resolution=resolution.seconds,
            subject_id__in={subject for subject, _, _ in targets},
            start__in={start for _, _, start in targets},
        ).values_list("subject_id", "start", "data")
    }
    save(
        Block(
            subject_id=subject,
            resolution=resolution.seconds,
            start=start,
            width=width,
            condensed=True,
            data=put(known.get((subject, start), b""), points, 4 * width),
        )
        for (subject, width, start), points in targets.items()
    )


def delete_old(now: float) -> None:
    """Delete the blocks that are no longer needed for their span, and rejections of the day before."""
    Rejection.objects.filter(at__lt=datetime.fromtimestamp(now - DAY, UTC)).delete()
    end = time.monotonic() + ROUND
    for resolution in RESOLUTIONS:
        before = int((now - resolution.kept) // resolution.block)
        while time.monotonic() < end and (ids := _old(resolution, before)):
            Block.objects.filter(id__in=ids).delete()
            time.sleep(PAUSE)


def _old(resolution: Resolution, before: int) -> Sequence[int]:
    rows = Block.objects.filter(resolution=resolution.seconds, start__lt=before)
    return list(rows.values_list("id", flat=True)[:BATCH])
