"""Neutron's query strings: filters on attributes, ``fields``, several sort keys, and marker paging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q
from rest_framework.request import Request

from portal.api.frame import TEXT, Filter, Filtering, Json, Page, Pages, Schema, Sorting, schemas_of, truth
from provisioning.common.lists.listing import NOTHING, Part
from provisioning.network import addressing

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


def constant(name: str, *, value: bool) -> Filter:
    """Return the filter of an attribute that has the same value in every row."""
    return Filter(name, read=boolean, condition=lambda values: Q() if value in values else NOTHING)


class NetworkFiltering(Filtering):
    """Neutron's filters: ``fixed_ips=ip_address=…`` contains another filter in its value."""

    def parts(self, name: str, values: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
        if name != "fixed_ips":
            return super().parts(name, values)
        pairs = [value.partition("=") for value in values]
        return [(f"fixed_ips:{kind}", [value]) for kind, _, value in pairs]


FILTERING = NetworkFiltering(
    besides=frozenset({"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}),
    every_value=True,
    unknown="['{first}'] is invalid attribute for filtering",
    nul="Invalid input for {name!r}. Reason: it has a NUL character in it.",
)


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


def query_of(filters: Sequence[Filter], sort_keys: Mapping[str, str]) -> Schema:
    """Return the schema of a list's query, for the OpenAPI document."""
    schemas: dict[str, Schema] = dict.fromkeys(("fields", "limit", "marker", "page_reverse"), TEXT)
    schemas |= schemas_of(filters)
    schemas |= {"sort_key": {"enum": list(sort_keys)}, "sort_dir": {"enum": ["asc", "desc"]}}
    properties = {name: {"type": "array", "items": schema} for name, schema in schemas.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def fields_of(request: Request) -> frozenset[str]:
    """Return the names in ``fields``."""
    return frozenset(name for text in request.query_params.getlist("fields") for name in text.split(",") if name)


def read_query(request: Request, filters: Sequence[Filter], sort_keys: Mapping[str, str]) -> Query:
    """Read a list's query; values of filters on the same column are alternatives.

    Raises InvalidInputError for an unknown filter, sort key or page.
    """
    compared: dict[str, list[object]] = {}
    conditions: list[Q] = []
    for each, values in FILTERING.read(request.query_params.lists(), filters):
        if each.condition:
            conditions.append(each.condition(values))
        else:
            compared.setdefault(each.lookup, []).extend(values)
    page, sort = PAGES.read(request), SORTING.read(request.query_params, sort_keys)
    requested: list[tuple[str, object]] = [(f"{lookup}__in", values) for lookup, values in compared.items()]
    requested += [("condition", condition) for condition in conditions]
    part = Part(requested, sort, page.limit, page.marker, backwards=page.backwards)
    return Query(part, page, fields_of(request))
