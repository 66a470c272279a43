"""Retention of records, and the purge of expired ones in small batches.

Records of a model are purged ``RETENTION_DAYS`` after their end, or by another rule, for which the model has a
description. ``tests/jobs/test_retention.py`` fails for a model with neither.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.common.database.retry import when_broken_off
from provisioning.common.database.sizes import rows_of_tables
from provisioning.common.wired import Wired

BATCH = 200
"""Rows in one transaction, during which SQLite allows no other writer."""
PAUSE = 0.02
"""Seconds between two batches, for other writers."""
ROUND = 20.0
"""Maximum seconds of one periodic run; the next one continues."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that belong to a purged kind's rows and are deleted before them, in separate batches because there may be
    many.

    ``path`` is the lookup from the part to the kind's row (``action__instance``).
    """

    name: str
    model: type[Model]
    path: str

    def of(self, keys: Any) -> QuerySet[Any]:
        """Return the part's rows that belong to the kind's rows ``keys`` (primary keys or a query)."""
        return self.model._default_manager.filter(**{f"{self.path}__in": keys})


@dataclass(frozen=True, slots=True)
class Purged:
    """A kind of record that is purged.

    ``over(before)`` returns the rows that ended before that time and are no longer needed. ``prepare`` is called once
    before a purge.
    """

    name: str
    model: type[Model]
    over: Callable[[datetime], QuerySet[Any]]
    parts: Sequence[Part] = ()
    prepare: Callable[[], object] | None = None


PURGED = Wired[Purged]("The kinds of records that are purged")
"""The order of the purge. Rows with a foreign key to a purged row are deleted with it."""
UNPURGED = Wired[Mapping[str, str]]("The kinds of records that are kept")
"""Models (``events.Event``) that are not purged by age → the rule that deletes or limits their rows."""


def limit(now: datetime | None = None) -> datetime | None:
    """Return the moment before which ended records are purged; None: nothing is purged."""
    days = int(settings.RETENTION_DAYS)
    return (now or timezone.now()) - timedelta(days=days) if days else None


def count(before: datetime) -> dict[str, int]:
    """Return how many rows of each kind and part ``purge`` would delete now; changes nothing."""
    result: Counter[str] = Counter()
    for kind in PURGED:
        result[kind.name] += kind.over(before).count()
        for part in kind.parts:
            result[part.name] += part.of(kind.over(before).values("pk")).count()
    return dict(result)


def rows() -> dict[str, int]:
    """Return the number of rows of each model of the cloud (``compute.Instance``); one query."""
    models = {model._meta.db_table: model._meta.label for model in every_model()}
    return {models[table]: many for table, many in sorted(rows_of_tables(list(models)).items())}


def every_model() -> list[type[Model]]:
    """Return the models that need a rule: all models of the cloud, and the model of its queue."""
    models = apps.get_models(include_auto_created=True)
    return [model for model in models if model.__module__.startswith("provisioning.") or model is OrmQ]


def purge(before: datetime, *, seconds: float | None = None, pause: float = PAUSE) -> dict[str, int]:
    """Delete records that ended before that time, and return the number of rows of each kind. Can be repeated and
    interrupted.

    After about ``seconds``, if given, the purge ends, and the next call continues it.
    """
    end = None if seconds is None else time.monotonic() + seconds
    removed = Counter({name: 0 for kind in PURGED for name in (kind.name, *(part.name for part in kind.parts))})
    for kind in PURGED:
        if kind.prepare is not None:
            kind.prepare()
        for name, many in _removed(kind, before):
            removed[name] += many
            if end is not None and time.monotonic() > end:
                return dict(removed)
            time.sleep(pause)
    return dict(removed)


def purge_expired() -> None:
    """Purge rows older than RETENTION_DAYS, for at most ``ROUND`` seconds, and log their number."""
    before = limit()
    if before is None:
        return
    removed = {name: many for name, many in purge(before, seconds=ROUND).items() if many}
    if removed:
        logger.info("Purged: %s.", ", ".join(f"{many} {name}" for name, many in removed.items()))


def _removed(kind: Purged, before: datetime) -> Iterator[tuple[str, int]]:
    """Delete the expired rows of a kind in batches, in the order of their keys; yield the number of rows of each
    transaction.
    """
    last: Any = None
    while True:
        rows = kind.over(before)
        if last is not None:
            rows = rows.filter(pk__gt=last)
        ids = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        if not ids:
            return
        for part in kind.parts:
            while below := list(part.of(ids).values_list("pk", flat=True)[:BATCH]):
                yield part.name, _remove(part.model, below)
        yield kind.name, _remove_over(kind, before, ids)
        last = ids[-1]


@when_broken_off
@transaction.atomic
def _remove(model: type[Model], ids: Sequence[Any]) -> int:
    return model._default_manager.filter(pk__in=ids).delete()[1].get(model._meta.label, 0)


@when_broken_off
@transaction.atomic
def _remove_over(kind: Purged, before: datetime, ids: Sequence[Any]) -> int:
    """Lock the rows with these ids, and delete those that are still expired; return the number of deleted rows."""
    rows = kind.model._default_manager
    list(rows.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk", flat=True))
    still = list(kind.over(before).filter(pk__in=ids).values_list("pk", flat=True))
    return _remove(kind.model, still)
