"""Neutron's query strings: filters on attributes, ``fields``, several sort keys, and marker paging."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db.models import Q
from rest_framework.request import Request

from portal.api.frame import Column, Json, Page, Pages, Schema, Sorting, check_no_nul, truth
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part
from provisioning.network import addressing

NOT_FILTERS = {"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}
PAGES = Pages(reverse="page_reverse", not_in_links=frozenset({"marker", "page_reverse"}))
UNSORTABLE = "['{key} {way}'] is invalid attribute for sort_keys"
SORTING = Sorting(
    unknown_key=UNSORTABLE,
    unknown_way=UNSORTABLE,
    way_field="sort_key",
    mismatch="The number of sort_keys and sort_dirs must be same",
)


def boolean(value: str) -> object:
    """Read a boolean in one of Neutron's spellings."""
    return truth(value, "true 1|false 0", "'{value}' cannot be converted to boolean.")


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
class Constant:
    """An attribute with the same value in every row: a filter on it matches every row or none."""

    value: object
    read: Callable[[str], object] = str


@dataclass(frozen=True, slots=True)
class BuiltFilter:
    """A filter that builds a condition from all its values."""

    make: Callable[[list[str]], Q]


Filters = Mapping[str, Column | Constant | BuiltFilter]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query string."""

    part: Part
    page: Page
    fields: frozenset[str]

    def cut(self, shape: Json) -> Json:
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
    return frozenset(name for text in request.query_params.getlist("fields") for name in text.split(",") if name)


def read_query(request: Request, filters: Filters, sort_keys: Mapping[str, str]) -> Query:
    """Read a list's query. Raises InvalidInputError for an unknown filter, sort key or page."""
    conditions: dict[str, list[object]] = {}
    made_conditions: list[Q] = []
    check_no_nul(request.query_params, "Invalid input for {name!r}. Reason: it has a NUL character in it.")
    for name, values in request.query_params.lists():
        if name in NOT_FILTERS:
            continue
        for filter_name, wanted_values in _parts(name, values):
            column = filters.get(filter_name)
            if isinstance(column, BuiltFilter):
                made_conditions.append(column.make(wanted_values))
            else:
                _condition(filter_name, wanted_values, filters, conditions)
    page, sort = PAGES.read(request), SORTING.read(request.query_params, sort_keys)
    requested: list[tuple[str, object]] = [(f"{lookup}__in", values) for lookup, values in conditions.items()]
    requested += [("condition", made) for made in made_conditions]
    part = Part(requested, sort, page.limit, page.marker, backwards=page.backwards)
    return Query(part, page, fields_of(request))


def _parts(name: str, values: list[str]) -> list[tuple[str, list[str]]]:
    """Return the filters in a parameter: ``fixed_ips=ip_address=…`` contains another filter in its value."""
    if name != "fixed_ips":
        return [(name, values)]
    parts = [value.partition("=") for value in values]
    return [(f"fixed_ips:{kind}", [value]) for kind, _, value in parts]


def _condition(name: str, values: list[str], filters: Filters, conditions: dict[str, list[object]]) -> None:
    column = filters.get(name)
    if column is None or isinstance(column, BuiltFilter):
        raise InvalidInputError(f"['{name[:80]}'] is invalid attribute for filtering", field=name[:80])
    wanted_values = [column.read(value) for value in values]
    if isinstance(column, Column):
        conditions.setdefault(column.lookup, []).extend(wanted_values)
    elif column.value not in wanted_values:
        conditions["pk"] = []
