"""A part of a list: what it is narrowed to, in which order, how many and from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Length, Lower, Right, StrIndex

from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.common.ordering import Sort, behind, order_by

Record = TypeVar("Record", bound=Model)

LARGEST = 1000
"""Rows of one answer."""
BY_NAME = (Sort("name", descending=False),)


@dataclass(frozen=True, slots=True)
class Part:
    """What is asked for of a list."""

    equal: Mapping[str, object] = field(default_factory=dict)
    """Column → value; None matches nothing."""
    names: tuple[tuple[str, str], ...] = ()
    """Comparisons with the name: ``contains``, ``startswith``, ``endswith``, and with an ``i`` before, without case."""
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """``tags`` (all of them), ``tags-any``, ``not-tags`` (not all of them), ``not-tags-any`` (none of them)."""
    times: tuple[tuple[str, Any], ...] = ()
    """Django's lookup → moment."""
    sort: tuple[Sort, ...] = BY_NAME
    limit: int = LARGEST
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class Found(Generic[Record]):
    """Rows of a list; ``truncated``: there are more."""

    rows: list[Record]
    truncated: bool


def find(rows: QuerySet[Record], part: Part) -> Found[Record]:
    """Return that part of the rows, in a constant number of queries.

    InvalidInputError when the marker is none of them.
    """
    keys = (*part.sort, Sort("id", descending=False))
    found = rows
    for column, value in part.equal.items():
        found = found.none() if value is None else found.filter(**{column: value})
    for how, text in part.names:
        found = found.filter(pk__in=_named(rows.model, how, text))
    for how, words in part.tags:
        found = _tagged(found, how, words)
    for lookup, moment in part.times:
        found = found.exclude(password_expires_at=moment) if lookup == "neq" else found.filter(**{lookup: moment})
    if part.marker is not None:
        found = found.filter(behind(_row(rows, part.marker), keys))
    limit = min(part.limit, LARGEST)
    page = list(found.order_by(*order_by(keys))[: limit + 1])
    return Found(page[:limit], truncated=len(page) > limit)


def _named(model: type[Model], how: str, text: str) -> QuerySet[Any]:
    """Match by position: SQLite's own LIKE pays no heed to case, PostgreSQL's does."""
    column: Any = F("name")
    wanted: Any = Value(text, output_field=TextField())
    if how.startswith("i"):
        how, column, wanted = how[1:], Lower("name"), Lower(wanted)
    rows = model._default_manager.all()
    if how == "endswith":
        rows = rows.alias(_end=Right(column, Length(wanted)) if text else wanted).filter(_end=wanted)
    else:
        position = {"contains": Q(_position__gt=0), "startswith": Q(_position=1)}[how]
        rows = rows.alias(_position=StrIndex(column, wanted)).filter(position)
    found: QuerySet[Any] = rows.values("pk")
    return found


def _tagged(rows: QuerySet[Record], how: str, words: tuple[str, ...]) -> QuerySet[Record]:
    if how.endswith("any"):
        having = Q(pk__in=rows.model._default_manager.filter(tags__name__in=words).values("pk"))
    else:
        having = Q()
        for word in words:
            having &= Q(pk__in=rows.model._default_manager.filter(tags__name=word).values("pk"))
    return rows.exclude(having) if how.startswith("not") else rows.filter(having)


def _row(rows: QuerySet[Record], marker: str) -> Record:
    key = marker if rows.model._meta.pk.get_internal_type() == "CharField" else read_id(marker)
    found = None if key is None else rows.filter(pk=key).first()
    if found is None:
        raise InvalidInputError("marker must be the id of an entry of the list.", field="marker")
    return found
