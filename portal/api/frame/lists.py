"""Queries of lists: pages and links, sort keys, and filters. Each service declares its syntax."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.http import QueryDict
from rest_framework.request import Request

from portal.api.common.requests import NEWEST, OLDEST, Schema, Version
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part, Sort
from provisioning.common.values.ids import NOBODY, read_id

LARGEST = 1000
"""Maximum number of items of one page, as in Nova."""
NO_NUMBER = -2
"""A number that no column contains."""
TEXT: Schema = {"type": "string"}
Read = Callable[[str], object]
"""Returns the value of a filter."""


def whole_number(name: str, value: str, digits: int = 10) -> int:
    """Read the number of a parameter. Raises InvalidInputError."""
    if not (value.isascii() and value.isdigit() and len(value) <= digits):
        raise InvalidInputError(f"{name} must be a whole number, 0 or greater.", field=name)
    return int(value)


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a list: at most ``limit`` items after the item with the id ``marker``."""

    limit: int
    marker: str | None
    asked: bool
    """Whether the client specified a limit."""
    backwards: bool = False
    """Whether the page has the items before the marker."""


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The pages of a service's lists."""

    largest: int = LARGEST
    usual: int = 0
    """The limit of a query that specifies none; 0: the maximum."""
    zero_is_none: bool = False
    """Whether ``limit=0`` requests an empty page. Otherwise it requests the largest page."""
    reverse: str = ""
    """The parameter for a page before the marker."""
    not_in_links: frozenset[str] = frozenset({"limit", "marker"})
    """Parameters of the request that links to other pages replace or omit."""

    def read(self, request: Request) -> Page:
        """Return the page that the query requests. Raises InvalidInputError for an invalid limit."""
        params = request.query_params
        text = params.get("limit")
        limit = (self.usual or self.largest) if text is None else self.limit(text)
        backwards = bool(self.reverse) and params.get(self.reverse, "").lower() in {"true", "1"}
        return Page(min(limit, self.largest), self.marker(params), text is not None, backwards)

    def limit(self, text: str) -> int:
        limit = whole_number("limit", text)
        return limit if limit or self.zero_is_none else self.largest

    def marker(self, params: QueryDict) -> str | None:
        return params.get("marker") or None

    def read_part(self, request: Request) -> Part:
        """Return the page that ``offset`` and ``limit`` of the query request. Raises InvalidInputError."""
        offset = whole_number("offset", request.query_params.get("offset", "0"))
        return Part(limit=self.read(request).limit, offset=offset)

    def read_slice(self, request: Request) -> slice:
        """Return the slice of a sequence that ``read_part`` requests."""
        return self.read_part(request).bounds

    def query(self, request: Request, page: Page, more: Mapping[str, str]) -> str:
        """Return the query of another page: the request's parameters, with ``more``."""
        kept = [
            (name, value)
            for name, values in request.query_params.lists()
            for value in values
            if name not in self.not_in_links
        ]
        limit = {"limit": str(page.limit)} if "limit" in self.not_in_links else {}
        return urlencode([*kept, *limit.items(), *more.items()])

    def next_query(self, request: Request, page: Page, ids: Sequence[object]) -> str | None:
        """Return the query for the page that follows the page with these ids; None after the last page."""
        if not ids or len(ids) < page.limit:
            return None
        return self.query(request, page, {"marker": str(ids[-1])})

    def links(self, request: Request, page: Page, ids: Sequence[object], url: str) -> list[dict[str, str]]:
        """Return the links to other pages, ``url`` is the list's address. Without ``reverse``: a link to the next page,
        if the page is full. With it: links to both, if the client specified a limit.
        """
        if not self.reverse:
            following = self.next_query(request, page, ids)
            return [] if following is None else [{"rel": "next", "href": f"{url}?{following}"}]
        full, found = len(ids) >= page.limit, []
        if page.asked and (full or page.backwards):
            found.append(("next", {"marker": str(ids[-1])} if ids else {}))
        if page.asked and (full or not page.backwards):
            found.append(("previous", ({"marker": str(ids[0])} if ids else {}) | {self.reverse: "True"}))
        return [{"rel": rel, "href": f"{url}?{self.query(request, page, more)}"} for rel, more in found]


