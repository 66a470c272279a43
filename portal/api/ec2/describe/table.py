"""The declaration of a Describe action, and the engine that answers from it, with ``MaxResults`` and ``NextToken``.

Without ``MaxResults`` a response has at most 1,000 items and a token for the rest, as in AWS. A token contains the sort
key of the last item, so that concurrent changes do not shift later items.
"""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import CharField, Model, Q, QuerySet, TextField

from portal.api.ec2.describe.filters import Filter, Filters, RequestedFilter
from portal.api.ec2.frame import Action, Call, Shape, action, errors, names
from provisioning.common.lists.listing import Sort, after

MOST = 1000
YEARS = range(1970, 9000)
Item = TypeVar("Item")
Place = tuple[str, ...]
"""The sort key of an item: texts, of which the last is an id."""
BATCH = 200
"""Minimum number of rows that are read together if only their items show whether they match the filters."""
ORDER = ("created_at", "id")
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """The declaration of a Describe action, without its items."""

    action: str
    rule: str
    """The policy rule, which is checked before resources are read."""
    member: str
    """The member of the response that has the items."""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    """Filter name → where its value is. Without filters the action has no argument ``Filters``."""
    takes: str = ""
    """More arguments with an effect, separated by spaces."""
    ignored: str = ""
    """Arguments that are accepted and have no effect."""
    missing: str = "InvalidParameterValue"
    """Error code for a missing resource, unless the kind of the ids has its own."""
    paged: bool = True
    """Whether the action has ``MaxResults`` and ``NextToken``."""

    def arguments(self) -> str:
        """Return the arguments with an effect."""
        parts = [self.takes, "Filters" if self.filters else "", "MaxResults NextToken" if self.paged else ""]
        return " ".join(filter(None, parts))

    def answer(self, call: Call) -> dict[str, Any]:
        """Return the response. Raises Ec2Error."""
        items, token = self.listed(call)
        shown = [{name: value for name, value in item.items() if name[0] != "_"} for item in items]
        return {self.member: shown} | ({"NextToken": token} if self.paged else {})

    def as_action(self) -> Action:
        def handler(call: Call) -> dict[str, Any]:
            return self.answer(call)

        handler.__module__ = self.source().__module__
        declare = action(
            self.action, self.rule, takes=self.arguments(), ignored=self.ignored, missing=self.code_of_missing()
        )
        return declare(handler)

    def code_of_missing(self) -> str:
        """Return the error code for a missing resource."""
        return self.missing

    @abstractmethod
    def listed(self, call: Call) -> tuple[list[Shape], str | None]:
        """Return the items of the requested page, and the token of the next page."""

    @abstractmethod
    def source(self) -> Callable[..., object]:
        """Return the function that reads the rows; docs/api.md groups actions by its module."""


@dataclass(frozen=True, kw_only=True)
class Listed(Table):
    """A Describe action with a few items that are not read from the database as rows; they are one page."""

    items: Callable[[Call], Sequence[Shape]]

    def listed(self, call: Call) -> tuple[list[Shape], str | None]:
        conditions = Filters(self.filters).requested(call.get("Filters", [])) if self.filters else []
        items = [item for item in self.items(call) if all(each.matches(item) for each in conditions)]
        if self.paged:
            requested_page(call)
        return items, None

    def source(self) -> Callable[..., object]:
        return self.items


