"""Trusts in the format of the Identity API v3."""

from typing import Any

from rest_framework.request import Request

from portal.api.identity import fragments
from portal.api.identity.roles import shapes as role_shapes
from provisioning.identity.models import Trust
from provisioning.identity.selectors.trusts import roles_of_trust

Shape = dict[str, Any]


def path_of(trust: Trust) -> str:
    return f"/OS-TRUST/trusts/{trust.id.hex}"


def listed(request: Request, trust: Trust) -> Shape:
    """Return a trust without its roles, as in lists."""
    return {
        **trust.extra,
        "id": trust.id.hex,
        "trustor_user_id": trust.trustor_id.hex,
        "trustee_user_id": trust.trustee_id.hex,
        "project_id": trust.project_id.hex if trust.project_id else None,
        "impersonation": trust.impersonation,
        "expires_at": fragments.time_of(trust.expires_at) if trust.expires_at else None,
        "remaining_uses": trust.remaining_uses,
        "deleted_at": None,
        "redelegated_trust_id": trust.redelegated_from_id.hex if trust.redelegated_from_id else None,
        "redelegation_count": trust.redelegation_count,
        "links": fragments.self_link(request, path_of(trust)),
    }


def trust(request: Request, record: Trust) -> Shape:
    """Return a trust with its roles."""
    return listed(request, record) | {"roles": roles(request, record), "roles_links": roles_links(request, record)}


def roles(request: Request, record: Trust) -> list[Shape]:
    return [role_shapes.role(request, role) for role in roles_of_trust(record)]


def roles_links(request: Request, record: Trust) -> Shape:
    return {**fragments.self_link(request, f"{path_of(record)}/roles"), "previous": None, "next": None}
