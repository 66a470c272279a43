"""Schema fragments shared by several resources."""

from oslo_utils import strutils
from rest_framework.request import Request

from portal.api.frame import Json, Schema
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER

_CLEAN = r"^[^\x00]*\Z"
NAME: Schema = {"type": ["string", "null"], "maxLength": 255, "pattern": _CLEAN}
"""A name or a description, which may be null."""
NEW_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?=.*\S)[^\x00-\x1f\x7f]*\Z"}
"""A name that is not blank, e.g. of a type or QoS spec."""
TEXT: Schema = {"type": "string", "maxLength": 255, "pattern": _CLEAN}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _CLEAN}
ID_OR_NULL: Schema = {"type": ["string", "null"], "maxLength": 255, "pattern": _CLEAN}
UUID: Schema = {"type": "string", "format": "uuid"}
METADATA: Schema = {
    "type": "object",
    "patternProperties": {r"^[^\x00]{1,255}\Z": TEXT},
    "additionalProperties": False,
}
"""Text keys and values."""
SPECS: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9_.:\- ]{1,255}\Z": TEXT},
    "additionalProperties": False,
}
"""Extra specs, group specs and QoS specs, with restricted keys."""
# fmt: off
BOOLEAN: Schema = {
    "enum": [
        True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t",
        False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f",
    ]
}
# fmt: on
"""The values that Cinder accepts as booleans."""
SIZE: Schema = {"type": ["integer", "string"], "pattern": r"^[0-9]{1,10}\Z", "minimum": 1, "maximum": MAX_INTEGER}
"""GiB, at least 1."""
LIMIT: Schema = {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,10}\Z", "minimum": -1, "maximum": MAX_INTEGER}
"""A quota; -1 is unlimited."""
EMPTY: Schema = {"type": ["object", "null", "string"]}
"""The argument of an action without one."""


def boolean(value: object) -> bool:
    """Read one of the values of ``BOOLEAN``; the schema has rejected all others."""
    return bool(strutils.bool_from_string(value))


def asked_for(request: Request, name: str) -> bool:
    """Return a boolean of the query. Raises InvalidInputError for an invalid one."""
    word = request.query_params.get(name, "false").strip()
    if word not in BOOLEAN["enum"]:
        raise InvalidInputError(f"Invalid value {word[:64]!r} for {name}: it is true or false.", field=name)
    return boolean(word)


def of_metadata(name: str = "metadata", schema: Schema = METADATA) -> Schema:
    """Return the schema of a body with a map of texts: ``{"metadata": {…}}``."""
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


def text_of(values: Json, name: str) -> str:
    """Return a name or description of a body, stripped as in Cinder; null becomes empty."""
    return (values.get(name) or "").strip()


def texts_of(body: Json) -> dict[str, str | None]:
    """Return the name and description of an update, also from their older names; None for unchanged."""
    result: dict[str, str | None] = {}
    for column in ("name", "description"):
        named = next((name for name in (column, f"display_{column}") if name in body), None)
        result[column] = None if named is None else text_of(body, named)
    return result
