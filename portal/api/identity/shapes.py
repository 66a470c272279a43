"""Records of identity as the Identity API v3 shows them; users and projects have ids of 32 hexadecimal characters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from portal.api.common import links
from provisioning.identity.models import Domain, Project, Role, RoleAssignment, User
from provisioning.identity.tokens import TokenData

Shape = dict[str, Any]


def time_of(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


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


def token(
    data: TokenData, user: User, project: Project | None, roles: Iterable[Role], catalog: list[Shape] | None
) -> Shape:
    """Return the body that describes a token; ``catalog`` is None when it was not asked for."""
    body: Shape = {
        "methods": list(data.methods),
        "user": named_in_domain(user) | {"password_expires_at": None},
        "audit_ids": data.audit_ids,
        "expires_at": time_of(data.expires_at),
        "issued_at": time_of(data.issued_at),
    }
    if project is not None:
        body |= {"project": named_in_domain(project), "is_domain": False, "roles": [named(role) for role in roles]}
        if catalog is not None:
            body["catalog"] = catalog
    return {"token": body}


def domain(request: Request, record: Domain) -> Shape:
    """Return a domain."""
    return {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
        "tags": [],
        "options": {},
        "links": self_link(request, f"/domains/{record.id}"),
    }


def project(request: Request, record: Project) -> Shape:
    """Return a project."""
    return {
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "description": record.description,
        "enabled": record.enabled,
        "parent_id": record.parent_id.hex if record.parent_id else record.domain_id,
        "is_domain": False,
        "tags": [tag.name for tag in record.tags.all()],
        "options": {},
        "links": self_link(request, f"/projects/{record.id.hex}"),
    }


def user(request: Request, record: User) -> Shape:
    """Return a user."""
    shape: Shape = {
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "enabled": record.enabled,
        "password_expires_at": None,
        "options": {},
        "links": self_link(request, f"/users/{record.id.hex}"),
    }
    if record.description:
        shape["description"] = record.description
    if record.email:
        shape["email"] = record.email
    if record.default_project_id is not None:
        shape["default_project_id"] = record.default_project_id.hex
    return shape


def role(request: Request, record: Role) -> Shape:
    """Return a role; roles belong to no domain."""
    return {
        **named(record),
        "domain_id": None,
        "description": record.description,
        "options": {},
        "links": self_link(request, f"/roles/{record.id.hex}"),
    }


def assignment(request: Request, record: RoleAssignment, *, names: bool) -> Shape:
    """Return a role assignment, with names when asked for."""
    if names:
        who: Shape = {
            "role": named(record.role),
            "user": named_in_domain(record.user),
            "scope": {"project": named_in_domain(record.project)},
        }
    else:
        who = {
            "role": {"id": record.role_id.hex},
            "user": {"id": record.user_id.hex},
            "scope": {"project": {"id": record.project_id.hex}},
        }
    path = f"/projects/{record.project_id.hex}/users/{record.user_id.hex}/roles/{record.role_id.hex}"
    return who | {"links": {"assignment": self_link(request, path)["self"]}}


def region(request: Request) -> Shape:
    """Return the one region."""
    return {
        "id": settings.REGION,
        "description": "",
        "parent_region_id": None,
        "links": self_link(request, f"/regions/{settings.REGION}"),
    }
