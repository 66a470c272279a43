"""Glance's query strings: filters with operators, sorting in both its forms, paging."""

from __future__ import annotations

import csv
import datetime
from typing import Any

from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.common.ordering import Sort
from provisioning.images.models import Image
from provisioning.images.selectors import NEWEST_FIRST, NOBODY, SORT_KEYS, TIMES

NOT_FILTERS = {"limit", "marker", "sort", "sort_key", "sort_dir", "member_status"}
"""``member_status`` changes nothing: images have no members."""
LISTS = {"name", "status", "disk_format", "container_format", "id"}
"""Filters that take ``in:`` with several values."""


def read_filters(request: Request) -> dict[str, Any]:
    """Return the filters for ``images.selectors.images_for``; InvalidInputError names what cannot be read."""
    filters: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for name, values in request.query_params.lists():
        value = values[-1]
        if name in NOT_FILTERS:
            continue
        if name in LISTS:
            filters[name] = _values(name, value)
        elif name in {"created_at", "updated_at"}:
            filters.setdefault("times", []).append((name, *_time(name, value)))
        elif name == "tag":
            filters["tags"] = values
        elif name in _READERS:
            key, read = _READERS[name]
            filters[key] = read(name, value)
        else:
            properties[name] = value
    if properties:
        filters["properties"] = properties
    return filters


def read_sort(request: Request) -> tuple[Sort, ...]:
    """Return the order asked for: ``sort=name:asc,size``, or ``sort_key`` with ``sort_dir``; newest first otherwise."""
    given = request.query_params
    names, ways = given.getlist("sort_key"), given.getlist("sort_dir")
    if "sort" in given:
        if names or ways:
            msg = "Old and new sorting syntax cannot be combined"
            raise InvalidInputError(msg, field="sort")
        pairs = [part.strip().partition(":") for part in given["sort"].split(",")]
        return tuple(_sort(name, way or "desc") for name, _, way in pairs)
    if not names:
        return tuple(Sort(part.key, descending=(ways or ["desc"])[0] != "asc") for part in NEWEST_FIRST)
    if len(ways) > 1 and len(ways) != len(names):
        msg = "Number of sort dirs does not match the number of sort keys"
        raise InvalidInputError(msg, field="sort_dir")
    return tuple(
        _sort(name, ways[index] if len(ways) > 1 else (ways or ["desc"])[0]) for index, name in enumerate(names)
    )


def _sort(name: str, way: str) -> Sort:
    if name not in SORT_KEYS:
        msg = f"Invalid sort key: {name[:80]}. It must be one of the following: {', '.join(sorted(SORT_KEYS))}."
        raise InvalidInputError(msg, field="sort_key")
    if way not in {"asc", "desc"}:
        msg = f"Invalid sort direction: {way[:80]}"
        raise InvalidInputError(msg, field="sort_dir")
    return Sort(name, descending=way == "desc")


def _values(name: str, value: str) -> list[object]:
    """Read one value, or several behind ``in:``; a value with a comma stands in double quotes."""
    texts = [value]
    if value.startswith("in:"):
        try:
            texts = next(csv.reader([value.removeprefix("in:")], strict=True), [])
        except csv.Error:
            msg = f"Invalid filter value {value[:80]}. The quote is not closed."
            raise InvalidInputError(msg, field=name) from None
    return [read_id(text) or NOBODY for text in texts] if name == "id" else list(texts)


def _time(name: str, value: str) -> tuple[str, datetime.datetime]:
    """Read ``gte:2026-01-01T00:00:00Z``; without an operator the time itself."""
    comparison, separator, rest = value.partition(":")
    if not separator or comparison not in TIMES:
        comparison, rest = "eq", value
    try:
        moment = datetime.datetime.fromisoformat(rest)
    except ValueError:
        msg = f"Filter {name} is not a time in ISO 8601: {value[:80]}"
        raise InvalidInputError(msg, field=name) from None
    return comparison, moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _size(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        msg = f"Size filter {name} must be a whole number from 0: {value[:80]}"
        raise InvalidInputError(msg, field=name)
    return int(value)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        msg = (
            f"Invalid value '{value[:80]}' for '{name}' filter. Valid values are case-insensitively 'true' or 'false'."
        )
        raise InvalidInputError(msg, field=name)
    return value.lower() == "true"


def _visibility(name: str, value: str) -> str:
    if value not in {*Image.Visibility.values, "all"}:
        msg = f"Invalid visibility value: {value[:80]}"
        raise InvalidInputError(msg, field=name)
    return value


def _owner(_name: str, value: str) -> object:
    return read_id(value) or NOBODY


_READERS: dict[str, Any] = {
    "visibility": ("visibility", _visibility),
    "owner": ("owner", _owner),
    "protected": ("protected", _boolean),
    "os_hidden": ("hidden", _boolean),
    "size_min": ("size_min", _size),
    "size_max": ("size_max", _size),
}
"""Query parameter → the selector's name and how it is read."""
