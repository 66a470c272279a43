"""Retention of records, and the purge of expired ones in small batches.

A kind of record is either purged ``RETENTION_DAYS`` after it has ended, or kept by another rule, which is described in
words.  ``tests/jobs/test_retention.py`` fails for a model with neither.
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

from provisioning.common.database import rows_of_tables
from provisioning.common.retry import when_broken_off
from provisioning.common.wired import Wired

BATCH = 200
"""Rows of one transaction: on SQLite nobody else writes meanwhile."""
PAUSE = 0.02
"""Seconds between two of them, in which others write."""
ROUND = 20.0
"""Seconds that one round by the clock may take; the next one goes on."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that go with those of a kind, before them and in batches of their own: there may be very many.

    ``path`` is the lookup from the part to the kind's row (``action__instance``).
    """

    name: str
    model: type[Model]
    path: str

    def of(self, keys: Any) -> QuerySet[Any]:
        """Return the rows that belong to these of the kind: keys, or a query of them."""
        return self.model._default_manager.filter(**{f"{self.path}__in": keys})


@dataclass(frozen=True, slots=True)
class Purged:
    """One kind of record that goes in the end.

    ``over(before)`` are the rows that were over before that moment and that nothing needs any more.  ``prepare`` is
    done once before a purge.
    """

    name: str
    model: type[Model]
    over: Callable[[datetime], QuerySet[Any]]
    parts: Sequence[Part] = ()
    prepare: Callable[[], object] | None = None


PURGED = Wired[Purged]("The kinds of records that are purged")
"""In the order of the purge.  Rows that point to a purged one are deleted with it, as their foreign keys say."""
KEPT = Wired[Mapping[str, str]]("The kinds of records that are kept")
"""Models (``events.Event``) that are not purged by age → the rule that deletes their rows, or bounds them."""


def limit(now: datetime | None = None) -> datetime | None:
    """Return the moment before which what is over is purged; None: everything is kept."""
    days = int(settings.RETENTION_DAYS)
    return (now or timezone.now()) - timedelta(days=days) if days else None


def count(before: datetime) -> dict[str, int]:
    """Return of each kind and part how many rows ``purge`` would remove now; changes nothing."""
    found: Counter[str] = Counter()
    for kind in PURGED:
        found[kind.name] += kind.over(before).count()
        for part in kind.parts:
            found[part.name] += part.of(kind.over(before).values("pk")).count()
    return dict(found)


def rows() -> dict[str, int]:
    """Return of each model of the cloud (``compute.Instance``) how many rows it has; one query."""
    models = {model._meta.db_table: model._meta.label for model in every_model()}
    return {models[table]: many for table, many in sorted(rows_of_tables(list(models)).items())}


def every_model() -> list[type[Model]]:
    """Return the models whose rows are accounted for here: those of the cloud and of its queue."""
    found = apps.get_models(include_auto_created=True)
    return [model for model in found if model.__module__.startswith("provisioning.") or model is OrmQ]


def purge(before: datetime, *, seconds: float | None = None, pause: float = PAUSE) -> dict[str, int]:
    """Remove what was over before that moment, and return how many rows of each kind; safe to repeat and to break off.

    Ends after about ``seconds``, if they are given, with what is left for the next time.
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


def purge_by_the_clock() -> None:
    """Remove what RETENTION_DAYS no longer keeps, for some seconds, and log what that was."""
    before = limit()
    if before is None:
        return
    removed = {name: many for name, many in purge(before, seconds=ROUND).items() if many}
    if removed:
        logger.info("Purged: %s.", ", ".join(f"{many} {name}" for name, many in removed.items()))


def _removed(kind: Purged, before: datetime) -> Iterator[tuple[str, int]]:
    """Remove a kind batch by batch, each once and in their order; yield what each transaction removed."""
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
    """Remove those of the rows that are still over when nobody else can change them."""
    rows = kind.model._default_manager
    list(rows.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk", flat=True))
    still = list(kind.over(before).filter(pk__in=ids).values_list("pk", flat=True))
    return _remove(kind.model, still)
