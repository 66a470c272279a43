"""Neutron's query strings: filters on attributes, ``fields``, several sort keys, and marker paging."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from rest_framework.request import Request

from portal.api.common.paging import Page, read_page
from portal.api.common.sorting import SortErrors, read_sort
from portal.api.common.validation import Schema
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.common.listing import Part
from provisioning.network import addressing

NOT_FILTERS = {"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}

UNSORTABLE = "['{key} {way}'] is invalid attribute for sort_keys"
SORT_ERRORS = SortErrors(UNSORTABLE, UNSORTABLE, way_field="sort_key")

Read = Callable[[str], object]


def text(value: str) -> object:
    return value


def lower(value: str) -> object:
    return value.lower()


def identity(value: str) -> object:
    return read_id(value) or NOBODY


def number(value: str) -> object:
    """Read a whole number; an invalid one matches nothing."""
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdigit() and len(value) < 10 else -2


def boolean(value: str) -> object:
    """Read a boolean in one of Neutron's spellings."""
    known = {"true": True, "1": True, "false": False, "0": False}.get(value.lower())
    if known is None:
        raise InvalidInputError(f"'{value[:80]}' cannot be converted to boolean.")
    return known


def address(value: str) -> object:
    """Read an address in normal form; an invalid one matches nothing."""
    try:
        return str(addressing.read_address(value))
    except ValueError:
        return ""


def range_as_sent(value: str) -> object:
    """Read a range as rules store it; an invalid one matches nothing."""
    try:
        return str(addressing.read_prefix(value, loose=True))
    except ValueError:
        return ""


def prefix(value: str) -> object:
    """Read a range in normal form; an invalid one matches nothing."""
    try:
        return str(addressing.read_prefix(value, loose=True).cidr)
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Column:
    """A filter on an attribute: Django's lookup and the reader of values."""

    lookup: str
    read: Read = text


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute with the same value in every row: a filter on it matches every row or none."""

    value: object
    read: Read = text


@dataclass(frozen=True, slots=True)
class Made:
    """A filter that builds a condition from all its values."""

    make: Callable[[list[str]], Q]


Filters = Mapping[str, Column | Constant | Made]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query string."""

    part: Part
    page: Page
    backwards: bool
    fields: frozenset[str]

    def cut(self, shape: dict[str, Any]) -> dict[str, Any]:
        """Return only the requested fields, or all if none are requested."""
        return {name: value for name, value in shape.items() if name in self.fields} if self.fields else shape


FIELDS: Schema = {"type": "object", "properties": {"fields": {"type": "array", "items": {"type": "string"}}}}
"""The query of one object."""


def query_of(filters: Filters, sort_keys: Mapping[str, str]) -> Schema:
    """Return the schema of a list's query, for the OpenAPI document."""
    texts = ("fields", "limit", "marker", "page_reverse", *filters)
    schemas: dict[str, Schema] = {name: {"type": "string"} for name in texts}
    schemas |= {"sort_key": {"enum": list(sort_keys)}, "sort_dir": {"enum": ["asc", "desc"]}}
    properties = {name: {"type": "array", "items": schema} for name, schema in schemas.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def fields_of(request: Request) -> frozenset[str]:
    """Return the names in ``fields``."""
    return frozenset(name for given in request.query_params.getlist("fields") for name in given.split(",") if name)


def page_links(request: Request, query: Query, ids: list[str], url: str) -> list[dict[str, str]]:
    """Return the links to the next and previous page as in Neutron; none without a limit."""
    if not query.page.asked:
        return []
    whole, kept = len(ids) >= query.page.limit, _others(request)
    links = []
    if whole or query.backwards:
        marker = [("marker", ids[-1])] if ids else []
        links.append({"rel": "next", "href": f"{url}?{urlencode([*kept, *marker])}"})
    if whole or not query.backwards:
        marker = [("marker", ids[0])] if ids else []
        links.append({"rel": "previous", "href": f"{url}?{urlencode([*kept, *marker, ('page_reverse', 'True')])}"})
    return links


def _others(request: Request) -> list[tuple[str, str]]:
    parts = request.query_params.lists()
    return [(name, value) for name, values in parts if name not in {"marker", "page_reverse"} for value in values]


def read_query(request: Request, filters: Filters, sort_keys: Mapping[str, str]) -> Query:
    """Read a list's query. Raises InvalidInputError for an unknown filter, sort key or page."""
    conditions: dict[str, list[object]] = {}
    made_conditions: list[Q] = []
    for name, values in request.query_params.lists():
        if any("\0" in value for value in values):
            msg = f"Invalid input for {name[:80]!r}. Reason: it has a NUL character in it."
            raise InvalidInputError(msg, field=name[:80])
        if name in NOT_FILTERS:
            continue
        for filter_name, wanted_values in _parts(name, values):
            column = filters.get(filter_name)
            if isinstance(column, Made):
                made_conditions.append(column.make(wanted_values))
            else:
                _condition(filter_name, wanted_values, filters, conditions)
    page = read_page(request)
    backwards = request.query_params.get("page_reverse", "").lower() in {"true", "1"}
    names, ways = request.query_params.getlist("sort_key"), request.query_params.getlist("sort_dir")
    if len(ways) > len(names):
        raise InvalidInputError("The number of sort_keys and sort_dirs must be same", field="sort_dir")
    sort = read_sort(names, ways, sort_keys, SORT_ERRORS)
    wanted: list[tuple[str, object]] = [(f"{lookup}__in", values) for lookup, values in conditions.items()]
    wanted += [("condition", made) for made in made_conditions]
    part = Part(wanted, sort, page.limit, page.marker, backwards=backwards)
    return Query(part, page, backwards, fields_of(request))


def _parts(name: str, values: list[str]) -> list[tuple[str, list[str]]]:
    """Return the filters in a parameter: ``fixed_ips=ip_address=…`` contains another filter in its value."""
    if name != "fixed_ips":
        return [(name, values)]
    parts = [value.partition("=") for value in values]
    return [(f"fixed_ips:{kind}", [wanted]) for kind, _, wanted in parts]


def _condition(name: str, values: list[str], filters: Filters, conditions: dict[str, list[object]]) -> None:
    column = filters.get(name)
    if column is None or isinstance(column, Made):
        raise InvalidInputError(f"['{name[:80]}'] is invalid attribute for filtering", field=name[:80])
    wanted_values = [column.read(value) for value in values]
    if isinstance(column, Column):
        conditions.setdefault(column.lookup, []).extend(wanted_values)
    elif column.value not in wanted_values:
        conditions["pk"] = []
