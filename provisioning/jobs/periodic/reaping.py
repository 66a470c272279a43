"""Gives up the overdue tasks of records, for periodic jobs."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, F, Model
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.tasks import TASKS
from provisioning.jobs.periodic.absence import absence

MOST = 100
"""Maximum number of records of a model that one run handles. Without a deadline that moves, all are examined again."""


def reap(job: str, models: Iterable[type[Model]]) -> int:
    """Give up the overdue tasks of these models; return their number. A late report can still correct the result.

    ``job``: the periodic job that calls this function. The time in which it did not run is added to all deadlines.
    """
    gap, ended = absence(job), 0
    for model in models:
        if gap is not None:
            _postpone(model, gap)
        now = timezone.now()
        rows = model._default_manager.filter(TASKS.late(model, now)).order_by("pk").values_list("pk", "status")
        for key, status in list(rows[:MOST] if TASKS.clock(model) == "deadline" else rows):
            task = TASKS.of(model, status)
            ended += task is not None and task.give_up(key, now)
    return ended


def tasks_of_records(now: datetime) -> dict[str, tuple[int, int]]:
    """Return kind of record → numbers of its running and of its overdue tasks; one query for each kind."""
    result = {}
    for model in (*TASKS.models(), *TASKS.models("updated_at")):
        running = model._default_manager.filter(status__in=TASKS.statuses(model))
        many = running.aggregate(running=Count("pk"), overdue=Count("pk", filter=TASKS.late(model, now)))
        result[str(model._meta.verbose_name)] = (many["running"], many["overdue"])
    return result


@when_broken_off
@transaction.atomic
def _postpone(model: type[Model], gap: timedelta) -> None:
    """Extend the deadlines of the tasks of a model. Locks the records in the order of their ids."""
    waiting = model._default_manager.filter(status__in=TASKS.statuses(model))
    keys = list(waiting.select_for_update().order_by("pk").values_list("pk", flat=True))
    clock = TASKS.clock(model)
    model._default_manager.filter(pk__in=keys).update(**{clock: F(clock) + gap})
