"""Additional attributes and times in the bodies of requests."""

from collections.abc import Container, Mapping
from datetime import UTC, datetime
from typing import Any

from provisioning.common.errors import InvalidInputError

NEVER = frozenset({"original_password", "federated"})
"""Fields that have a meaning in other requests (a password change, federation). They are rejected here and never
stored.
"""
SHOWN = frozenset({"links", "password_expires_at"})
"""Fields of responses; they are ignored, so that clients can send a response back."""


def additional(body: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the additional fields of a body. Raises InvalidInputError for a field that cannot be set."""
    for name in body:
        if name in NEVER or not name.strip():
            raise InvalidInputError(f"Invalid input for field/attribute {name}. It cannot be set here.", field=name)
    return {name: value for name, value in body.items() if name not in known and name not in SHOWN}


def text(value: str | None) -> str:
    """Return the text; null becomes empty."""
    return value or ""


def moment(body: Mapping[str, Any], name: str) -> datetime | None:
    """Return the time of a field in ISO 8601, in UTC if it has no time zone. Raises InvalidInputError if it is
    malformed.
    """
    text = body.get(name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be like 2030-01-31T12:00:00Z.", field=name) from error
