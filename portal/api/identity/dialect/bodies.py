"""Parts of requests and answers of the Identity API v3: ids, additional attributes, times, links, names, queries."""

from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from oslo_utils import strutils
from rest_framework.request import Request

from portal.api.common import links
from portal.api.common.validation import Schema
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Domain, Project, Role, User

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


Shape = dict[str, Any]


def hexadecimal(key: Any) -> str:
    """Return an id as Keystone writes it: 32 hexadecimal characters, or the text of a domain's or region's id."""
    return key if isinstance(key, str) else str(key.hex)


def time_of(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_without_zone(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000`` in UTC, the format in which Keystone writes times of its database."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def expiry(user: User) -> str | None:
    """Return the time at which the password expires, as ``2026-01-31T12:00:00.000000`` in UTC; None if it does not."""
    if user.password_expires_at is None or user.options.get("ignore_password_expiry") is True:
        return None
    return time_without_zone(user.password_expires_at)


def self_link(request: Request, path: str) -> Shape:
    """Return the links of one object; ``path`` begins after ``/v3``."""
    return {"self": links.endpoint(request, "identity") + path}


def own_path(request: Request) -> str:
    """Return the path of the request after ``/v3``, with UUIDs as 32 hexadecimal characters."""
    segments = request.path.partition("/v3")[2].rstrip("/").split("/")
    return "/".join(key.hex if (key := read_id(each)) else each for each in segments)


def listing(request: Request, name: str, items: Iterable[Shape], path: str) -> Shape:
    return {name: list(items), "links": {"next": None, "previous": None, **self_link(request, path)}}


def list_links(request: Request, path: str, following: str | None = None) -> Shape:
    """Return the links of a list; ``path`` begins after ``/v3``, ``following`` is the query of the next page."""
    address = links.endpoint(request, "identity") + path
    query = request.META.get("QUERY_STRING", "")
    return {
        "self": f"{address}?{query}" if query else address,
        "previous": None,
        "next": f"{address}?{following}" if following else None,
    }


def named(record: Domain | Role) -> Shape:
    """Return id and name, as in tokens; a role's id is 32 hexadecimal characters."""
    return {"id": record.id if isinstance(record, Domain) else record.id.hex, "name": record.name}


def named_in_domain(record: User | Project) -> Shape:
    """Return id, name and domain, as in tokens."""
    return {"id": record.id.hex, "name": record.name, "domain": named(record.domain)}


def parameters(schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema of a query whose parameters are optional and repeatable; unknown ones are ignored."""
    return {"type": "object", "properties": {name: {"type": "array", "items": one} for name, one in schemas.items()}}


def boolean(name: str, text: str) -> bool:
    """Return the boolean in the text; empty is true, as in Keystone. Raises InvalidInputError."""
    try:
        return not text or bool(strutils.bool_from_string(text, strict=True))
    except ValueError as error:
        raise InvalidInputError(f"{name} must be true or false.", field=name) from error


def flag(request: Request, name: str) -> bool:
    """Whether the query has this parameter with a value other than false."""
    return name in request.query_params and boolean(name, request.query_params[name])
