"""Pages of lists without a table: filtered, sorted and cut as ``listing`` does for rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part, Sort

Item = TypeVar("Item")
LAST = Sort("pk", descending=False)


def part_of(items: Iterable[Item], part: Part, no_marker: str = "Marker {marker} could not be found.") -> list[Item]:
    """Return a page of the items. Each item must have a ``pk``. Only lookups that end in ``__in`` are supported in
    ``part.filters``.

    Raises InvalidInputError for an unknown marker.
    """
    every = list(items)
    for key in reversed([*(part.sort or ()), LAST]):
        way = key if not part.backwards else replace(key, descending=not key.descending)
        every.sort(key=lambda item, key=way.key: _order(_value(item, key)), reverse=way.descending)  # type: ignore[misc]
    if part.marker is not None:
        every = every[_place(every, str(part.marker), no_marker) + 1 :]
    fit = [item for item in every if _fits(item, part)][: part.limit]
    return fit[::-1] if part.backwards else fit


def _value(item: object, lookup: str) -> Any:
    return attrgetter(lookup.replace("__", "."))(item)


def _order(value: Any) -> tuple[bool, Any]:
    """Return a sort key; empty values are last in ascending order."""
    return (value is None, "" if value is None else value)


def _fits(item: object, part: Part) -> bool:
    return all(_value(item, lookup.removesuffix("__in")) in requested for lookup, requested in part.filters)


def _place(items: Sequence[object], marker: str, no_marker: str) -> int:
    for place, item in enumerate(items):
        if str(_value(item, "pk")) == marker:
            return place
    raise InvalidInputError(no_marker.format(marker=marker[:64]), field="marker")
