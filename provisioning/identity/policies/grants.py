"""Roles, implied roles, role assignments, and the catalog.

A domain administrator manages the domain-specific roles and may assign roles within the domain, except roles that are
or imply ``admin`` or ``service``, which apply beyond the domain. A domain manager may assign ``manager``, ``member``
and ``reader`` within the domain. Checks of assignments may refer to ``domain_id`` (of the project or domain on which
the role is assigned), ``actor_domain_id`` (of the user or group), ``role_domain_id`` (None: a global role),
``target.role.name`` and ``beyond_domains``.
"""

from provisioning.identity.policies.base import (
    ADMIN_OR_DOMAIN_ADMIN,
    ANYBODY,
    CLOUD_ADMIN,
    CLOUD_ADMIN_OR_SYSTEM_READER,
    SEES_DOMAIN,
    Rule,
    identity_rule,
)

_ROLE = "/v3/roles/{role_id}"
_ROLE_OF_DOMAIN = "(None:%(role_domain_id)s or domain_id:%(role_domain_id)s)"
_LOOKS = "(rule:domain_admin or rule:domain_reader) and domain_id:%(actor_domain_id)s"
_SEES = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or ({_LOOKS})"
_CHECKS = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or ({_LOOKS} and {_ROLE_OF_DOMAIN})"
_SEES_ROLES = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or rule:domain_admin"
_LESSER = f"{_ROLE_OF_DOMAIN} and False:%(beyond_domains)s"
_MANAGED = "None:%(role_domain_id)s and rule:domain_managed_target_role and False:%(beyond_domains)s"
_GIVES = (
    f"{CLOUD_ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s and {_LESSER})"
    f" or (rule:domain_manager and domain_id:%(actor_domain_id)s and {_MANAGED})"
)
_IMPLIES = f"{CLOUD_ADMIN} or (rule:domain_admin and {_LESSER})"


def _system_grants(actor: str) -> tuple[Rule, ...]:
    """Return the rules of role assignments of users, or groups, on the system."""
    name = f"system_grant_for_{actor}"
    sentence = f"List the roles of a {actor} on the system."
    return (
        identity_rule(f"identity:list_system_grants_for_{actor}", CLOUD_ADMIN_OR_SYSTEM_READER, sentence),
        identity_rule(
            f"identity:check_{name}",
            CLOUD_ADMIN_OR_SYSTEM_READER,
            f"Check whether a {actor} has a role on the system.",
        ),
        identity_rule(f"identity:create_{name}", CLOUD_ADMIN, f"Assign a role on the system to a {actor}."),
        identity_rule(f"identity:revoke_{name}", CLOUD_ADMIN, f"Revoke a role on the system from a {actor}."),
    )


RULES = (
    identity_rule("identity:list_roles", f"{_SEES_ROLES} or rule:domain_manager", "List roles."),
    identity_rule(
        "identity:get_role",
        f"{_SEES_ROLES} or (rule:domain_manager and rule:domain_managed_target_role)",
        "Show a role.",
    ),
    identity_rule("identity:create_role", ADMIN_OR_DOMAIN_ADMIN, "Create a role."),
    identity_rule("identity:update_role", ADMIN_OR_DOMAIN_ADMIN, "Change a role."),
    identity_rule("identity:delete_role", ADMIN_OR_DOMAIN_ADMIN, "Delete a role."),
    identity_rule("identity:list_domain_roles", _SEES_ROLES, "List domain-specific roles.", "GET /v3/roles"),
    identity_rule("identity:get_domain_role", _SEES_ROLES, "Show a domain-specific role.", f"GET {_ROLE}"),
    identity_rule(
        "identity:create_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Create a domain-specific role.", "POST /v3/roles"
    ),
    identity_rule(
        "identity:update_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Update a domain-specific role.", f"PATCH {_ROLE}"
    ),
    identity_rule(
        "identity:delete_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Delete a domain-specific role.", f"DELETE {_ROLE}"
    ),
    identity_rule("identity:list_implied_roles", _SEES_ROLES, "List the roles that a role implies."),
    identity_rule("identity:get_implied_role", _SEES_ROLES, "Show an implication of roles."),
    identity_rule("identity:check_implied_role", _SEES_ROLES, "Check whether a role implies another."),
    identity_rule("identity:create_implied_role", _IMPLIES, "Create an implication of roles."),
    identity_rule("identity:delete_implied_role", _IMPLIES, "Delete an implication of roles."),
    identity_rule(
        "identity:list_role_inference_rules", CLOUD_ADMIN_OR_SYSTEM_READER, "List all implications of roles."
    ),
    identity_rule("identity:list_grants", _SEES, "List the roles of a user or group on a target."),
    identity_rule("identity:check_grant", _CHECKS, "Check whether a role is assigned."),
    identity_rule("identity:create_grant", _GIVES, "Assign a role on a project or domain."),
    identity_rule("identity:revoke_grant", _GIVES, "Revoke a role on a project or domain."),
    *_system_grants("user"),
    *_system_grants("group"),
    identity_rule(
        "identity:list_role_assignments",
        SEES_DOMAIN,
        "List role assignments; with a domain token: on the domain and its projects.",
    ),
    identity_rule(
        "identity:list_role_assignments_for_tree",
        SEES_DOMAIN,
        "List role assignments on a project and the projects below it.",
        "GET /v3/role_assignments?include_subtree=1",
    ),
    identity_rule("identity:list_services", CLOUD_ADMIN_OR_SYSTEM_READER, "List the catalog's services."),
    identity_rule("identity:get_service", CLOUD_ADMIN_OR_SYSTEM_READER, "Show a service."),
    identity_rule("identity:create_service", CLOUD_ADMIN, "Create a service."),
    identity_rule("identity:update_service", CLOUD_ADMIN, "Change a service."),
    identity_rule("identity:delete_service", CLOUD_ADMIN, "Delete a service."),
    identity_rule("identity:list_endpoints", CLOUD_ADMIN_OR_SYSTEM_READER, "List endpoints."),
    identity_rule("identity:get_endpoint", CLOUD_ADMIN_OR_SYSTEM_READER, "Show an endpoint."),
    identity_rule("identity:create_endpoint", CLOUD_ADMIN, "Create an endpoint."),
    identity_rule("identity:update_endpoint", CLOUD_ADMIN, "Change an endpoint."),
    identity_rule("identity:delete_endpoint", CLOUD_ADMIN, "Delete an endpoint."),
    identity_rule("identity:list_regions", ANYBODY, "List regions."),
    identity_rule("identity:get_region", ANYBODY, "Show a region."),
    identity_rule("identity:create_region", CLOUD_ADMIN, "Create a region."),
    identity_rule("identity:update_region", CLOUD_ADMIN, "Change a region."),
    identity_rule("identity:delete_region", CLOUD_ADMIN, "Delete a region."),
    identity_rule("identity:list_policies", CLOUD_ADMIN_OR_SYSTEM_READER, "List policies."),
    identity_rule("identity:get_policy", CLOUD_ADMIN_OR_SYSTEM_READER, "Show a policy."),
    identity_rule("identity:create_policy", CLOUD_ADMIN, "Create a policy."),
    identity_rule("identity:update_policy", CLOUD_ADMIN, "Change a policy."),
    identity_rule("identity:delete_policy", CLOUD_ADMIN, "Delete a policy."),
)
