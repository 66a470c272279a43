"""``MaxResults`` and ``NextToken``.

Without ``MaxResults`` a response has at most 1,000 items and a token for the rest, as in AWS. A token contains the sort
key of the last item, so that concurrent changes do not shift later items.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import CharField, Model, QuerySet, TextField

from portal.api.ec2.frame import Call, errors
from provisioning.common.lists.listing import Sort, after

MOST = 1000
YEARS = range(1970, 9000)
Item = TypeVar("Item")
Place = tuple[str, ...]
"""The sort key of an item: texts, of which the last is an id."""


def page(call: Call, items: Sequence[Item], place: Callable[[Item], Place]) -> tuple[list[Item], str | None]:
    """Page items that have already been read, because they are few or the request specifies their ids.

    Raises Ec2Error.
    """
    most, behind = asked(call)
    ordered = sorted(items, key=place)
    if behind:
        ordered = [item for item in ordered if place(item) > behind]
    if len(ordered) <= most:
        return ordered, None
    return ordered[:most], written(place(ordered[most - 1]))


def asked(call: Call) -> tuple[int, Place | None]:
    """Return the size of the requested page, and the sort key that it begins after. Raises Ec2Error."""
    most, token = call.get("MaxResults"), call.get("NextToken")
    if most is not None and not 1 <= most <= MOST:
        raise errors.invalid_value("maxResults", most, f"Expecting 1 to {MOST}.")
    return most or MOST, _read(token) if token else None


def read(
    sources: Sequence[QuerySet[Any]], order: Sequence[str], behind: Place | None, size: int | None = None
) -> list[Any]:
    """Return the next rows of all sources after a sort key, at most ``size``.

    The database orders the rows of a source. The first columns of the order must distinguish rows of several sources,
    and must not be texts, because the order of texts depends on the database.
    """
    keys = [Sort(name, descending=False) for name in order]
    parts = [after(source, keys, _values(source, order, behind) if behind else None)[:size] for source in sources]
    if len(parts) == 1:
        return list(parts[0])
    return list(islice(merge(*parts, key=lambda row: place_of(row, order)), size))


def place_of(row: Model, order: Sequence[str]) -> Place:
    """Return the sort key of a row."""
    return tuple(_text(getattr(row, name)) for name in order)


def written(place: Place) -> str:
    """Return the token of the page after a sort key."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _values(rows: QuerySet[Any], order: Sequence[str], place: Place) -> dict[str, Any]:
    """Return the values of the columns in a sort key. Raises Ec2Error."""
    wrong = errors.invalid_value("nextToken", json.dumps(place))
    if len(place) != len(order):
        raise wrong
    values = {}
    for name, text in zip(order, place, strict=True):
        try:
            computed = rows.query.annotations.get(name)
            field: Any = computed.output_field if computed is not None else rows.model._meta.get_field(name)
            value = field.to_python(text)
        except ValidationError as error:
            raise wrong from error
        empty = value is None or (value == "" and not isinstance(field, CharField | TextField))
        if empty or "\0" in text or (isinstance(value, datetime) and value.year not in YEARS):
            raise wrong
        values[name] = value
    return values


def _text(value: Any) -> str:
    """Convert a value into text with the same order, for times, UUIDs and numbers within a launch."""
    if isinstance(value, int):
        return f"{value:010}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _read(token: str) -> Place:
    try:
        found: Any = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError, UnicodeError) as error:
        raise errors.invalid_value("nextToken", token) from error
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise errors.invalid_value("nextToken", token)
    return tuple(found)
