"""Kinds of values in Keystone's format."""

from typing import Any

from portal.api.common.validation import Schema
from portal.api.frame.kinds import Checked
from provisioning.identity.models import LONG

_TEXT: Schema = {"type": "string", "minLength": 1}


def hexadecimal(key: Any) -> str:
    """Return an id as Keystone writes it: 32 hexadecimal characters, or the text of a domain's or region's id."""
    return key if isinstance(key, str) else str(key.hex)


def _or_empty(text: str | None) -> str:
    return text or ""


def reference(longest: int = 64, *, null: bool = False) -> Checked:
    """Return a kind for the id of a record, which a body may have in any form."""
    schema = _TEXT | {"maxLength": longest}
    return Checked(schema | ({"type": ["string", "null"]} if null else {}), writer=hexadecimal)


KEY = reference()
KEY_OR_NULL = reference(null=True)
NAME = Checked(_TEXT | {"maxLength": 64, "pattern": r"\S"})
LONG_NAME = Checked(_TEXT | {"maxLength": LONG, "pattern": r"\S"})
TEXT = Checked({"type": ["string", "null"], "maxLength": 65_535}, _or_empty)
"""A description; null in a body is an empty one."""
SHORT_TEXT = Checked({"type": ["string", "null"], "maxLength": LONG}, _or_empty)
FLAG = Checked({"type": "boolean"})
IMMUTABLE = Checked(
    {
        "type": "object",
        "properties": {"immutable": {"type": ["boolean", "null"]}},
        "additionalProperties": False,
    }
)
"""The options of domains, projects and roles."""
