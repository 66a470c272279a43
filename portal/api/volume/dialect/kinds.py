"""Kinds of values and times in Cinder's format."""

from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from portal.api.frame import Checked
from portal.api.volume.dialect import schemas
from provisioning.common.errors import InvalidInputError


def timestamp(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00.000000``, Cinder's format: UTC, without a time zone."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")[:26]


def read_time(value: str, name: str) -> datetime:
    """Return a time of the query, in UTC if it has no time zone. Raises InvalidInputError if it is malformed."""
    try:
        found = parse_datetime(value.replace(" ", "+") if "T" in value else value)
        if found is not None:
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(f"filters: {name} is invalid: {value[:64]!r} is not an ISO 8601 time.", field=name)


def _stripped(text: str | None) -> str:
    return (text or "").strip()


def _or_none(value: Any) -> Any:
    return value or None


NAME = Checked(schemas.NAME, _stripped)
"""A name or description without surrounding spaces; null in a body means an empty text."""
OPTIONAL = Checked(schemas.NAME, _stripped, _or_none)
"""A name or description without surrounding spaces, shown as null if it is empty."""
NEW_NAME = Checked(schemas.NEW_NAME, lambda text: None if text is None else text.strip())
TEXT = Checked(schemas.NAME)
"""Text, not converted."""
ID = Checked(schemas.ID, writer=str)
ID_OR_NULL = Checked(schemas.ID_OR_NULL, lambda text: text or "", str)
"""An id; null in a body means no id."""
PROJECT = Checked(schemas.UUID, writer=lambda identity: identity.hex)
"""The id of a project or user, which Keystone writes without dashes."""
TIME = Checked(schemas.TEXT, writer=timestamp)
NUMBER = Checked({"type": "integer"})
BOOLEAN = Checked(schemas.BOOLEAN, schemas.boolean)
SPECS = Checked(schemas.SPECS)
METADATA = Checked(schemas.METADATA | {"type": ["object", "null"]}, lambda items: items or {})
"""Key-value pairs; null in a body is an empty object."""
