"""``MaxResults`` and ``NextToken``.

Without ``MaxResults`` a response has at most 1,000 items and a token for the rest, as in AWS.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet

from portal.api.ec2 import names
from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call

MOST = 1000
BATCH = 200
"""Minimum number of rows that are read and filtered together."""
ORDER = ("created_at", "id")
YEARS = range(1970, 9000)
Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)
Place = tuple[str, ...]
"""The sort key of an item: texts, of which the last is an id."""
Shape = Callable[[list[Row]], Sequence[Item | None]]
"""Returns the representation of each row, or None for a hidden one."""


def described(
    call: Call,
    kind: names.Kind,
    given: Sequence[str],
    rows: QuerySet[Row],
    shape: Shape[Row, Item],
    filters: Filterable[Item],
    order: Sequence[str] = ORDER,
) -> tuple[list[Item], str | None]:
    """Return the items of the requested page, ordered by these columns, and the token of the next page or None.

    ``given``: the ids in the request; without ids, the database cuts the pages. Rows are read and filtered in batches
    until the page is full; rows that do not match are not read again for the next page. Raises Ec2Error.
    """
    conditions = filters.conditions(call.get("Filters", []))
    if given:
        chosen = names.fetched(kind, given, names.of_keys(rows), lambda row: row.pk)
        found = list(_passing(chosen, shape, conditions))
        items, token = page(call, found, lambda each: _place(each[0], order))
        return [item for _, item in items], token
    most, token = _asked(call)
    ordered, behind = rows.order_by(*order), _read(token) if token else None
    taken: list[tuple[Row, Item]] = []
    size = max(BATCH, most + 1) if conditions else most + 1
    while len(taken) <= most:
        left = ordered.filter(_behind(rows.model, order, behind)) if behind else ordered
        batch = list(left[:size])
        taken += _passing(batch, shape, conditions)
        if len(batch) < size:
            break
        behind = _place(batch[-1], order)
    if len(taken) <= most:
        return [item for _, item in taken], None
    return [item for _, item in taken[:most]], _written(_place(taken[most - 1][0], order))


def page(call: Call, items: Sequence[Item], place: Callable[[Item], Place]) -> tuple[list[Item], str | None]:
    """Page items that have already been read, because there are few or the request specifies their ids.

    The token contains the sort key of the last item, so that concurrent changes do not shift later items. Raises
    Ec2Error.
    """
    most, token = _asked(call)
    ordered = sorted(items, key=place)
    if token:
        after = _read(token)
        ordered = [item for item in ordered if place(item) > after]
    if len(ordered) <= most:
        return ordered, None
    return ordered[:most], _written(place(ordered[most - 1]))


def _asked(call: Call) -> tuple[int, str | None]:
    most = call.get("MaxResults")
    if most is not None and not 1 <= most <= MOST:
        raise errors.invalid_value("maxResults", most, f"Expecting 1 to {MOST}.")
    return most or MOST, call.get("NextToken")


def _passing(
    rows: list[Row], shape: Shape[Row, Item], conditions: Sequence[Callable[[Item], bool]]
) -> Iterator[tuple[Row, Item]]:
    for row, item in zip(rows, shape(rows), strict=True):
        if item is not None and all(condition(item) for condition in conditions):
            yield row, item


def _behind(model: type[Model], order: Sequence[str], place: Place) -> Q:
    """Return the condition for rows after a sort key."""
    wrong = errors.invalid_value("nextToken", json.dumps(place))
    if len(place) != len(order):
        raise wrong
    found, same = Q(pk__in=[]), Q()
    for name, text in zip(order, place, strict=True):
        try:
            field: Any = model._meta.get_field(name)
            value = field.to_python(text)
        except ValidationError as error:
            raise wrong from error
        if value in (None, "") or "\0" in text or (isinstance(value, datetime) and value.year not in YEARS):
            raise wrong
        found |= same & Q(**{f"{name}__gt": value})
        same &= Q(**{name: value})
    return found


def _place(row: Model, order: Sequence[str]) -> Place:
    return tuple(_text(getattr(row, name)) for name in order)


def _text(value: Any) -> str:
    """Convert a value into text with the same order, for times, UUIDs and numbers within a launch."""
    if isinstance(value, int):
        return f"{value:010}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _written(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _read(token: str) -> Place:
    try:
        found: Any = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError, UnicodeError) as error:
        raise errors.invalid_value("nextToken", token) from error
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise errors.invalid_value("nextToken", token)
    return tuple(found)
