"""Roles, their assignments, and the catalog."""

from provisioning.identity.policies.base import ADMIN, ANYBODY, identity_rule

RULES = (
    identity_rule("identity:roles:list", ADMIN, "List roles.", "GET /v3/roles"),
    identity_rule("identity:roles:show", ADMIN, "Show a role.", "GET /v3/roles/{id}"),
    identity_rule("identity:role_assignments:list", ADMIN, "List who has which role.", "GET /v3/role_assignments"),
    identity_rule("identity:services:list", ADMIN, "List the cloud's services.", "GET /v3/services", "GET /v3/endpoints"),
    identity_rule("identity:regions:list", ANYBODY, "List regions.", "GET /v3/regions"),
)
