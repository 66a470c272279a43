"""JSON of what clients gave: PostgreSQL gives ``1e30`` back as a whole number, which orjson refuses."""

from typing import Any

import orjson

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1
"""Whole numbers that orjson writes."""


def encoded(value: Any) -> bytes:
    """Return the JSON; numbers beyond 64 bits are written as they came, ``1e+30``.  Raises orjson.JSONEncodeError."""
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
