"""The rows of the queue: django-q2's messages, and for each taken one its group, worker and number of starts."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, CharField, DateTimeField, F, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.common.database.prepared import (
    Prepared,
    PreparedDelete,
    PreparedInsert,
    PreparedUpdate,
    PreparedUpdateReturning,
)
from provisioning.events import wake
from provisioning.jobs.models import JobRun

FREE = datetime(2000, 1, 1, tzinfo=UTC)
"""The lock of a message that any group may take; it is in the past on all machines."""
ASIDE = 10
"""Seconds for which a message is reserved for the process that has put it aside."""


class ClaimedMessage(NamedTuple):
    """A message that this group may run now."""

    id: int
    text: str


def put(topic: str, text: str) -> int:
    """Add a signed message in the caller's transaction; the topic's workers are woken when it commits."""
    number = _put(topic, text, FREE)
    wake.announce(wake.QUEUE)
    return number


def put_aside(topic: str, text: str) -> int:
    """Add a message that workers take only after ``free``, or after ``ASIDE`` seconds."""
    return _put(topic, text, timezone.now() + timedelta(seconds=ASIDE))


def _put(topic: str, text: str, lock: datetime) -> int:
    ((number,),) = _PUT([OrmQ(key=topic, payload=text, lock=lock)])
    return int(number)


_PUT = PreparedInsert(OrmQ, returning=("id",))


def free(message_id: int) -> None:
    """Release a reserved message to the workers, unless a worker has already taken it."""
    with transaction.atomic():
        if not JobRun.objects.filter(message_id=message_id).exists():
            OrmQ.objects.filter(id=message_id).update(lock=FREE)
            wake.announce(wake.QUEUE)


def is_waiting(topic: str) -> bool:
    return bool(OrmQ.objects.filter(key=topic).exists())


def claim(topics: Collection[str], group: str) -> ClaimedMessage | None:
    """Take the oldest free message of the topics for a worker group; None if there is no free message, or if another
    group takes it first.
    """
    now = timezone.now()
    row = _oldest(tuple(topics)).first(now=now)
    if row is None:
        return None
    number, text, lock = row
    with transaction.atomic():
        if not _TAKE(number=number, lock=lock, until=_until(now)):
            return None
        _NOTE([JobRun(message_id=number, group=group)])
    return ClaimedMessage(number, text)


@cache
def _oldest(topics: tuple[str, ...]) -> Prepared[tuple[int, str, datetime]]:
    """Return the query for the oldest free message of some topics."""
    return Prepared(
        lambda now: (
            OrmQ.objects.filter(key__in=topics, lock__lte=now).order_by("id").values_list("id", "payload", "lock")[:1]
        ),
        now=DateTimeField(),
    )


_TAKE = PreparedUpdate(
    lambda number, lock, until: (OrmQ.objects.filter(id=number, lock=lock), {"lock": until}),
    number=BigIntegerField(),
    lock=DateTimeField(),
    until=DateTimeField(),
)
_NOTE = PreparedInsert(JobRun, unique=("message_id",), update=("group", "worker"))


def start(message_id: int, group: str, worker: str, *, again: bool = False) -> int | None:
    """Record that a worker starts a message; returns the number of the start, from 1.

    None: the message no longer belongs to the group, or another worker of the group has started it; it must not be run.
    ``again``: the worker repeats the call because the result of the previous one is unknown.
    """
    now = timezone.now()
    with transaction.atomic():
        started = _START(number=message_id, group=group, worker=worker, now=now)
        if not started:
            mine = JobRun.objects.filter(message_id=message_id, group=group)
            return mine.filter(worker=worker).values_list("starts", flat=True).first() if again else None
        _HOLD(number=message_id, until=_until(now))
        return started[0]


_START = PreparedUpdateReturning(
    lambda number, group, worker, now: (
        JobRun.objects.filter(message_id=number, group=group, worker="").values_list("starts", flat=True),
        {"worker": worker, "started_at": now, "starts": F("starts") + 1},
    ),
    number=BigIntegerField(),
    group=CharField(),
    worker=CharField(),
    now=DateTimeField(),
)
_HOLD = PreparedUpdate(
    lambda number, until: (OrmQ.objects.filter(id=number), {"lock": until}),
    number=BigIntegerField(),
    until=DateTimeField(),
)


def hold(message_id: int, group: str) -> bool:
    """Extend the lock of a running message; returns whether it still belongs to the group."""
    if not JobRun.objects.filter(message_id=message_id, group=group).exists():
        return False
    return bool(OrmQ.objects.filter(id=message_id).update(lock=_until(timezone.now())))


def finish(message_id: int) -> None:
    with transaction.atomic():
        _REMOVE(number=message_id)
        _FORGET_RUN(number=message_id)


_REMOVE = PreparedDelete(lambda number: OrmQ.objects.filter(id=number), number=BigIntegerField())
_FORGET_RUN = PreparedDelete(lambda number: JobRun.objects.filter(message_id=number), number=BigIntegerField())


def postpone(message_id: int, seconds: float) -> None:
    """Requeue a message after some seconds, for any group."""
    with transaction.atomic():
        JobRun.objects.filter(message_id=message_id).update(group="", worker="")
        OrmQ.objects.filter(id=message_id).update(lock=timezone.now() + timedelta(seconds=seconds))


def requeue(held: QuerySet[JobRun]) -> int:
    """Requeue the messages of dead holders immediately; returns their number.

    ``held`` selects messages by their holder. If several processes notice the same death, only the first of them
    requeues the messages, and a message that another group has started since then is not requeued again.
    """
    with transaction.atomic():
        numbers = list(held.select_for_update().order_by("pk").values_list("pk", flat=True))
        if not numbers:
            return 0
        JobRun.objects.filter(message_id__in=numbers).update(group="", worker="")
        freed = int(OrmQ.objects.filter(id__in=numbers).update(lock=FREE))
        wake.announce(wake.QUEUE)
    return freed


def _until(now: datetime) -> datetime:
    """Return the end of a lock that is longer than the longest job, in case ``requeue`` is never called."""
    return now + timedelta(seconds=settings.JOB_HELD)
