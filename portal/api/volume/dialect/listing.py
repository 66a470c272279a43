"""Cinder's lists: filters, also by parts of a text (``name~``), sorting, pages by marker and offset, links, counts.

A resource declares its filters.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any

from django.db.models import Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.lookups import Exact
from rest_framework.request import Request

from portal.api.frame import TEXT, Filter, Filtering, Page, Pages, Schema, Sorting, Version, schemas_of, truth
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
FILTERING = Filtering(
    besides=frozenset({*PAGES, "all_tenants", "all_projects", "with_count"}),
    unknown="Invalid filters {names} are found in query options.",
    nul="A query has no NUL characters.",
)
LIST_PAGES = Pages(zero_is_none=True, not_in_links=frozenset({"marker", "offset"}))
SORTING = Sorting(
    unknown_key="Invalid input received: Sort key {key} is invalid; known: {known}.",
    unknown_way="Invalid input received: Unknown sort direction {way}, must be asc or desc.",
    joined="The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter.",
    once=True,
    blanks=True,
    without=("created_at",),
)
_COMPARISONS = {"gt": "gt", "gte": "gte", "eq": "exact", "neq": "exact", "lt": "lt", "lte": "lte"}


def boolean(name: str, lookup: str = "", **versions: Any) -> Filter:
    """Return a filter with Cinder's spellings of a boolean; others are rejected."""
    message = f"Invalid input received: {name}={{value}}"
    return Filter(name, lookup, partial(truth, words="true t 1|false f 0", message=message, field=name), **versions)


class TextAt(KeyTextTransform):
    """The text at a key of a JSON object column; unlike in Django, digits are a key and not a list index."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> tuple[str, tuple[Any, ...]]:
        column, values = compiler.compile(self.lhs)
        found = f"SELECT each.value FROM json_each({column}) AS each WHERE each.key = %s"  # noqa: S608 - Django's name
        return f"({found})", (*values, self.key_name)

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, values = compiler.compile(self.lhs)
        return f"({column} ->> %s)", (*values, self.key_name)


def pairs(name: str, column: str = "", **versions: Any) -> Filter:
    """Return a filter for all key-value pairs in its value, ``{'key': 'value'}``, in a JSON column."""

    def condition(requested: Mapping[str, str]) -> Q:
        return Q(*(Q(Exact(TextAt(key, column or name), Value(each))) for key, each in requested.items()))

    return Filter(name, read=read_pairs, condition=condition, **versions)


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


def moments(name: str) -> Filter:
    """Return a filter on a time: ``gt:2026-01-01T00:00:00,lt:…``; several comparisons must all match."""

    def condition(value: str) -> Q:
        result = Q()
        for part in value.split(","):
            comparison, colon, moment = part.partition(":")
            if not colon or comparison not in _COMPARISONS:
                comparison, moment = "eq", part
            compared = Q(**{f"{name}__{_COMPARISONS[comparison]}": kinds.read_time(moment, name)})
            result &= ~compared if comparison == "neq" else compared
        return result

    return Filter(name, condition=condition, since=TIMES)


@dataclass(frozen=True, kw_only=True)
class Lists:
    """The declaration of a resource's list."""

    filters: Sequence[Filter]
    like: Sequence[str] = ()
    """Filters that from 3.34 on have a second one for a part of the text, ``name~``."""
    sort: Mapping[str, str] = field(default_factory=dict)
    """Sort key → column."""
    sort_since: Mapping[str, Version] = field(default_factory=dict)
    order: Sequence[Sort] = (Sort("created_at"), Sort("id"))
    usual_way: str = "desc"
    strict: bool = True
    """Whether unknown filters are rejected from 3.31 on."""

    @cached_property
    def every_filter(self) -> Sequence[Filter]:
        """The declared filters, and the filters by a part of an attribute's text."""
        likes = [
            replace(each, name=f"{each.name}~", lookup=f"{each.lookup}__icontains", read=str, since=LIKE)
            for each in self.filters
            if each.name in self.like
        ]
        return (*self.filters, *likes)

    def schema(self, version: Version) -> Schema:
        """Return the schema of a list's query, for the OpenAPI document."""
        schemas = schemas_of(self.every_filter, version) | dict.fromkeys((*PAGES, "all_tenants"), TEXT)
        properties = {name: {"type": "array", "items": schema} for name, schema in schemas.items()}
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
    query, strict = request.query_params.lists(), lists.strict and version >= NAMED
    found = FILTERING.read(query, lists.every_filter, version, strict=strict)
    return rows.filter(reduce(and_, (each.where(value) for each, value in found), Q()))


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
