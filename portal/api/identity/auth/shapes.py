"""Tokens as the Identity APIs v3 and v2.0 describe them."""

import uuid
from datetime import UTC
from typing import Any

from rest_framework.request import Request

from portal.api.common import links
from portal.api.identity.dialect import bodies
from provisioning.common.context import RequestContext
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors.application_credentials import application_credential_by
from provisioning.identity.selectors.catalog import catalog_for
from provisioning.identity.selectors.lookups import (
    by_id,
    existing,
    role_records,
)
from provisioning.identity.selectors.trusts import trust_of_token
from provisioning.identity.tokens.receipts import MoreMethodsError
from provisioning.identity.tokens.tokens import TokenData

Shape = dict[str, Any]


def token(request: Request, data: TokenData, context: RequestContext, *, catalog: bool) -> Shape:
    """Return the body that describes a token; ``context`` has its current rights."""
    user = existing(User, (context.user_id or data.user_id).hex)
    body: Shape = {
        "methods": list(data.methods),
        "user": bodies.named_in_domain(user) | {"password_expires_at": bodies.expiry(user)},
        "audit_ids": data.audit_ids,
        "expires_at": bodies.time_of(data.expires_at),
        "issued_at": bodies.time_of(data.issued_at),
        **_scope(data),
    }
    if is_scoped(data):
        body["roles"] = [bodies.named(role) for role in role_records(context.roles)]
        if catalog:
            body["catalog"] = catalog_of(request, data)
    if data.trust is not None:
        body["OS-TRUST:trust"] = _trust(data.trust)
    if data.application_credential is not None:
        body["application_credential"] = _credential(data, context)
    return {"token": body}


def receipt(error: MoreMethodsError) -> Shape:
    """Return the body with the methods that succeeded and the rules of the user that are still to be met."""
    found = error.receipt
    described = {
        "methods": list(found.methods),
        "user": bodies.named_in_domain(error.user),
        "expires_at": bodies.time_of(found.expires_at),
        "issued_at": bodies.time_of(found.issued_at),
    }
    return {"receipt": described, "required_auth_methods": error.required}


def is_scoped(data: TokenData) -> bool:
    """Whether the token is for a project, a domain or the system."""
    return data.project_id is not None or data.domain_id is not None or data.system


def catalog_of(request: Request, data: TokenData | RequestContext) -> list[Shape]:
    return catalog_for(data.project_id, public_url=links.public_url(request))


def access(request: Request, value: str, data: TokenData, context: RequestContext) -> Shape:
    """Return the body that describes a token in the Identity API v2.0."""
    user = existing(User, data.user_id.hex)
    roles = role_records(context.roles)
    described: Shape = {
        "id": value,
        "issued_at": bodies.time_of(data.issued_at),
        "expires": data.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "audit_ids": data.audit_ids,
    }
    if data.project_id is not None:
        described["tenant"] = tenant(existing(Project, data.project_id.hex))
    return {
        "access": {
            "token": described,
            "user": {
                "id": user.id.hex,
                "name": user.name,
                "username": user.name,
                "roles": [{"name": role.name} for role in roles],
                "roles_links": [],
            },
            "serviceCatalog": services_v2(request, data) if data.project_id is not None else [],
            "metadata": {"is_admin": 0, "roles": [role.id.hex for role in roles]},
        }
    }


def tenant(record: Project) -> Shape:
    """Return a project in the format of the Identity API v2.0."""
    return {
        "id": record.id.hex,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
    }


def services_v2(request: Request, data: TokenData) -> list[Shape]:
    """Return the catalog in the format of v2.0: one entry for each region, with an address for each interface."""
    result = []
    for service in catalog_of(request, data):
        regions: dict[str, Shape] = {}
        for endpoint in service["endpoints"]:
            place = regions.setdefault(endpoint["region"] or "", {"id": endpoint["id"], "region": endpoint["region"]})
            place[f"{endpoint['interface']}URL"] = endpoint["url"]
        if regions:
            result.append({
                "name": service["name"],
                "type": service["type"],
                "endpoints": list(regions.values()),
                "endpoints_links": [],
            })  # fmt: skip
    return result


def _scope(data: TokenData) -> Shape:
    if data.project_id is not None:
        return {
            "project": bodies.named_in_domain(existing(Project, data.project_id.hex)),
            "is_domain": False,
        }
    if data.domain_id is not None:
        domain = by_id(Domain, data.domain_id)
        return {"domain": bodies.named(domain)} if domain is not None else {}
    return {"system": {"all": True}} if data.system else {}


def _trust(trust_id: uuid.UUID) -> Shape:
    found = trust_of_token(trust_id)
    return {
        "id": found.id.hex,
        "trustor_user": {"id": found.trustor_id.hex},
        "trustee_user": {"id": found.trustee_id.hex},
        "impersonation": found.impersonation,
    }


def _credential(data: TokenData, context: RequestContext) -> Shape:
    """Return the application credential as keystonemiddleware reads it; its access rules limit the token's requests."""
    assert data.application_credential is not None  # noqa: S101 - the caller has checked it
    record = application_credential_by(credential_id=data.application_credential.hex)
    name = record.name if record is not None else ""
    shape: Shape = {"id": data.application_credential.hex, "name": name, "restricted": not context.unrestricted}
    if context.access_rules is not None and record is not None:
        shape["access_rules"] = [
            {"id": rule.id.hex, "service": rule.service, "method": rule.method, "path": rule.path}
            for rule in record.access_rules.order_by("service", "path", "method")
        ]
    return shape
