"""Roles, implied roles and role assignments in the format of the Identity API v3."""

from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request

from portal.api.common import links
from portal.api.identity import fragments
from provisioning.identity.models import Role
from provisioning.identity.selectors.assignment_lists import Assignment, Names
from provisioning.identity.services.roles import is_immutable

Shape = dict[str, Any]


def role(request: Request, record: Role) -> Shape:
    """Return a role; built-in roles are shown as immutable, whatever their stored options."""
    options = {**record.options, "immutable": True} if is_immutable(record) else record.options
    return {
        **record.extra,
        **fragments.named(record),
        "domain_id": record.domain_id,
        "description": record.description,
        "options": options,
        "links": fragments.self_link(request, f"/roles/{record.id.hex}"),
    }


def _linked(request: Request, record: Role) -> Shape:
    return fragments.named(record) | {"links": fragments.self_link(request, f"/roles/{record.id.hex}")}


def inference(request: Request, prior: Role, implied: Role | Iterable[Role]) -> Shape:
    """Return the implied role, or the list of all roles implied directly."""
    one = isinstance(implied, Role)
    return {
        "prior_role": _linked(request, prior),
        "implies": _linked(request, implied)  # type: ignore[arg-type]
        if one
        else [_linked(request, each) for each in implied],  # type: ignore[union-attr]
    }


def assignment(request: Request, found: Assignment, names: Names | None) -> Shape:
    """Return a role assignment with links to its origin; ``names`` adds the names of its records."""
    shape: Shape = {"role": _role(found, names), "scope": _scope(found, names)}
    if found.user_id is not None:
        shape["user"] = fragments.named_in_domain(names.users[found.user_id]) if names else {"id": found.user_id.hex}
    elif found.group_id is not None:
        shape["group"] = _group(found, names)
    return shape | {"links": _links(request, found)}


def _role(found: Assignment, names: Names | None) -> Shape:
    if names is None:
        return {"id": found.role_id.hex}
    record = names.roles[found.role_id]
    domain = {"domain": fragments.named(record.domain)} if record.domain else {}
    return fragments.named(record) | domain


def _group(found: Assignment, names: Names | None) -> Shape:
    assert found.group_id is not None  # noqa: S101 - an assignment without a user has a group
    if names is None:
        return {"id": found.group_id.hex}
    record = names.groups[found.group_id]
    return {"id": record.id.hex, "name": record.name, "domain": fragments.named(record.domain)}


def _scope(found: Assignment, names: Names | None) -> Shape:
    scope: Shape
    if found.project_id is not None:
        project = names.projects[found.project_id] if names else None
        scope = {"project": fragments.named_in_domain(project) if project else {"id": found.project_id.hex}}
    elif found.domain_id is not None:
        domain = names.domains[found.domain_id] if names else None
        scope = {"domain": fragments.named(domain) if domain else {"id": found.domain_id}}
    else:
        scope = {"system": {"all": True}}
    if found.inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    return scope


def _links(request: Request, found: Assignment) -> Shape:
    """Return the links to the original grant, and to the membership and the implied role from which the assignment is
    derived.
    """
    base = links.endpoint(request, "identity")
    project = found.given_project_id or (None if found.given_domain_id else found.project_id)
    domain = found.given_domain_id or found.domain_id
    target = f"/projects/{project.hex}" if project else f"/domains/{domain}" if domain else "/system"
    group = found.given_group_id or found.group_id
    actor = f"/groups/{group.hex}" if group else f"/users/{found.user_id.hex}" if found.user_id else ""
    path = f"{target}{actor}/roles/{found.given_role_id.hex}"
    shape = {"assignment": base + (f"/OS-INHERIT{path}/inherited_to_projects" if found.inherited else path)}
    if found.given_group_id is not None and found.user_id is not None:
        shape["membership"] = f"{base}/groups/{found.given_group_id.hex}/users/{found.user_id.hex}"
    if found.prior_role_id is not None:
        shape["prior_role"] = f"{base}/roles/{found.prior_role_id.hex}/implies/{found.role_id.hex}"
    return shape
