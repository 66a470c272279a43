"""``Filter.N``: an item matches a filter if it matches one of the filter's values, and has to match all filters.

``*`` and ``?`` match any text and any character (EC2 user guide, "Filter your resources").
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import re2

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error

MOST_FILTERS = 50
MOST_VALUES = 200
Item = TypeVar("Item")
Reader = Callable[[Item], object]
"""Returns an item's value for a filter: one value, several values, or None."""
Tags = Callable[[Item], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Filterable(Generic[Item]):
    """The filters of a Describe action."""

    readers: Mapping[str, Reader[Item]]
    """Filter name → reader of the value to compare."""
    tags: Tags[Item] | None = None
    """For ``tag:<key>``, ``tag-key`` and ``tag-value``."""

    def passing(self, items: Iterable[Item], given: Sequence[Mapping[str, Any]]) -> list[Item]:
        """Return the items that match all filters. Raises Ec2Error for an unknown filter and for too many filters."""
        conditions = self.conditions(given)
        return [item for item in items if all(condition(item) for condition in conditions)]

    def conditions(self, given: Sequence[Mapping[str, Any]]) -> list[Callable[[Item], bool]]:
        """Return a condition for each filter."""
        if len(given) > MOST_FILTERS:
            raise Ec2Error("FilterLimitExceeded", f"A request may have {MOST_FILTERS} filters at most")
        if sum(len(each.get("Values", ())) for each in given) > MOST_VALUES:
            raise Ec2Error("FilterLimitExceeded", f"Filters may have {MOST_VALUES} values at most")
        return [self._condition(each) for each in given]

    def _condition(self, given: Mapping[str, Any]) -> Callable[[Item], bool]:
        name = given.get("Name")
        if not name:
            raise errors.missing_parameter("Filter.Name")
        values = given.get("Values", [])
        if not values:
            raise errors.invalid_value("Filter", name, "It has no values.")
        reader, matches = self._reader(name), _matcher(values)
        return lambda item: any(matches(text) for text in _texts(reader(item)))

    def _reader(self, name: str) -> Reader[Item]:
        if name in self.readers:
            return self.readers[name]
        tags = self.tags
        if tags is not None:
            if name.startswith("tag:"):
                key = name.removeprefix("tag:")
                return lambda item: tags(item).get(key)
            if name == "tag-key":
                return lambda item: list(tags(item))
            if name == "tag-value":
                return lambda item: list(tags(item).values())
        raise errors.invalid_value("Filter", name, f"The filter '{name[:120]}' is invalid")


def _matcher(values: Sequence[str]) -> Callable[[str], bool]:
    """Return a test against all values; patterns are matched in time linear in the text."""
    if not any(mark in value for value in values for mark in "*?\\"):
        return frozenset(values).__contains__
    pattern = "|".join(_regular(value) for value in values)
    try:
        compiled = re2.compile(pattern, _options())
    except re2.error as error:
        raise errors.invalid_value("Filter", ", ".join(values)) from error
    return lambda text: compiled.fullmatch(text) is not None


def _options() -> Any:
    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    return options


def _regular(value: str) -> str:
    parts, position = [], 0
    while position < len(value):
        mark = value[position]
        if mark == "\\" and position + 1 < len(value):
            position += 1
            parts.append(re.escape(value[position]))
        else:
            parts.append({"*": ".*", "?": "."}.get(mark) or re.escape(mark))
        position += 1
    return "(?:" + "".join(parts) + ")"


def _texts(found: object) -> Iterable[str]:
    if found is None:
        return ()
    if isinstance(found, list | tuple | set | frozenset):
        return [text for each in found for text in _texts(each)]
    if isinstance(found, bool):
        return ("true" if found else "false",)
    if isinstance(found, datetime):
        return (found.strftime("%Y-%m-%dT%H:%M:%S.000Z"),)
    return (str(found),)
