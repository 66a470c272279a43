"""Parts of several responses of the Identity API v3: times, links, names, and the frame of a list."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from portal.api.common import links
from provisioning.common.ids import read_id
from provisioning.identity.models import Domain, Project, Role, User

Shape = dict[str, Any]


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