@dataclass(frozen=True, kw_only=True)
class Sorting:
    """The sort keys of a service's lists: ``sort_key`` and ``sort_dir``, in some services also ``sort=name:asc,size``.

    Messages have the placeholders ``{key}``, ``{known}`` (valid keys), ``{way}`` (direction), ``{most}``.
    """

    unknown_key: str = ""
    unknown_way: str
    way_field: str = "sort_dir"
    mismatch: str = ""
    """Error message if a query has more directions than keys; empty: additional directions are ignored, but must be
    valid.
    """
    exact: bool = False
    """Whether several directions must be as many as the keys."""
    too_many: str = ""
    """Message for more keys than exist; empty: they are accepted."""
    joined: str = ""
    """Message for ``sort`` beside the other parameters; empty: the service does not have it."""
    once: bool = False
    """Whether only the last ``sort_key`` and ``sort_dir`` count."""
    blanks: bool = False
    """Whether blanks around names, and empty names, are ignored."""
    without: Sequence[str] = ()
    """The keys of directions without keys."""
    way: str = "asc"
    """The default direction."""
    first_for_all: bool = False
    """Whether the first direction also applies to keys without a direction."""

    def read(self, params: QueryDict, known: Mapping[str, str], way: str = "") -> tuple[Sort, ...]:
        """Return the requested order. ``known`` maps keys to columns; ``way`` is another default direction.

        Raises InvalidInputError.
        """
        way, specified = way or self.way, "sort_key"
        keys, ways = params.getlist("sort_key"), params.getlist("sort_dir")
        if self.joined and "sort" in params:
            if keys or ways:
                raise InvalidInputError(self.joined, field="sort")
            keys, ways, specified = *self._split(str(params["sort"]), way), "sort"
        elif self.once:
            keys, ways = keys[-1:], ways[-1:]
            if self.blanks:
                keys, ways = ([each.strip() for each in texts if each] for texts in (keys, ways))
        if not keys and ways:
            keys = list(self.without)
        if self.too_many and len(keys) > len(known):
            raise InvalidInputError(self.too_many.format(most=len(known)), field=specified)
        exactly = self.exact and len(ways) > 1
        if self.mismatch and (len(ways) > len(keys) or (exactly and len(ways) != len(keys))):
            raise InvalidInputError(self.mismatch, field="sort_dir")
        if ways and self.first_for_all:
            way = ways[0]
        return self._sorts(keys, [*ways, *[way] * (len(keys) - len(ways))], known)

    def _split(self, text: str, way: str) -> tuple[list[str], list[str]]:
        parts = [part.strip().partition(":") for part in text.split(",") if part.strip() or not self.blanks]
        ways = [each.strip() if self.blanks else each for _, _, each in parts]
        return [key for key, _, _ in parts], [each or way for each in ways]

    def _sorts(self, keys: Sequence[str], ways: Sequence[str], known: Mapping[str, str]) -> tuple[Sort, ...]:
        for key, way in zip_longest(keys, ways):
            named = {"key": (key or "")[:80], "way": way[:80], "known": ", ".join(known)}
            if key is not None and key not in known:
                raise InvalidInputError(self.unknown_key.format(**named), field="sort_key")
            if way not in {"asc", "desc"}:
                raise InvalidInputError(self.unknown_way.format(**named), field=self.way_field)
        return tuple(Sort(known[key], descending=way == "desc") for key, way in zip(keys, ways, strict=False))


def lower(value: str) -> object:
    return value.lower()


def upper(value: str) -> object:
    return value.upper()


def identity(value: str) -> object:
    """Read an id; an invalid one matches nothing."""
    return read_id(value) or NOBODY


def number(value: str) -> object:
    """Read a whole number; an invalid one matches nothing."""
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdigit() and len(value) < 10 else NO_NUMBER


