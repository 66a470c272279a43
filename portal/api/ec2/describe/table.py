"""The declaration of a Describe action, and the engine that answers from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from portal.api.ec2.describe.filters import Asked, Filter, Filters
from portal.api.ec2.describe.paging import asked, page, place_of, read, written
from portal.api.ec2.frame import Action, Call, Shape, action, errors, names

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
    """Error code for a missing resource, unless the kind of the ids has one."""
    paged: bool = True
    """Whether the action has ``MaxResults`` and ``NextToken``."""

    def arguments(self) -> str:
        """Return the arguments with an effect."""
        known = [self.takes, "Filters" if self.filters else "", "MaxResults NextToken" if self.paged else ""]
        return " ".join(filter(None, known))

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
            self.action, self.rule, takes=self.arguments(), passes_over=self.ignored, missing=self.code_of_missing()
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
        """Return the function that reads; docs/api.md groups actions by its module."""


@dataclass(frozen=True, kw_only=True)
class Listed(Table):
    """A Describe action with a few items that are not read from the database as rows; they are one page."""

    items: Callable[[Call], Sequence[Shape]]

    def listed(self, call: Call) -> tuple[list[Shape], str | None]:
        conditions = Filters(self.filters).asked(call.get("Filters", [])) if self.filters else []
        items = [item for item in self.items(call) if all(each.holds(item) for each in conditions)]
        if self.paged:
            asked(call)
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
        filters = Filters(self.filters, self.tags, prefix).asked(call.get("Filters", [])) if self.filters else []
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
        self, call: Call, sources: tuple[QuerySet[Row], ...], ec2_ids: Sequence[str], filters: Sequence[Asked]
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
        found = list(self._passing(call, rows, filters))
        shown, token = page(call, found, lambda each: place_of(each[0], self.order)) if self.paged else (found, None)
        return [item for _, item in shown], token

    def _unnamed(
        self, call: Call, sources: tuple[QuerySet[Row], ...], filters: Sequence[Asked]
    ) -> tuple[list[Shape], str | None]:
        """Return a page. Rows are read in batches until it is full; rows that do not match the filters are not read
        again for the next page.
        """
        most, behind = asked(call) if self.paged else (None, None)
        sources, exact = self._narrowed(call, sources, filters)
        taken: list[tuple[Row, Shape]] = []
        size = None if most is None else most + 1 if exact else max(BATCH, most + 1)
        while True:
            batch: list[Row] = read(sources, self.order, behind, size)
            taken += self._passing(call, batch, filters)
            if size is None or len(batch) < size or len(taken) > (most or 0):
                break
            behind, size = place_of(batch[-1], self.order), max(size, min(BATCH, 2 * size))
        more = most is not None and len(taken) > most
        token = written(place_of(taken[most - 1][0], self.order)) if most is not None and more else None
        return [item for _, item in taken[:most]], token

    def _narrowed(
        self, call: Call, sources: tuple[QuerySet[Row], ...], filters: Sequence[Asked]
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

    def _passing(self, call: Call, rows: list[Row], filters: Iterable[Asked]) -> Iterator[tuple[Row, Shape]]:
        for row, item in zip(rows, self.shape(call, rows), strict=True):
            if item is not None and all(each.holds(item) for each in filters):
                yield row, item
