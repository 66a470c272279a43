"""Domains, projects, users and groups."""

from provisioning.identity.policies.base import ADMIN, ADMIN_OR_DOMAIN_ADMIN, ADMIN_OR_USER, ANYBODY, identity_rule

RULES = (
    identity_rule("identity:users:list", ADMIN, "List users.", "GET /v3/users"),
    identity_rule("identity:users:find", ANYBODY, "Find oneself by name.", "GET /v3/users?name={name}"),
    identity_rule("identity:users:show", ADMIN_OR_USER, "Show a user.", "GET /v3/users/{id}"),
    identity_rule("identity:users:projects", ADMIN_OR_USER, "List a user's projects.", "GET /v3/users/{id}/projects"),
    identity_rule("identity:users:password", "user_id:%(user_id)s", "Change one's password.", "POST /v3/users/{id}/password"),
    identity_rule("identity:projects:list", ADMIN, "List projects.", "GET /v3/projects"),
    identity_rule(
        "identity:projects:show",
        ADMIN_OR_DOMAIN_ADMIN + " or project_id:%(project_id)s",
        "Show a project.",
        "GET /v3/projects/{id}",
    ),
    identity_rule("identity:projects:find", ANYBODY, "Find one's own projects by name.", "GET /v3/projects?name={name}"),
    identity_rule("identity:domains:list", ADMIN, "List domains.", "GET /v3/domains"),
    identity_rule("identity:domains:show", ADMIN_OR_DOMAIN_ADMIN + " or user_domain_id:%(domain_id)s", "Show a domain.", "GET /v3/domains/{id}"),
    identity_rule("identity:domains:find", ANYBODY, "Find one's own domain by name.", "GET /v3/domains?name={name}"),
)
