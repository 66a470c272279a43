"""``MaxResults`` and ``NextToken``."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call

MOST = 1000
Item = TypeVar("Item")
Place = tuple[str, str]
"""Where an item stands in the order: a text to sort by, and an id."""


def page(call: Call, items: Sequence[Item], place: Callable[[Item], Place]) -> tuple[list[Item], str | None]:
    """Return the items of the page that is asked for, in order, and the token of the next one or None.

    The token says behind which item it begins, so that what comes and goes meanwhile moves no other item.
    Raises Ec2Error.
    """
    most, token = call.get("MaxResults"), call.get("NextToken")
    if most is not None and not 1 <= most <= MOST:
        raise errors.invalid_value("maxResults", most, f"Expecting 1 to {MOST}.")
    ordered = sorted(items, key=place)
    if token:
        after = _read(token)
        ordered = [item for item in ordered if place(item) > after]
    if most is None or len(ordered) <= most:
        return ordered, None
    return ordered[:most], _written(place(ordered[most - 1]))


def _written(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _read(token: str) -> Place:
    try:
        found: Any = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
        text, ident = found
    except (ValueError, TypeError, binascii.Error, RecursionError, UnicodeError) as error:
        raise errors.invalid_value("nextToken", token) from error
    if not isinstance(text, str) or not isinstance(ident, str):
        raise errors.invalid_value("nextToken", token)
    return text, ident
