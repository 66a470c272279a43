"""Kinds of values in Cinder's format."""

from typing import Any

from portal.api.frame.kinds import Checked
from portal.api.volume.dialect import schemas
from portal.api.volume.dialect.schemas import boolean
from portal.api.volume.dialect.times import timestamp


def _stripped(text: str | None) -> str:
    return (text or "").strip()


def _or_none(value: Any) -> Any:
    return value or None


NAME = Checked(schemas.NAME, _stripped)
"""A name or description without surrounding spaces; null in a body is an empty one."""
OPTIONAL = Checked(schemas.NAME, _stripped, _or_none)
"""The same, shown as null if it is empty."""
NEW_NAME = Checked(schemas.NEW_NAME, lambda text: None if text is None else text.strip())
TEXT = Checked(schemas.NAME)
"""Text as it is."""
ID = Checked(schemas.ID, writer=str)
ID_OR_NULL = Checked(schemas.ID_OR_NULL, lambda text: text or "", str)
"""An id; null in a body is an empty one."""
PROJECT = Checked(schemas.UUID, writer=lambda identity: identity.hex)
"""The id of a project or user, which Keystone writes without dashes."""
TIME = Checked(schemas.TEXT, writer=timestamp)
NUMBER = Checked({"type": "integer"})
BOOLEAN = Checked(schemas.BOOLEAN, boolean)
SPECS = Checked(schemas.SPECS)
METADATA = Checked(schemas.METADATA | {"type": ["object", "null"]}, lambda items: items or {})
"""Key-value pairs; null in a body is an empty object."""
