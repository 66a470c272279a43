"""Tokens and their possible scopes."""

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
        "Validate a token; other services do so to authenticate their clients.",
    ),
    identity_rule(
        "identity:check_token",
        f"{CLOUD_ADMIN_OR_SYSTEM_READER} or user_id:%(user_id)s",
        "Check whether a token is valid.",
    ),
    identity_rule(
        "novella:validate_expired_token",
        f"{CLOUD_ADMIN} or rule:service_role",
        "Validate an expired token.",
        "GET /v3/auth/tokens?allow_expired=1",
    ),
    identity_rule("identity:revoke_token", ADMIN_OR_USER, "Revoke a token."),
    identity_rule("novella:validate_token_v2", CLOUD_ADMIN, "Validate a token with the Identity API v2.0."),
    identity_rule("identity:get_auth_projects", ANYBODY, "List the projects that the caller has access to."),
    identity_rule("identity:get_auth_domains", ANYBODY, "List the domains that the caller has access to."),
    identity_rule("identity:get_auth_system", ANYBODY, "Show whether the caller has access to the system."),
    identity_rule("identity:get_auth_catalog", ANYBODY, "Show the catalog of the token's project."),
)
