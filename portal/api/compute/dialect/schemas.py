"""Schema fragments shared by several resources, and the queries of lists."""

import re
from collections.abc import Mapping
from typing import Any

from oslo_utils import strutils

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER

Schema = dict[str, Any]
Version = tuple[int, int]

POSITIVE: Schema = {"type": ["integer", "string"], "pattern": r"^[0-9]{1,10}\Z", "minimum": 1, "maximum": MAX_INTEGER}
NOT_NEGATIVE: Schema = POSITIVE | {"minimum": 0}
# fmt: off
BOOLEAN: Schema = {
    "enum": [
        True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
        False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no",
    ]
}
# fmt: on
"""The values that Nova accepts as booleans."""
TEXT: Schema = {"type": "string", "pattern": r"^[^\x00]*\Z"}
"""Text of a query, without NUL characters."""
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?!\s)[^\x00-\x1f\x7f]*(?<!\s)\Z"}
"""A name without leading or trailing blanks."""
HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*\Z"}
"""A host's name."""
COUNT: Schema = {"type": "string", "pattern": r"^[0-9]{1,10}\Z"}
"""A whole number from 0 in a query."""
PAGES: Schema = {"limit": COUNT, "marker": TEXT}
"""The query parameters of paging."""
STRICT_QUERIES = (2, 75)
"""From this version on an unknown parameter is rejected."""


def boolean(value: object) -> bool:
    """Read one of the values of ``BOOLEAN``; the schema has rejected all others."""
    return bool(strutils.bool_from_string(value))


SHARED_VOLUMES: Version = (2, 60)
"""From this version on clients may attach multiattach volumes."""


def body(
    name: str, properties: Mapping[str, Schema], required: tuple[str, ...] = (), *, others: bool = False
) -> Schema:
    """Return the schema of a body with one object: ``{name: {…}}``. With ``others``, unknown fields are ignored."""
    inner: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": others}
    if required:
        inner["required"] = list(required)
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": others}


def query(version: Version, parameters: Mapping[str, Schema]) -> Schema:
    """Return the schema of a query. Parameters may be repeated; unknown parameters are accepted only before 2.75."""
    properties = {name: {"type": "array", "items": schema} for name, schema in parameters.items()}
    return {"type": "object", "properties": properties, "additionalProperties": version < STRICT_QUERIES}


def last(found: Mapping[str, list[str]], name: str) -> str | None:
    """Return the last value of a parameter, as Nova does; None without one."""
    values = found.get(name)
    return values[-1] if values else None


_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def read_number(text: str) -> int:
    """Read an id in a path. As in Nova, raises InvalidInputError if it is not a whole number."""
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"Invalid input received: id must be a whole number, not {text[:64]!r}.")
    return int(text)
