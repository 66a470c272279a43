"""Glance's query strings: filters with operators, both forms of sorting, and paging."""

import csv
import datetime
import re
from functools import partial

from django.http import QueryDict
from rest_framework.request import Request

from portal.api.frame import Filter, Filtering, Json, Pages, Sorting, Values, identity
from provisioning.common.errors import InvalidInputError
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors import NEWEST_FIRST, SORT_KEYS
from provisioning.images.selectors.lists import NUMBERS

SORT_COLUMNS = {name: name for name in sorted(SORT_KEYS)}
SORTING = Sorting(
    unknown_key="Invalid sort key: {key}. It must be one of the following: {known}.",
    unknown_way="Invalid sort direction: {way}",
    mismatch="Number of sort dirs does not match the number of sort keys",
    exact=True,
    too_many="A list can be sorted by at most {most} keys.",
    joined="Old and new sorting syntax cannot be combined",
    without=[each.key for each in NEWEST_FIRST],
    way="desc",
    first_for_all=True,
)
"""More keys than exist are rejected: the condition of a page grows with the square of their number."""
ONE_KEY = Sorting(
    unknown_key="Sort key {key!r} is not supported.",
    unknown_way="Invalid sort direction: {way}",
    once=True,
    without=("created_at",),
    way="desc",
)
"""Lists of tasks and metadata definitions."""
LISTS = ("name", "status", "disk_format", "container_format", "id")
"""Filters that accept ``in:`` with several values."""
COMPARISONS = ("gt", "gte", "eq", "neq", "lt", "lte")
"""Glance's comparisons of times."""
MOST_FILTERS = 50
"""Maximum number of tags, additional properties and times in the filters of one list, which limits the size of the
statement.
"""
MOST_VALUES = 1000
"""Maximum number of values after one ``in:``."""
DAYS = datetime.timedelta(days=2)
"""Margin at both ends of the valid times, for comparisons and time zones."""


class ImagePages(Pages):
    """Pages with Glance's limits: a long number is the largest limit, and an empty marker is unknown."""

    def limit(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]+", text, re.ASCII):
            raise InvalidInputError("limit param must be an integer", field="limit")
        if text.startswith("-"):
            raise InvalidInputError("limit param must be positive", field="limit")
        return int(text) if len(text) < 10 else self.largest

    def marker(self, params: QueryDict) -> str | None:
        return params.get("marker")


LIST_PAGES = ImagePages(usual=100, zero_is_none=True)


def read_filters(request: Request) -> Json:
    """Return the filters for ``images.selectors.images_for``. Raises InvalidInputError with the name of an invalid
    filter.
    """
    filters: Values = {}
    for each, value in FILTERING.read(request.query_params.lists(), FILTERS):
        if each.lookup == "times":
            filters.setdefault("times", []).append((each.name, *value))
        elif each.lookup == "properties":
            filters.setdefault("properties", {})[each.name] = value
        else:
            filters[each.lookup] = value
    if sum(len(filters.get(name, ())) for name in ("tags", "times", "properties")) > MOST_FILTERS:
        msg = f"A list can be filtered by at most {MOST_FILTERS} tags, times and additional properties."
        raise InvalidInputError(msg)
    return filters


def _values(name: str, value: str) -> list[object]:
    """Read one value, or several after ``in:``; a value that contains a comma is in double quotes."""
    operator, separator, rest = value.partition(":")
    texts = [value]
    if separator and operator == "in":
        try:
            texts = next(csv.reader([rest], strict=True), [])
        except csv.Error:
            msg = f"Invalid filter value {value[:80]}. The quote is not closed."
            raise InvalidInputError(msg, field=name) from None
    elif separator and operator == "eq":
        texts = [rest]
    elif separator and operator in COMPARISONS:
        raise InvalidInputError(f"Unable to filter by unknown operator '{operator}'.", field=name)
    if len(texts) > MOST_VALUES:
        raise InvalidInputError(f"The filter {name} has more than {MOST_VALUES} values.", field=name)
    return [identity(text) for text in texts] if name == "id" else list(texts)


def _time(name: str, value: str) -> tuple[str, datetime.datetime]:
    """Read ``gte:2026-01-01T00:00:00Z`` in whole seconds; without an operator the time itself."""
    comparison, separator, rest = value.partition(":")
    if not separator or comparison not in COMPARISONS:
        comparison, rest = "eq", value
    try:
        moment = datetime.datetime.fromisoformat(rest).replace(microsecond=0)
        moment = moment.astimezone(datetime.UTC) if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        _ = moment - DAYS, moment + DAYS
    except (ValueError, OverflowError):
        msg = f'Bad "{name}" query filter format. Use ISO 8601 DateTime notation.'
        raise InvalidInputError(msg, field=name) from None
    return comparison, moment


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        msg = f"Unable to filter on a range with a non-numeric value: {name} is {value[:80]!r}."
        raise InvalidInputError(msg, field=name)
    return int(value)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        msg = (
            f"Invalid value '{value[:80]}' for '{name}' filter. Valid values are case-insensitively 'true' or 'false'."
        )
        raise InvalidInputError(msg, field=name)
    return value.lower() == "true"


def _visibility(value: str) -> str:
    if value not in {*Image.Visibility.values, "all"}:
        raise InvalidInputError(f"Invalid visibility value: {value[:80]}", field="visibility")
    return value


def _member_status(value: str) -> str:
    if value not in {*ImageMember.Status.values, "all"}:
        raise InvalidInputError(f"Invalid status: {value[:80]}", field="member_status")
    return value


def _changes_since(_value: str) -> object:
    raise InvalidInputError('The "changes-since" filter is no longer available on v2.', field="changes-since")


FILTERS = (
    *(Filter(name, read=partial(_values, name)) for name in LISTS),
    *(Filter(name, "times", partial(_time, name)) for name in ("created_at", "updated_at")),
    Filter("tag", "tags", str.strip, every_value=True),
    Filter("visibility", read=_visibility),
    Filter("owner", read=identity),
    Filter("protected", read=partial(_boolean, "protected")),
    Filter("os_hidden", "hidden", partial(_boolean, "os_hidden")),
    Filter("member_status", read=_member_status),
    Filter("changes-since", read=_changes_since),
    *map(Filter, ("checksum", "os_hash_algo", "os_hash_value")),
    *(Filter(name, read=partial(_number, name)) for each in NUMBERS for name in (each, f"{each}_min", f"{each}_max")),
)
FILTERING = Filtering(
    besides=frozenset({"limit", "marker", "sort", "sort_key", "sort_dir"}),
    undeclared=lambda name: Filter(name, "properties"),
)
"""A parameter that is not declared filters by the additional property of that name."""
