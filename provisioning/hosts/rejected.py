"""Reports whose processing failed: stored unchanged, retried for about an hour, then discarded."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from django.db.models import QuerySet
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, encode
from provisioning.common.values.ids import read_id
from provisioning.common.values.text import one_line
from provisioning.hosts.models import RejectedReport

MOST = 200
"""Limit of stored reports for each host, which is not trusted."""
MOST_TRIES = 12
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=10)
"""First and longest pause before a retry; each pause is twice as long as the previous one."""
RETENTION = timedelta(days=7)
"""How long discarded reports are kept for debugging."""
_MOST_BYTES = 65_536
_MOST_NUMBER = 2**63 - 1


def keep(host_id: uuid.UUID, events: Iterable[AgentEvent], error: Exception) -> None:
    """Store reports whose processing failed, in the caller's transaction; duplicates are ignored."""
    now = timezone.now()
    room = MOST - RejectedReport.objects.filter(host_id=host_id).count()
    rows = [
        RejectedReport(
            host_id=host_id,
            seq=_number(event.seq),
            subject_kind=event.subject_kind,
            subject_id=subject_id,
            generation=_number(event.generation),
            kind=event.kind,
            event=_text(event),
            error=_sentence(error),
            due_at=now + FIRST_PAUSE,
        )
        for event in events
        if (subject_id := read_id(event.subject_id)) is not None
    ]
    RejectedReport.objects.bulk_create(rows[: max(room, 0)], ignore_conflicts=True)


def is_stored(kind: str, subject_id: uuid.UUID, generation: int) -> bool:
    """Return whether a report about this generation of the subject is stored, to be retried or discarded."""
    return RejectedReport.objects.filter(subject_kind=kind, subject_id=subject_id, generation=generation).exists()


def failed_again(report: RejectedReport, error: Exception) -> None:
    """Record another failure; after the last retry the report is discarded."""
    now, tries = timezone.now(), report.tries + 1
    RejectedReport.objects.filter(pk=report.pk).update(
        tries=tries,
        error=_sentence(error),
        due_at=now + min(FIRST_PAUSE * 2 ** min(tries, 20), LONGEST_PAUSE),
        given_up_at=now if tries >= MOST_TRIES else None,
    )


def due(now: datetime) -> QuerySet[RejectedReport]:
    """Return the reports to be retried, in their original order."""
    return RejectedReport.objects.filter(given_up_at=None, due_at__lte=now).order_by("host_id", "seq")


def try_now(ids: Iterable[int]) -> int:
    """Schedule an immediate retry of the reports, including discarded reports; returns their number."""
    return RejectedReport.objects.filter(pk__in=list(ids)).update(due_at=timezone.now(), given_up_at=None, tries=1)


def awaited(kind: str, subject_id: uuid.UUID, generation: int) -> bool:
    """Whether the host's report that a command of this generation succeeded still waits for a retry."""
    rows = RejectedReport.objects.filter(subject_kind=kind, subject_id=subject_id, generation=generation)
    return rows.filter(kind="finished", given_up_at=None).exists()


def prune() -> int:
    """Delete reports that were discarded long ago; returns their number."""
    return RejectedReport.objects.filter(given_up_at__lt=timezone.now() - RETENTION).delete()[0]


def _text(event: AgentEvent) -> str:
    text = encode(event).decode()
    if len(text) > _MOST_BYTES:
        text = encode(msgspec.structs.replace(event, message=event.message[:1000], detail={})).decode()
    return text


def _sentence(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", 500)


def _number(value: int) -> int:
    return max(0, min(value, _MOST_NUMBER))
