"""JSON encoding of clients' values. PostgreSQL returns ``1e30`` as an integer, which orjson rejects."""

from typing import Any

import orjson

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1
"""Range of the integers that orjson encodes."""


def encoded(value: Any) -> bytes:
    """Return the JSON; integers beyond 64 bits are written as floats, ``1e+30``.

    Raises orjson.JSONEncodeError for a value that JSON cannot represent.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_with_floats(value))


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not SMALLEST <= value <= LARGEST else value
