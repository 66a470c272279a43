"""Records of identity as the Identity API v3 shows them; users and projects have ids of 32 hexadecimal characters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from portal.api.common import links
from provisioning.identity.models import Domain, Group, Project, Role, User

Shape = dict[str, Any]


def time_of(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def expiry(user: User) -> str | None:
    """Return when the password expires, as ``2026-01-31T12:00:00.000000`` in UTC; None: never."""
    if user.password_expires_at is None or user.options.get("ignore_password_expiry") is True:
        return None
    return user.password_expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def self_link(request: Request, path: str) -> Shape:
    """Return the links of one object; ``path`` begins after ``/v3``."""
    return {"self": links.endpoint(request, "identity") + path}


def listing(request: Request, name: str, items: Iterable[Shape], path: str) -> Shape:
    """Return a whole list under its name."""
    return {name: list(items), "links": {"next": None, "previous": None, **self_link(request, path)}}


def named(record: Domain | Role) -> Shape:
    """Return id and name, as in tokens; a role's id is 32 hexadecimal characters."""
    return {"id": record.id if isinstance(record, Domain) else record.id.hex, "name": record.name}


def named_in_domain(record: User | Project) -> Shape:
    """Return id, name and domain, as in tokens."""
    return {"id": record.id.hex, "name": record.name, "domain": named(record.domain)}


def domain(request: Request, record: Domain) -> Shape:
    """Return a domain."""
    return {
        "tags": [],
        "options": {},
        **record.extra,
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
        "links": self_link(request, f"/domains/{record.id}"),
    }


def domain_as_project(request: Request, record: Domain) -> Shape:
    """Return a domain in the shape of a project."""
    own = {"domain_id": None, "parent_id": None, "is_domain": True}
    return {**domain(request, record), **own, "links": self_link(request, f"/projects/{record.id}")}


def project(request: Request, record: Project) -> Shape:
    """Return a project."""
    return {
        "options": {},
        **record.extra,
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "description": record.description,
        "enabled": record.enabled,
        "parent_id": record.parent_id.hex if record.parent_id else record.domain_id,
        "is_domain": False,
        "tags": sorted(tag.name for tag in record.tags.all()),
        "links": self_link(request, f"/projects/{record.id.hex}"),
    }


def user(request: Request, record: User) -> Shape:
    """Return a user."""
    shape: Shape = {
        **record.extra,
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "enabled": record.enabled,
        "password_expires_at": expiry(record),
        "options": record.options,
        "links": self_link(request, f"/users/{record.id.hex}"),
    }
    if record.description:
        shape["description"] = record.description
    if record.email:
        shape["email"] = record.email
    if record.default_project_id is not None:
        shape["default_project_id"] = record.default_project_id.hex
    return shape


def group(request: Request, record: Group) -> Shape:
    """Return a group."""
    return {
        **record.extra,
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "description": record.description,
        "links": self_link(request, f"/groups/{record.id.hex}"),
    }