def truth(value: str, words: str, message: str, field: str | None = None) -> bool:
    """Read a boolean in the service's spellings, such as ``true 1|false 0``. Raises InvalidInputError for any other
    text; ``message`` has the placeholder ``{value}``.
    """
    true, false = (half.split() for half in words.split("|"))
    if value.lower() not in {*true, *false}:
        raise InvalidInputError(message.format(value=value[:80]), field=field)
    return value.lower() in true


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a list. A second declaration of a name replaces the first one in its own microversions."""

    name: str
    """The parameter of the query."""
    lookup: str = ""
    """The column, Django lookup or argument of a selector that gets the value; empty: the name."""
    read: Read = str
    """Reads one value."""
    _: KW_ONLY
    condition: Callable[[Any], Q] | None = None
    """Returns the condition for the value, or for all values if all count, instead of ``lookup``."""
    every_value: bool = False
    """Whether all values of the parameter count, also in services where only the last one does."""
    checked_by: Schema = field(default_factory=lambda: TEXT)
    """The schema of a value."""
    since: Version = OLDEST
    until: Version = NEWEST
    everybody: Version | None = OLDEST
    """The first version in which all callers may use it; before, it is ignored for callers other than operators.
    None: only operators may.
    """

    def __post_init__(self) -> None:
        """Use the name as the lookup, if there is no other."""
        object.__setattr__(self, "lookup", self.lookup or self.name)

    def is_at(self, version: Version) -> bool:
        return self.since <= version <= self.until

    def is_open_at(self, version: Version) -> bool:
        """Whether all callers may use it."""
        return self.everybody is not None and version >= self.everybody

    def where(self, value: Any) -> Q:
        """Return the condition for a value that was read."""
        return self.condition(value) if self.condition else Q(**{self.lookup: value})


def schemas_of(filters: Iterable[Filter], version: Version = NEWEST) -> dict[str, Schema]:
    """Return the schemas of the parameters at a version."""
    return {each.name: each.checked_by for each in filters if each.is_at(version)}


@dataclass(frozen=True, kw_only=True)
class Filtering:
    """The syntax of the filters of a service's lists."""

    besides: Collection[str] = frozenset()
    """Parameters that are not filters."""
    every_value: bool = False
    """Whether all values of a repeated parameter count; by default only the last one does."""
    unknown: str = ""
    """Message for unknown filters, with the placeholders ``{first}`` and ``{names}``; empty: they are ignored."""
    undeclared: Callable[[str], Filter] | None = None
    """Returns the filter of a parameter that no list declares."""
    nul: str = "The query must not have a NUL character in it."
    """Message for a NUL character, which no database stores, with the placeholder ``{name}``; empty: it is accepted."""

    def read(
        self,
        query: Iterable[tuple[str, Sequence[str]]],
        filters: Iterable[Filter],
        version: Version = NEWEST,
        *,
        operator: bool = True,
        strict: bool = True,
    ) -> list[tuple[Filter, Any]]:
        """Return the filters of a query with the values that were read, a list if all values count.

        ``strict``: whether unknown filters are rejected, in services that reject any. Raises InvalidInputError.
        """
        parameters = list(query)
        self._check_no_nul(parameters)
        known = {each.name: each for each in filters if each.is_at(version)}
        result: list[tuple[Filter, Any]] = []
        unknown: list[str] = []
        for name, values in (part for parameter in parameters for part in self.parts(*parameter)):
            declared = known.get(name) or (self.undeclared and self.undeclared(name))
            if declared is None:
                unknown.append(name[:80])
            elif operator or declared.is_open_at(version):
                every = self.every_value or declared.every_value
                result.append((declared, [*map(declared.read, values)] if every else declared.read(values[-1])))
        if unknown and strict and self.unknown:
            message = self.unknown.format(first=unknown[0], names=",".join(sorted(unknown)[:5]))
            raise InvalidInputError(message, field=unknown[0])
        return result

    def parts(self, name: str, values: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the filters in a parameter."""
        return [] if name in self.besides else [(name, values)]

    def _check_no_nul(self, parameters: Iterable[tuple[str, Sequence[str]]]) -> None:
        for name, values in parameters if self.nul else ():
            if any("\0" in each for each in (name, *values)):
                raise InvalidInputError(self.nul.format(name=name[:80]), field=name.replace("\0", "")[:80])
