"""Tokens, and what one may enter."""

from provisioning.identity.policies.base import ADMIN_OR_USER, ANYBODY, CLOUD_ADMIN, identity_rule

RULES = (
    identity_rule("identity:validate_token", ADMIN_OR_USER, "Look into a token.", "GET /v3/auth/tokens"),
    identity_rule("identity:check_token", ADMIN_OR_USER, "Ask whether a token is good.", "HEAD /v3/auth/tokens"),
    identity_rule(
        "novella:validate_expired_token",
        CLOUD_ADMIN,
        "Look into a token that has ended.",
        "GET /v3/auth/tokens?allow_expired=1",
        "HEAD /v3/auth/tokens?allow_expired=1",
    ),
    identity_rule(
        "identity:revoke_token",
        ADMIN_OR_USER,
        "Give a token back.",
        "DELETE /v3/auth/tokens",
        "DELETE /v2.0/tokens/{token_id}",
    ),
    identity_rule(
        "novella:validate_token_v2",
        CLOUD_ADMIN,
        "Look into a token by the Identity API v2.0.",
        "GET /v2.0/tokens/{token_id}",
        "HEAD /v2.0/tokens/{token_id}",
        "GET /v2.0/tokens/{token_id}/endpoints",
    ),
    identity_rule(
        "identity:get_auth_projects",
        ANYBODY,
        "List the projects one may enter.",
        "GET /v3/auth/projects",
        "GET /v2.0/tenants",
    ),
    identity_rule("identity:get_auth_domains", ANYBODY, "List the domains one may enter.", "GET /v3/auth/domains"),
    identity_rule("identity:get_auth_system", ANYBODY, "See whether one may enter the system.", "GET /v3/auth/system"),
    identity_rule(
        "identity:get_auth_catalog", ANYBODY, "Read the catalog of the token's project.", "GET /v3/auth/catalog"
    ),
)
