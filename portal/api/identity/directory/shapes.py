"""Domains, projects, users and groups in the format of the Identity API v3; ids are 32 hexadecimal characters."""

from rest_framework.request import Request

from portal.api.identity import fragments
from provisioning.identity.models import Domain, Group, Project, User


def domain(request: Request, record: Domain) -> fragments.Shape:
    return {
        "tags": [],
        "options": {},
        **record.extra,
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
        "links": fragments.self_link(request, f"/domains/{record.id}"),
    }


def domain_as_project(request: Request, record: Domain) -> fragments.Shape:
    own = {"domain_id": None, "parent_id": None, "is_domain": True}
    return {**domain(request, record), **own, "links": fragments.self_link(request, f"/projects/{record.id}")}


def project(request: Request, record: Project) -> fragments.Shape:
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
        "links": fragments.self_link(request, f"/projects/{record.id.hex}"),
    }


def user(request: Request, record: User) -> fragments.Shape:
    shape: fragments.Shape = {
        **record.extra,
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "enabled": record.enabled,
        "password_expires_at": fragments.expiry(record),
        "options": record.options,
        "links": fragments.self_link(request, f"/users/{record.id.hex}"),
    }
    if record.description:
        shape["description"] = record.description
    if record.email:
        shape["email"] = record.email
    if record.default_project_id is not None:
        shape["default_project_id"] = record.default_project_id.hex
    return shape


def group(request: Request, record: Group) -> fragments.Shape:
    return {
        **record.extra,
        "id": record.id.hex,
        "name": record.name,
        "domain_id": record.domain_id,
        "description": record.description,
        "links": fragments.self_link(request, f"/groups/{record.id.hex}"),
    }
