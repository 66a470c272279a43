"""Cinder's lists: filters, also by parts of a text (``name~``), sorting, pages by marker and offset, links, counts.

A resource declares its filters by their query names; each builds a Django condition from the value.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.lookups import Exact
from rest_framework.request import Request

from portal.api.frame import Page, Pages, Schema, Sorting, Version, check_no_nul, truth
from portal.api.frame.lists import whole_number
from portal.api.volume.dialect import kinds
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort

NAMED = (3, 31)
"""From this version on an unknown filter is rejected; before, it is ignored."""
LIKE = (3, 34)
"""From this version on ``name~=part`` matches texts that contain the part."""
COUNTED = (3, 45)
"""From this version on ``with_count`` adds the total number of items."""
TIMES = (3, 60)
"""From this version on volumes can be filtered by ``created_at`` and ``updated_at`` with comparisons."""
LONGEST_PAIRS = 16_384
"""Characters of a filter by key-value pairs."""
PAGES = ("limit", "marker", "offset", "sort", "sort_key", "sort_dir")
_NOT_FILTERS = frozenset({*PAGES, "all_tenants", "all_projects", "with_count"})
LIST_PAGES = Pages(zero_is_none=True, not_in_links=frozenset({"marker", "offset"}))
SORTING = Sorting(
    unknown_key="Invalid input received: Sort key {key} is invalid; known: {known}.",
    unknown_way="Invalid input received: Unknown sort direction {way}, must be asc or desc.",
    joined="The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter.",
    once=True,
    without=("created_at",),
)
Condition = Callable[[str], Q]
_COMPARISONS = {"gt": "gt", "gte": "gte", "eq": "exact", "neq": "exact", "lt": "lt", "lte": "lte"}


def boolean(lookup: str, name: str = "") -> Condition:
    """Return a condition that compares a column with Cinder's spellings of a boolean. Raises InvalidInputError.

    ``name``: the name of the filter, if it differs from the column.
    """
    filter_name = name or lookup

    def condition(value: str) -> Q:
        message = f"Invalid input received: {filter_name}={{value}}"
        return Q(**{lookup: truth(value, "true t 1|false f 0", message, filter_name)})

    return condition


class TextAt(KeyTextTransform):
    """The text at a key of a JSON object column; unlike in Django, digits are a key and not a list index."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> tuple[str, tuple[Any, ...]]:
        column, values = compiler.compile(self.lhs)
        found = f"SELECT each.value FROM json_each({column}) AS each WHERE each.key = %s"  # noqa: S608 - Django's name
        return f"({found})", (*values, self.key_name)

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, values = compiler.compile(self.lhs)
        return f"({column} ->> %s)", (*values, self.key_name)


def pairs(column: str) -> Condition:
    """Return a condition for all key-value pairs of a filter, ``{'key': 'value'}``, in a JSON column."""

    def condition(value: str) -> Q:
        found = Q()
        for key, expected in read_pairs(value).items():
            found &= Q(Exact(TextAt(key, column), Value(expected)))
        return found

    return condition


def read_pairs(value: str) -> dict[str, str]:
    """Read ``{'key': 'value'}`` or the same in JSON. Raises InvalidInputError for anything else."""
    try:
        found = ast.literal_eval(value.strip()) if len(value) <= LONGEST_PAIRS else None
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = None
    if not isinstance(found, dict) or not all(map(_is_text, (*found, *found.values()))):
        raise InvalidInputError(f"Could not evaluate value {value[:64]}, assuming string", field="metadata")
    return found


def _is_text(value: object) -> bool:
    """Whether a database can compare it: text without NUL and surrogates."""
    return isinstance(value, str) and "\0" not in value and value == value.encode(errors="ignore").decode()


def moments(column: str) -> Condition:
    """Return a condition on a time: ``gt:2026-01-01T00:00:00,lt:…``; several comparisons must all match."""

    def condition(value: str) -> Q:
        found = Q()
        for part in value.split(","):
            word, colon, moment = part.partition(":")
            if not colon or word not in _COMPARISONS:
                word, moment = "eq", part
            compared = Q(**{f"{column}__{_COMPARISONS[word]}": kinds.read_time(moment, column)})
            found &= ~compared if word == "neq" else compared
        return found

    return condition


