"""Sorting by several columns, and the rows behind a marker in that order: pages that neither skip nor repeat a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import F, Model, Q
from django.db.models.expressions import OrderBy


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort key: a column of the model, and the direction."""

    key: str
    descending: bool = True

    def reversed(self) -> Sort:
        """The same key the other way round."""
        return replace(self, descending=not self.descending)


def order_by(keys: Sequence[Sort]) -> list[OrderBy]:
    """Return Django's form.  Empty values stand last when rising and first when falling, on every database."""
    return [
        F(part.key).desc(nulls_first=True) if part.descending else F(part.key).asc(nulls_last=True) for part in keys
    ]


def behind(marker: Model, keys: Sequence[Sort]) -> Q:
    """Match the rows that come after one row: equal to it in the first keys, further in the next one.

    The keys must end with a unique column.
    """
    equal, found = Q(), Q(pk__in=[])
    for part in keys:
        value = getattr(marker, part.key)
        empty = Q(**{f"{part.key}__isnull": True})
        if part.descending:
            further = ~empty if value is None else Q(**{f"{part.key}__lt": value})
        else:
            further = Q(pk__in=[]) if value is None else Q(**{f"{part.key}__gt": value}) | empty
        found |= equal & further
        equal &= empty if value is None else Q(**{part.key: value})
    return found
