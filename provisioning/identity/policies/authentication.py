"""Tokens, and what one may enter."""

from provisioning.identity.policies.base import ADMIN_OR_USER, ANYBODY, identity_rule

RULES = (
    identity_rule(
        "identity:tokens:validate", ADMIN_OR_USER, "Look into a token.", "GET /v3/auth/tokens", "HEAD /v3/auth/tokens"
    ),
    identity_rule("identity:tokens:revoke", ADMIN_OR_USER, "Give a token back.", "DELETE /v3/auth/tokens"),
    identity_rule("identity:auth:projects", ANYBODY, "List the projects one may enter.", "GET /v3/auth/projects"),
    identity_rule("identity:auth:domains", ANYBODY, "List the domains one may enter.", "GET /v3/auth/domains"),
    identity_rule("identity:auth:catalog", ANYBODY, "Read the catalog of the token's project.", "GET /v3/auth/catalog"),
)
