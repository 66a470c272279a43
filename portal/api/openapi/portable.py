"""Conversion of schemas for other programs: the patterns in our schemas are Python's regular expressions, the patterns
in an OpenAPI document are JavaScript's.
"""

from typing import Any

_OTHERS = {r"\Z": "$", r"\A": "^"}


def portable(schema: Any) -> Any:
    """Return a copy with portable patterns, and lists instead of tuples."""
    if isinstance(schema, dict):
        return {name: _keyword(name, value) for name, value in schema.items()}
    return [portable(item) for item in schema] if isinstance(schema, list | tuple) else schema


def _keyword(name: str, value: Any) -> Any:
    if name == "pattern" and isinstance(value, str):
        return _pattern(value)
    if name == "patternProperties" and isinstance(value, dict):
        return {_pattern(pattern): portable(schema) for pattern, schema in value.items()}
    return portable(value)


def _pattern(text: str) -> str:
    for ours, theirs in _OTHERS.items():
        text = text.replace(ours, theirs)
    return text
