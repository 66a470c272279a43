"""Adds finished actions and steps to stored totals, so that metrics are cheap to read and no transaction waits for a
counter's row.
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.tally import Tally
from provisioning.compute.models import Total
from provisioning.compute.selectors import totals
from provisioning.compute.selectors.totals import Key

BATCH = 1000
MOST_BATCHES = 50
"""Maximum for one run; the next run continues."""


def fold() -> int:
    """Add finished actions and steps to the totals, each once; returns the number of rows."""
    folded = 0
    for _ in range(MOST_BATCHES):
        many = _fold_some()
        folded += many
        if not many:
            break
    return folded


@when_broken_off
def _fold_some() -> int:
    """Count and mark a batch of rows in one transaction; rows locked by another transaction are skipped."""
    with transaction.atomic():
        collected: dict[Key, Tally] = {}
        steps = list(_held(totals.steps_to_count()).values_list(*totals.STEP_COLUMNS)[:BATCH])
        actions = list(_held(totals.actions_to_count()).values_list(*totals.ACTION_COLUMNS)[:BATCH])
        totals.tally_steps(steps, collected)
        totals.tally_actions(actions, collected)
        totals.steps_to_count().filter(id__in=[row[0] for row in steps]).update(counted=True)
        totals.actions_to_count().filter(id__in=[row[0] for row in actions]).update(counted=True)
        for key in sorted(collected):
            _add(key, collected[key])
    return len(steps) + len(actions)


def _held(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return rows in order of id, without those that another transaction has locked."""
    skip = connection.features.has_select_for_update_skip_locked
    return rows.select_for_update(skip_locked=skip).order_by("id")


def _add(key: Key, tally: Tally) -> None:
    family, name, result = key
    Total.objects.get_or_create(family=family, name=name, result=result, defaults={"buckets": [0] * len(tally.buckets)})
    row = Total.objects.select_for_update().get(family=family, name=name, result=result)
    tally.add(row.count, row.seconds, row.buckets)
    Total.objects.filter(pk=row.pk).update(count=tally.count, seconds=tally.seconds, buckets=tally.buckets)
