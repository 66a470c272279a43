"""Registered limits, and limits of projects and domains."""

from provisioning.identity.policies.base import ANYBODY, CLOUD_ADMIN, CLOUD_ADMIN_OR_SYSTEM_READER, identity_rule

_EVERYTHING = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or rule:service_role"

RULES = (
    identity_rule("identity:list_registered_limits", ANYBODY, "List registered limits."),
    identity_rule("identity:get_registered_limit", ANYBODY, "Show a registered limit."),
    identity_rule("identity:create_registered_limits", CLOUD_ADMIN, "Register limits."),
    identity_rule("identity:update_registered_limit", CLOUD_ADMIN, "Change a registered limit."),
    identity_rule("identity:delete_registered_limit", CLOUD_ADMIN, "Delete a registered limit."),
    identity_rule("identity:get_limit_model", ANYBODY, "Show the enforcement model of limits in project trees."),
    identity_rule(
        "identity:list_limits",
        ANYBODY,
        "List limits of the token's project, or of its domain and the domain's projects.",
    ),
    identity_rule(
        "novella:list_every_limit", _EVERYTHING, "List the limits of all projects and domains.", "GET /v3/limits"
    ),
    identity_rule(
        "identity:get_limit",
        f"{CLOUD_ADMIN_OR_SYSTEM_READER} or domain_id:%(domain_id)s or project_id:%(project_id)s",
        "Show a limit of the token's project, or of its domain and the domain's projects.",
    ),
    identity_rule("identity:create_limits", CLOUD_ADMIN, "Create limits of projects and domains."),
    identity_rule("identity:update_limit", CLOUD_ADMIN, "Change a limit."),
    identity_rule("identity:delete_limit", CLOUD_ADMIN, "Delete a limit."),
)