@dataclass(frozen=True, kw_only=True)
class Lists:
    """The declaration of a resource's list."""

    filters: Mapping[str, Condition]
    like: Mapping[str, str] = field(default_factory=dict)
    """Filter → column in which a part of the text matches from 3.34 on (``name~``)."""
    since: Mapping[str, Version] = field(default_factory=dict)
    """Filter → the first version that has it; earlier ones ignore it."""
    before: Mapping[str, tuple[Version, Condition]] = field(default_factory=dict)
    """Filter → the version up to which it had another condition, and that condition."""
    sort: Mapping[str, str] = field(default_factory=dict)
    """Sort key → column."""
    sort_since: Mapping[str, Version] = field(default_factory=dict)
    order: Sequence[Sort] = (Sort("created_at"), Sort("id"))
    usual_way: str = "desc"
    strict: bool = True
    """Whether unknown filters are rejected from 3.31 on."""

    def schema(self, version: Version) -> Schema:
        """Return the schema of a list's query, for the OpenAPI document."""
        names = [*self.filters, *(f"{name}~" for name in self.like if version >= LIKE), *PAGES, "all_tenants"]
        properties = {name: {"type": "array", "items": {"type": "string"}} for name in names}
        return {"type": "object", "properties": properties}


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list."""

    rows: list[Any]
    page: Page
    count: int | None
    """The total number of items, if it was requested."""


def wants_all(request: Request) -> bool:
    """Whether the query requests the resources of every project."""
    value = request.query_params.get("all_tenants") or request.query_params.get("all_projects") or "0"
    message = "all_tenants param must be true or false, not {value!r}."
    return truth(value, "1 true t yes y on|0 false f no n off", message, "all_tenants")


def narrowed(lists: Lists, rows: QuerySet[Any], request: Request, version: Version) -> QuerySet[Any]:
    """Return the rows that match a query's filters. Raises InvalidInputError."""
    check_no_nul(request.query_params, "A query has no NUL characters.")
    return rows.filter(_condition(lists, request, version))


def page_of(lists: Lists, rows: QuerySet[Any], request: Request, version: Version) -> Listed:
    """Return the requested page of the rows; InvalidInputError, and NotFoundError for an unknown marker."""
    params = request.query_params
    chosen = narrowed(lists, rows, request, version)
    page, offset = LIST_PAGES.read(request), whole_number("offset", params.get("offset") or "0", digits=9)
    known = {key: column for key, column in lists.sort.items() if version >= lists.sort_since.get(key, (3, 0))}
    sort = SORTING.read(params, known, lists.usual_way)
    part = Part(sort=sort, limit=page.limit, marker=page.marker, offset=offset)
    listing: Listing[Any] = Listing(lists.order, unknown_marker=NotFoundError)
    found = listing.page(chosen, part, among=rows)
    counted = version >= COUNTED and params.get("with_count", "").lower() in {"1", "true", "t", "yes"}
    return Listed(found, page, chosen.count() if counted else None)


def _condition(lists: Lists, request: Request, version: Version) -> Q:
    found, unknown = Q(), []
    for name, values in request.query_params.lists():
        if name in _NOT_FILTERS:
            continue
        plain = name.removesuffix("~")
        if name != plain and version >= LIKE and plain in lists.like:
            found &= Q(**{f"{lists.like[plain]}__icontains": values[-1]})
        elif name in lists.filters and version >= lists.since.get(name, (3, 0)):
            until, older = lists.before.get(name, ((0, 0), None))
            read = older if older is not None and version < until else lists.filters[name]
            found &= read(values[-1])
        else:
            unknown.append(name[:64])
    if unknown and lists.strict and version >= NAMED:
        names = ",".join(sorted(unknown)[:5])
        raise InvalidInputError(f"Invalid filters {names} are found in query options.", field=unknown[0])
    return found
