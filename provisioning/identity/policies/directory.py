"""Domains, projects, users and groups."""

from provisioning.identity.policies.base import (
    ADMIN_OR_DOMAIN_MANAGER,
    ANYBODY,
    CLOUD_ADMIN,
    SEES_DOMAIN,
    identity_rule,
)

OR_ONESELF = SEES_DOMAIN + " or user_id:%(user_id)s"
OR_OF_THE_TOKEN = SEES_DOMAIN + " or project_id:%(project_id)s"
OR_ONES_OWN = SEES_DOMAIN + " or user_domain_id:%(domain_id)s"

DOMAINS = (
    identity_rule(
        "identity:list_domains",
        SEES_DOMAIN,
        "List domains; with a domain token only that domain.",
        "GET /v3/domains",
    ),
    identity_rule("novella:find_domain", ANYBODY, "Find the caller's domain by name.", "GET /v3/domains?name={name}"),
    identity_rule("identity:get_domain", OR_ONES_OWN, "Show a domain."),
    identity_rule("identity:create_domain", CLOUD_ADMIN, "Create a domain."),
    identity_rule("identity:update_domain", CLOUD_ADMIN, "Change, enable or disable a domain."),
    identity_rule("identity:delete_domain", CLOUD_ADMIN, "Delete a disabled domain with its contents."),
)
PROJECTS = (
    identity_rule(
        "identity:list_projects",
        SEES_DOMAIN,
        "List projects of the cloud or of the caller's domain.",
        "GET /v3/projects",
    ),
    identity_rule(
        "novella:find_project",
        ANYBODY,
        "Find the caller's projects by name.",
        "GET /v3/projects?name={name}",
    ),
    identity_rule("identity:get_project", OR_OF_THE_TOKEN, "Show a project, its parents and its subtree."),
    identity_rule("identity:create_project", ADMIN_OR_DOMAIN_MANAGER, "Create a project."),
    identity_rule("identity:update_project", ADMIN_OR_DOMAIN_MANAGER, "Change, enable or disable a project."),
    identity_rule("identity:delete_project", ADMIN_OR_DOMAIN_MANAGER, "Delete a project without resources."),
    identity_rule("identity:list_project_tags", OR_OF_THE_TOKEN, "List a project's tags."),
    identity_rule("identity:get_project_tag", OR_OF_THE_TOKEN, "Check whether a project has a tag."),
    identity_rule("identity:update_project_tags", ADMIN_OR_DOMAIN_MANAGER, "Replace a project's tags."),
    identity_rule("identity:create_project_tag", ADMIN_OR_DOMAIN_MANAGER, "Add a tag to a project."),
    identity_rule("identity:delete_project_tags", ADMIN_OR_DOMAIN_MANAGER, "Remove all tags of a project."),
    identity_rule("identity:delete_project_tag", ADMIN_OR_DOMAIN_MANAGER, "Remove a tag of a project."),
)
USERS = (
    identity_rule(
        "identity:list_users", SEES_DOMAIN, "List users of the cloud or of the caller's domain.", "GET /v3/users"
    ),
    identity_rule("novella:find_user", ANYBODY, "Find the caller by name.", "GET /v3/users?name={name}"),
    identity_rule("identity:get_user", OR_ONESELF, "Show a user."),
    identity_rule("identity:create_user", ADMIN_OR_DOMAIN_MANAGER, "Create a user."),
    identity_rule(
        "identity:update_user",
        ADMIN_OR_DOMAIN_MANAGER,
        "Update a user, including the password; enable and disable users.",
    ),
    identity_rule("identity:delete_user", ADMIN_OR_DOMAIN_MANAGER, "Delete a user."),
    identity_rule("identity:list_user_projects", OR_ONESELF, "List the projects that a user has access to."),
    identity_rule("identity:list_groups_for_user", OR_ONESELF, "List a user's groups."),
    identity_rule(
        "identity:change_password",
        "user_id:%(user_id)s",
        "Change the caller's own password.",
        "POST /v3/users/{user_id}/password",
    ),
)
GROUPS = (
    identity_rule("identity:list_groups", SEES_DOMAIN, "List groups of the cloud or of the caller's domain."),
    identity_rule("identity:get_group", SEES_DOMAIN, "Show a group."),
    identity_rule("identity:create_group", ADMIN_OR_DOMAIN_MANAGER, "Create a group."),
    identity_rule("identity:update_group", ADMIN_OR_DOMAIN_MANAGER, "Change a group."),
    identity_rule("identity:delete_group", ADMIN_OR_DOMAIN_MANAGER, "Delete a group."),
    identity_rule("identity:list_users_in_group", SEES_DOMAIN, "List the users in a group."),
    identity_rule("identity:check_user_in_group", OR_ONESELF, "Check whether a user is in a group."),
    identity_rule("identity:add_user_to_group", ADMIN_OR_DOMAIN_MANAGER, "Add a user to a group."),
    identity_rule("identity:remove_user_from_group", ADMIN_OR_DOMAIN_MANAGER, "Remove a user from a group."),
)
RULES = (*DOMAINS, *PROJECTS, *USERS, *GROUPS)
