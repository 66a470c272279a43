"""The state of a list, which is in its address: search, filters, order, page; and columns, page size and density, which
a cookie stores for each user and list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.lists.declaration import Column, Filter, RecordList
from provisioning.common.context import RequestContext

SIZES = (25, 50, 100, 200)
SIZE = 50
"""Rows on a page by default."""
LONGEST = 255
"""Maximum characters of a search and of a filter's value."""
LAST_PAGE = 1_000_000
YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A requested part of a list; invalid values of the address are ignored."""

    text: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    sort: str = ""
    """A column's key, with ``-`` for descending; empty: the default order."""
    page: int = 1
    size: int = SIZE
    columns: tuple[str, ...] = ()
    """Keys of the chosen columns; empty: the default ones."""
    compact: bool = False
    pinned: tuple[tuple[str, str], ...] = ()
    """Columns, page size and density of the address; its links keep them."""
    seen: tuple[Column, ...] = ()
    """The columns that the caller may see."""
    filters: tuple[Filter, ...] = ()
    """The filters that the caller may use."""

    @classmethod
    def of(cls, the_list: RecordList[Any], context: RequestContext, data: QueryDict, kept: str = "") -> ListQuery:
        """Read a query string; ``kept``, the value of the cookie, provides missing values."""
        columns, filters = the_list.parts_for(context)
        list_query = cls(
            text=clean(data.get("q", "")),
            values=_values(filters, context, data),
            sort=_sort(columns, data.get("sort", "")),
            page=_number(data.get("page", ""), LAST_PAGE) or 1,
            seen=tuple(columns),
            filters=tuple(filters),
        )
        return _with_view(list_query, data, kept)

    def with_default_columns(self, the_list: RecordList[Any], context: RequestContext) -> ListQuery:
        """Choose the default columns, if an optional one is shown to this caller by default.

        Live updates have the columns in the name of the page, so that they keep the columns of its headings.
        """
        if self.columns:
            return self
        added = {each.key for each in self.seen if each.shown is not None and each.shown(context)}
        default = (each.key for each in self.seen if not each.optional or each.key in added)
        return replace(self, columns=tuple(default)) if added else self

    @property
    def narrowed(self) -> bool:
        """Whether the list is searched or filtered."""
        return bool(self.text or self.values)

    def pairs(self) -> list[tuple[str, str]]:
        """Return search, filters, order and pinned values as names and values."""
        return [*self._rows(), *self.pinned]

    def query(self, **changes: Any) -> str:
        """Return the query of the list's address with these changes, and its first page unless a page is given."""
        list_query = replace(self, **{"page": 1, **changes})
        page = [("page", str(list_query.page))] if list_query.page > 1 else []
        return f"?{urlencode([*list_query.pairs(), *page])}"

    def without(self, key: str) -> str:
        """Return the query without a filter; ``q`` is the search."""
        if key == "q":
            return self.query(text="")
        return self.query(values={name: value for name, value in self.values.items() if name != key})

    def with_value(self, key: str, value: str) -> str:
        """Return the query with a filter's value; an empty value removes the filter."""
        return self.query(values={**self.values, key: value}) if value else self.without(key)

    def live_name(self, key: str) -> str:
        """Return the name of the live page: the list's key with everything that its rows depend on."""
        parts = self._rows() + [("column", each) for each in self.columns]
        parts += [("page", str(self.page))] if self.page > 1 else []
        parts += [("size", str(self.size))] if self.size != SIZE else []
        return f"{key}?{urlencode(parts)}" if parts else key

    def shown(self, the_list: RecordList[Any], context: RequestContext) -> list[Column]:
        """Return the columns to show."""
        seen = self.seen or tuple(the_list.columns_for(context))
        if self.columns:
            return [each for each in seen if each.key in self.columns or each is seen[0]]
        return [each for each in seen if not each.optional]

    def _rows(self) -> list[tuple[str, str]]:
        result = [("q", self.text), *self.values.items(), ("sort", self.sort)]
        return [(name, value) for name, value in result if value]


def clean(text: str) -> str:
    """Return a searched text or a filter's value without NUL, which PostgreSQL does not accept."""
    return text.replace("\0", "").strip()[:LONGEST]


def cookie_of(context: RequestContext) -> str:
    """Return the name of the cookie; its path is the list's address."""
    return f"list-{(context.user_id.hex if context.user_id else '')[:12]}"


def keep(response: HttpResponse, request: HttpRequest, the_list: RecordList[Any], list_query: ListQuery) -> None:
    """Store columns, page size and density in the browser."""
    value = f"{'.'.join(list_query.columns)}:{list_query.size}:{'c' if list_query.compact else ''}"
    context: RequestContext = request.context  # type: ignore[attr-defined]  # set by the middleware
    response.set_cookie(
        cookie_of(context),
        value,
        max_age=YEAR,
        path=the_list.address,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )


def _with_view(list_query: ListQuery, data: QueryDict, kept: str) -> ListQuery:
    columns, size, compact = (*kept.split(":"), "", "", "")[:3]
    chosen = data.getlist("column") or columns.split(".")
    known = tuple(each.key for each in list_query.seen if each.key in chosen)
    number = _number(data.get("size", "") or size, max(SIZES))
    return replace(
        list_query,
        columns=known,
        size=number if number in SIZES else SIZE,
        compact=(data["density"] == "compact") if "density" in data else compact == "c",
        pinned=() if "keep" in data else tuple(_pinned(data)),
    )


def _pinned(data: QueryDict) -> Iterator[tuple[str, str]]:
    for name in ("column", "size", "density"):
        yield from ((name, each[:64]) for each in data.getlist(name)[:64])


def _values(filters: Sequence[Filter], context: RequestContext, data: QueryDict) -> dict[str, str]:
    result = {}
    for each in filters:
        value = clean(data.get(each.key, ""))
        if value and (not each.closed or value in dict(each.choices(context))):
            result[each.key] = value
    return result


def _sort(columns: Sequence[Column], sort: str) -> str:
    known = {each.key for each in columns if each.sort is not None}
    return sort if sort.removeprefix("-") in known and sort.count("-", 0, 2) < 2 else ""


def _number(text: str, most: int) -> int:
    """Return a positive number up to ``most``, or 0."""
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 10 else 0