@dataclass(frozen=True, kw_only=True)
class Described(Table, Generic[Row]):
    """A Describe action whose items are rows of the database, which also cuts the pages."""

    rows: Callable[[Call], names.Rows[Row]]
    """Returns the rows that the caller sees. Several sources have the same columns of the order and of the filters."""
    shape: Callable[[Call, list[Row]], Sequence[Shape | None]]
    """Returns the item of each row, or None for a hidden row."""
    kind: names.Kind | None = None
    """The kind of the ids in ``ids``, and of tags."""
    ids: str = ""
    """The name of the argument that contains ids."""
    ids_exclude_pages: bool = False
    """Whether the ids cannot be combined with ``MaxResults``."""
    among: Callable[[Call], Q | None] = lambda call: None
    """Returns a condition of other arguments: rows that do not fulfil it are omitted, even if their ids are given."""
    tags: str | None = "Tags"
    """The path of the tags in an item, None for items without tags."""
    order: Sequence[str] = ORDER
    """Columns, of which the last is unique."""
    collect: Callable[[list[Shape]], list[Shape]] = lambda items: items
    """Converts the items of a page into those of the response."""

    def arguments(self) -> str:
        return f"{self.ids} {super().arguments()}".strip()

    def code_of_missing(self) -> str:
        return self.missing if self.kind is None else self.kind.missing

    def listed(self, call: Call) -> tuple[list[Shape], str | None]:
        prefix = self.kind.prefix if self.kind is not None else ""
        filters = Filters(self.filters, self.tags, prefix).requested(call.get("Filters", [])) if self.filters else []
        sources = names.sources(self.rows(call))
        ec2_ids = call.get(self.ids, []) if self.ids else []
        if ec2_ids:
            items, token = self._named(call, sources, ec2_ids, filters)
        else:
            items, token = self._unnamed(call, sources, filters)
        return self.collect(items), token

    def source(self) -> Callable[..., object]:
        return self.rows

    def _named(
        self, call: Call, sources: tuple[QuerySet[Row], ...], ec2_ids: Sequence[str], filters: Sequence[RequestedFilter]
    ) -> tuple[list[Shape], str | None]:
        """Return the items with these ids. Raises Ec2Error for unknown ids."""
        if self.ids_exclude_pages and call.get("MaxResults"):
            raise errors.combination(f"The parameter {self.ids} cannot be used with the parameter MaxResults")
        if self.kind is None:
            raise TypeError(f"{self.action} has ids without a kind.")
        rows = names.those(self.kind, ec2_ids, sources)
        among = self.among(call)
        if among is not None:
            kept = {row.pk for source in sources for row in source.filter(among, pk__in=[each.pk for each in rows])}
            rows = [row for row in rows if row.pk in kept]
        matching = list(self._passing(call, rows, filters))
        shown, token = (
            page(call, matching, lambda each: place_of(each[0], self.order)) if self.paged else (matching, None)
        )
        return [item for _, item in shown], token

    def _unnamed(
        self, call: Call, sources: tuple[QuerySet[Row], ...], filters: Sequence[RequestedFilter]
    ) -> tuple[list[Shape], str | None]:
        """Return a page. Rows are read in batches until it is full; rows that do not match the filters are not read
        again for the next page.
        """
        limit, marker = requested_page(call) if self.paged else (None, None)
        sources, exact = self._narrowed(call, sources, filters)
        matching: list[tuple[Row, Shape]] = []
        size = None if limit is None else limit + 1 if exact else max(BATCH, limit + 1)
        while True:
            batch: list[Row] = rows_after(sources, self.order, marker, size)
            matching += self._passing(call, batch, filters)
            if size is None or len(batch) < size or len(matching) > (limit or 0):
                break
            marker, size = place_of(batch[-1], self.order), max(size, min(BATCH, 2 * size))
        more = limit is not None and len(matching) > limit
        token = token_of(place_of(matching[limit - 1][0], self.order)) if limit is not None and more else None
        return [item for _, item in matching[:limit]], token

    def _narrowed(
        self, call: Call, sources: tuple[QuerySet[Row], ...], filters: Sequence[RequestedFilter]
    ) -> tuple[tuple[QuerySet[Row], ...], bool]:
        """Return the rows that the database lets pass, and whether it has compared the values of all filters."""
        among, exact = self.among(call), True
        result = []
        for source in sources:
            parts = [each.narrow(source.model) for each in filters]
            conditions = [part[0] for part in parts if part is not None]
            exact = exact and all(part is not None and part[1] for part in parts)
            result.append(source.filter(*conditions, *([among] if among is not None else [])))
        return tuple(result), exact

    def _passing(self, call: Call, rows: list[Row], filters: Iterable[RequestedFilter]) -> Iterator[tuple[Row, Shape]]:
        for row, item in zip(rows, self.shape(call, rows), strict=True):
            if item is not None and all(each.matches(item) for each in filters):
                yield row, item


def page(call: Call, items: Sequence[Item], place: Callable[[Item], Place]) -> tuple[list[Item], str | None]:
    """Return a page of items that have already been read, because they are few or the request specifies their ids.
    Raises Ec2Error.
    """
    limit, marker = requested_page(call)
    ordered = sorted(items, key=place)
    if marker:
        ordered = [item for item in ordered if place(item) > marker]
    if len(ordered) <= limit:
        return ordered, None
    return ordered[:limit], token_of(place(ordered[limit - 1]))


def requested_page(call: Call) -> tuple[int, Place | None]:
    """Return the size of the requested page, and the sort key that it begins after. Raises Ec2Error."""
    limit, token = call.get("MaxResults"), call.get("NextToken")
    if limit is not None and not 1 <= limit <= MOST:
        raise errors.invalid_value("maxResults", limit, f"Expecting 1 to {MOST}.")
    return limit or MOST, _decoded(token) if token else None


def rows_after(
    sources: Sequence[QuerySet[Any]], order: Sequence[str], marker: Place | None, size: int | None = None
) -> list[Any]:
    """Return the next rows of all sources after a sort key, at most ``size``.

    The database orders the rows of a source. The first columns of the order must distinguish rows of several sources,
    and must not be texts, because the order of texts depends on the database.
    """
    keys = [Sort(name, descending=False) for name in order]
    parts = [after(source, keys, _values(source, order, marker) if marker else None)[:size] for source in sources]
    if len(parts) == 1:
        return list(parts[0])
    return list(islice(merge(*parts, key=lambda row: place_of(row, order)), size))


def place_of(row: Model, order: Sequence[str]) -> Place:
    """Return the sort key of a row."""
    return tuple(_text(getattr(row, name)) for name in order)


def token_of(place: Place) -> str:
    """Return the token of the page after a sort key."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _values(rows: QuerySet[Any], order: Sequence[str], place: Place) -> dict[str, Any]:
    """Return the values of the columns in a sort key. Raises Ec2Error."""
    wrong = errors.invalid_value("nextToken", json.dumps(place))
    if len(place) != len(order):
        raise wrong
    values = {}
    for name, text in zip(order, place, strict=True):
        try:
            computed = rows.query.annotations.get(name)
            column: Any = computed.output_field if computed is not None else rows.model._meta.get_field(name)
            value = column.to_python(text)
        except ValidationError as error:
            raise wrong from error
        empty = value is None or (value == "" and not isinstance(column, CharField | TextField))
        if empty or "\0" in text or (isinstance(value, datetime) and value.year not in YEARS):
            raise wrong
        values[name] = value
    return values


def _text(value: Any) -> str:
    """Convert a value into text with the same order, for times, UUIDs and numbers within a launch."""
    if isinstance(value, int):
        return f"{value:010}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _decoded(token: str) -> Place:
    try:
        place: Any = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError, UnicodeError) as error:
        raise errors.invalid_value("nextToken", token) from error
    if not isinstance(place, list) or not place or not all(isinstance(each, str) for each in place):
        raise errors.invalid_value("nextToken", token)
    return tuple(place)
