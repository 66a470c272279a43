"""Queries of a list: the matching records, their number, and the records of a page."""

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Expression, Model, QuerySet
from django.db.models.expressions import OrderBy

from portal.common.http import rate_limits
from portal.dashboard.lists.declaration import Record, RecordList, SortKey
from portal.dashboard.lists.list_query import ListQuery
from provisioning.common.context import RequestContext
from provisioning.common.database.row_shapes import listed
from provisioning.common.lists.listing import ordering

Id = uuid.UUID | str | int


@dataclass(frozen=True, slots=True)
class IdPage:
    """One page of a list: the ids of its records in order, and the number of all matching records."""

    ids: list[Any]
    total: int
    page: int
    size: int

    @property
    def pages(self) -> int:
        """Number of pages, at least one."""
        return max(-(-self.total // self.size), 1)

    @property
    def first(self) -> int:
        """Position of the first row of the page, from 1."""
        return (self.page - 1) * self.size + 1

    @property
    def last(self) -> int:
        return self.first + len(self.ids) - 1


def matching(context: RequestContext, the_list: RecordList[Record], list_query: ListQuery) -> QuerySet[Record]:
    """Return the records that match search and filters."""
    rows = the_list.records(context, list_query.values)
    for each in the_list.filters:
        if each.condition is not None and each.key in list_query.values:
            rows = rows.filter(each.condition(context, list_query.values[each.key]))
    return rows.filter(the_list.search(context, list_query.text)) if list_query.text else rows


def ordered(
    context: RequestContext, the_list: RecordList[Record], list_query: ListQuery, rows: QuerySet[Record]
) -> QuerySet[Record]:
    """Sort the records as requested, then by id, so that the order is total."""
    sort = list_query.sort or the_list.default
    if not list_query.sort and the_list.order is not None:
        order = (_ordering(key, rows.model, descending=False) for key in the_list.order(context))
        return rows.order_by(*order, "pk")
    descending = sort.startswith("-")
    column = next(each for each in the_list.columns if each.key == sort.removeprefix("-"))
    keys = [column.sort] if isinstance(column.sort, str | Expression | OrderBy) else list(column.sort or ())
    last: SortKey = "-pk" if descending else "pk"
    return rows.order_by(*(_ordering(key, rows.model, descending=descending) for key in keys), last)


def find(context: RequestContext, the_list: RecordList[Any], list_query: ListQuery) -> IdPage:
    """Return a page, the last one if its number is too high. Sends two queries."""
    rows = matching(context, the_list, list_query)
    total = rows.count()
    page = min(list_query.page, max(-(-total // list_query.size), 1))
    first = (page - 1) * list_query.size
    ids = ordered(context, the_list, list_query, rows).values_list("pk", flat=True)[first : first + list_query.size]
    return IdPage(list(ids), total, page, list_query.size)


def records_of(
    context: RequestContext, the_list: RecordList[Record], list_query: ListQuery, ids: Sequence[Id]
) -> list[Record]:
    """Return the records with these ids of ``find`` in this order, without deleted records. The related data for their
    rows is loaded.
    """
    if not ids:
        return []
    by_key = {each.pk: each for each in _loaded(context, the_list, list_query, ids)}
    return [by_key[key] for key in ids if key in by_key]


def _loaded(
    context: RequestContext, the_list: RecordList[Record], list_query: ListQuery, ids: Sequence[Id]
) -> Iterable[Record]:
    if the_list.loaded is not None:
        return the_list.loaded(ids)
    rows = the_list.records(context, list_query.values).filter(pk__in=ids)
    return listed(the_list.detail(context, rows) if the_list.detail else rows)


def check_rate(context: RequestContext, list_query: ListQuery) -> None:
    """Count a search of the caller. Raises TooManyRequestsError."""
    if list_query.text:
        rate_limits.check(context, rate_limits.SEARCHES)


def all_ids(context: RequestContext, the_list: RecordList[Any], list_query: ListQuery, most: int) -> list[Any]:
    """Return the ids of all matching records in order, at most ``most``."""
    rows = ordered(context, the_list, list_query, matching(context, the_list, list_query))
    return list(rows.values_list("pk", flat=True)[:most])


def present(
    context: RequestContext, the_list: RecordList[Any], list_query: ListQuery, ids: Collection[Id]
) -> list[Any]:
    """Return the ids among ``ids`` whose records the caller may see, in the list's order."""
    rows = the_list.records(context, list_query.values).filter(pk__in=ids)
    return list(ordered(context, the_list, list_query, rows).values_list("pk", flat=True))


def _ordering(key: SortKey, model: type[Model], *, descending: bool) -> OrderBy | str:
    """Return Django's form of a sort key; empty values are last."""
    return key if isinstance(key, OrderBy) else ordering(key, model, descending=descending, empty_last=True)
