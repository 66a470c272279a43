"""Neutron's query strings: filters on attributes, ``fields``, sorting by several keys, and pages behind a marker."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request

from portal.api.common.paging import Page, read_page
from portal.api.common.sorting import SortErrors, read_sort
from portal.api.common.validation import Schema
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.common.listing import Part

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
    """Read a whole number; what is none matches nothing."""
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdigit() and len(value) < 10 else -2


def boolean(value: str) -> object:
    """Read Neutron's spellings of yes and no."""
    known = {"true": True, "1": True, "false": False, "0": False}.get(value.lower())
    if known is None:
        raise InvalidInputError(f"'{value[:80]}' cannot be converted to boolean.")
    return known


def address(value: str) -> object:
    """Read an address in its usual form; what is none matches nothing."""
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute that can be filtered by: Django's lookup and how a value is read."""

    lookup: str
    read: Read = text


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute with the same value in every row: a filter on it matches every row or none."""

    value: object
    read: Read = text


Filters = Mapping[str, Column | Constant]


@dataclass(frozen=True, slots=True)
class Query:
    """A query string, read."""

    part: Part
    page: Page
    fields: frozenset[str]

    def cut(self, shape: dict[str, Any]) -> dict[str, Any]:
        """Return only the fields that were asked for; all of them when none were."""
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


def read_query(request: Request, filters: Filters, sort_keys: Mapping[str, str]) -> Query:
    """Read a list's query; InvalidInputError for a filter, a sort key or a page that does not exist."""
    conditions: dict[str, list[object]] = {}
    for name, values in request.query_params.lists():
        if name in NOT_FILTERS:
            continue
        _condition(name, values, filters, conditions)
    page = read_page(request)
    backwards = request.query_params.get("page_reverse", "").lower() in {"true", "1"}
    names, ways = request.query_params.getlist("sort_key"), request.query_params.getlist("sort_dir")
    if len(ways) > len(names):
        raise InvalidInputError("The number of sort_keys and sort_dirs must be same", field="sort_dir")
    sort = read_sort(names, ways, sort_keys, SORT_ERRORS)
    wanted = [(f"{lookup}__in", values) for lookup, values in conditions.items()]
    part = Part(wanted, sort, page.limit, page.marker, backwards=backwards)
    return Query(part, page, fields_of(request))


def _condition(name: str, values: list[str], filters: Filters, conditions: dict[str, list[object]]) -> None:
    if name == "fixed_ips":
        for value in values:
            kind, _, wanted = value.partition("=")
            _condition(f"fixed_ips:{kind}", [wanted], filters, conditions)
        return
    column = filters.get(name)
    if column is None:
        raise InvalidInputError(f"['{name[:80]}'] is invalid attribute for filtering", field=name[:80])
    wanted_values = [column.read(value) for value in values]
    if isinstance(column, Column):
        conditions.setdefault(column.lookup, []).extend(wanted_values)
    elif column.value not in wanted_values:
        conditions["pk"] = []
