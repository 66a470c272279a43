"""Domains, projects, users and groups."""

from provisioning.identity.policies.base import ADMIN, ADMIN_OR_DOMAIN_ADMIN, ANYBODY, identity_rule

ADMINISTRATORS = ADMIN_OR_DOMAIN_ADMIN
OR_ONESELF = ADMIN_OR_DOMAIN_ADMIN + " or user_id:%(user_id)s"
OR_OF_THE_TOKEN = ADMIN_OR_DOMAIN_ADMIN + " or project_id:%(project_id)s"
OR_ONES_OWN = ADMIN_OR_DOMAIN_ADMIN + " or user_domain_id:%(domain_id)s"

DOMAINS = (
    identity_rule(
        "identity:domains:list",
        ADMINISTRATORS,
        "List domains; of a domain's administrator only that one.",
        "GET /v3/domains",
    ),
    identity_rule("identity:domains:find", ANYBODY, "Find one's own domain by name.", "GET /v3/domains?name={name}"),
    identity_rule("identity:domains:show", OR_ONES_OWN, "Show a domain.", "GET /v3/domains/{domain_id}"),
    identity_rule("identity:domains:create", ADMIN, "Make a domain.", "POST /v3/domains"),
    identity_rule(
        "identity:domains:update", ADMIN, "Change, enable or disable a domain.", "PATCH /v3/domains/{domain_id}"
    ),
    identity_rule(
        "identity:domains:delete",
        ADMIN,
        "Delete a disabled domain with what is in it.",
        "DELETE /v3/domains/{domain_id}",
    ),
)
PROJECTS = (
    identity_rule(
        "identity:projects:list",
        ADMINISTRATORS,
        "List projects, of the whole cloud or of one's domain.",
        "GET /v3/projects",
    ),
    identity_rule(
        "identity:projects:find",
        ANYBODY,
        "Find the projects that one may enter by name.",
        "GET /v3/projects?name={name}",
    ),
    identity_rule(
        "identity:projects:show",
        OR_OF_THE_TOKEN,
        "Show a project, its parents and its subtree.",
        "GET /v3/projects/{project_id}",
    ),
    identity_rule("identity:projects:create", ADMINISTRATORS, "Make a project.", "POST /v3/projects"),
    identity_rule(
        "identity:projects:update",
        ADMINISTRATORS,
        "Change, enable or disable a project.",
        "PATCH /v3/projects/{project_id}",
    ),
    identity_rule(
        "identity:projects:delete",
        ADMINISTRATORS,
        "Delete a project that owns nothing.",
        "DELETE /v3/projects/{project_id}",
    ),
    identity_rule(
        "identity:projects:tags:list",
        OR_OF_THE_TOKEN,
        "Read a project's tags.",
        "GET /v3/projects/{project_id}/tags",
        "GET /v3/projects/{project_id}/tags/{tag}",
    ),
    identity_rule(
        "identity:projects:tags:update",
        ADMINISTRATORS,
        "Change a project's tags.",
        "PUT /v3/projects/{project_id}/tags",
        "DELETE /v3/projects/{project_id}/tags",
        "PUT /v3/projects/{project_id}/tags/{tag}",
        "DELETE /v3/projects/{project_id}/tags/{tag}",
    ),
)
USERS = (
    identity_rule(
        "identity:users:list", ADMINISTRATORS, "List users, of the whole cloud or of one's domain.", "GET /v3/users"
    ),
    identity_rule("identity:users:find", ANYBODY, "Find oneself by name.", "GET /v3/users?name={name}"),
    identity_rule("identity:users:show", OR_ONESELF, "Show a user.", "GET /v3/users/{user_id}"),
    identity_rule("identity:users:create", ADMINISTRATORS, "Make a user.", "POST /v3/users"),
    identity_rule(
        "identity:users:update",
        ADMINISTRATORS,
        "Change a user, the password too; enable, disable.",
        "PATCH /v3/users/{user_id}",
    ),
    identity_rule("identity:users:delete", ADMINISTRATORS, "Delete a user.", "DELETE /v3/users/{user_id}"),
    identity_rule(
        "identity:users:projects",
        OR_ONESELF,
        "List the projects that a user may enter.",
        "GET /v3/users/{user_id}/projects",
    ),
    identity_rule("identity:users:groups", OR_ONESELF, "List a user's groups.", "GET /v3/users/{user_id}/groups"),
    identity_rule(
        "identity:users:password", "user_id:%(user_id)s", "Change one's password.", "POST /v3/users/{user_id}/password"
    ),
)
GROUPS = (
    identity_rule(
        "identity:groups:list", ADMINISTRATORS, "List groups, of the whole cloud or of one's domain.", "GET /v3/groups"
    ),
    identity_rule("identity:groups:show", ADMINISTRATORS, "Show a group.", "GET /v3/groups/{group_id}"),
    identity_rule("identity:groups:create", ADMINISTRATORS, "Make a group.", "POST /v3/groups"),
    identity_rule("identity:groups:update", ADMINISTRATORS, "Change a group.", "PATCH /v3/groups/{group_id}"),
    identity_rule("identity:groups:delete", ADMINISTRATORS, "Delete a group.", "DELETE /v3/groups/{group_id}"),
    identity_rule(
        "identity:groups:users:list", ADMINISTRATORS, "List the users in a group.", "GET /v3/groups/{group_id}/users"
    ),
    identity_rule(
        "identity:groups:users:check",
        OR_ONESELF,
        "Ask whether a user is in a group.",
        "GET /v3/groups/{group_id}/users/{user_id}",
    ),
    identity_rule(
        "identity:groups:users:add",
        ADMINISTRATORS,
        "Put a user into a group.",
        "PUT /v3/groups/{group_id}/users/{user_id}",
    ),
    identity_rule(
        "identity:groups:users:remove",
        ADMINISTRATORS,
        "Take a user out of a group.",
        "DELETE /v3/groups/{group_id}/users/{user_id}",
    ),
)
RULES = (*DOMAINS, *PROJECTS, *USERS, *GROUPS)
