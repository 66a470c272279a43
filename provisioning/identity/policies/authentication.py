"""Tokens, and what one may enter."""

from provisioning.identity.policies.base import (
    ADMIN_OR_USER,
    ANYBODY,
    CLOUD_ADMIN,
    CLOUD_ADMIN_OR_SYSTEM_READER,
    identity_rule,
)

RULES = (
    identity_rule(
        "identity:validate_token",
        f"{CLOUD_ADMIN_OR_SYSTEM_READER} or rule:service_role or user_id:%(user_id)s",
        "Look into a token; other services ask so who speaks to them.",
    ),
    identity_rule(
        "identity:check_token",
        f"{CLOUD_ADMIN_OR_SYSTEM_READER} or user_id:%(user_id)s",
        "Ask whether a token is good.",
    ),
    identity_rule(
        "novella:validate_expired_token",
        f"{CLOUD_ADMIN} or rule:service_role",
        "Look into a token that has ended.",
        "GET /v3/auth/tokens?allow_expired=1",
    ),
    identity_rule("identity:revoke_token", ADMIN_OR_USER, "Give a token back."),
    identity_rule("novella:validate_token_v2", CLOUD_ADMIN, "Look into a token by the Identity API v2.0."),
    identity_rule("identity:get_auth_projects", ANYBODY, "List the projects one may enter."),
    identity_rule("identity:get_auth_domains", ANYBODY, "List the domains one may enter."),
    identity_rule("identity:get_auth_system", ANYBODY, "See whether one may enter the system."),
    identity_rule("identity:get_auth_catalog", ANYBODY, "Read the catalog of the token's project."),
)
