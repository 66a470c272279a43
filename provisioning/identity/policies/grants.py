"""Roles, what they imply, their assignments, and the catalog.

The administrator of a domain gives no role that is or implies ``admin`` or ``service``, which count beyond the domain,
gives roles within it only, and manages those that are its own.  Its manager gives ``manager``, ``member`` and
``reader`` within the domain.  Checks of grants may name ``domain_id`` (of the project or domain on which a role is
given), ``actor_domain_id`` (of the user or group), ``role_domain_id`` (None: a role of the whole cloud),
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
    """Return the rules of roles that users, or groups, have on the system."""
    name = f"system_grant_for_{actor}"
    sentence = f"List the roles given to a {actor} on the system."
    return (
        identity_rule(f"identity:list_system_grants_for_{actor}", CLOUD_ADMIN_OR_SYSTEM_READER, sentence),
        identity_rule(
            f"identity:check_{name}",
            CLOUD_ADMIN_OR_SYSTEM_READER,
            f"See whether a {actor} was given a role on the system.",
        ),
        identity_rule(f"identity:create_{name}", CLOUD_ADMIN, f"Give a {actor} a role on the system."),
        identity_rule(f"identity:revoke_{name}", CLOUD_ADMIN, f"Take a role on the system away from a {actor}."),
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
    identity_rule("identity:list_domain_roles", _SEES_ROLES, "List roles of a domain.", "GET /v3/roles"),
    identity_rule("identity:get_domain_role", _SEES_ROLES, "Show a role of a domain.", f"GET {_ROLE}"),
    identity_rule("identity:create_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Create a role of a domain.", "POST /v3/roles"),
    identity_rule("identity:update_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Change a role of a domain.", f"PATCH {_ROLE}"),
    identity_rule(
        "identity:delete_domain_role", ADMIN_OR_DOMAIN_ADMIN, "Delete a role of a domain.", f"DELETE {_ROLE}"
    ),
    identity_rule("identity:list_implied_roles", _SEES_ROLES, "List what a role implies."),
    identity_rule("identity:get_implied_role", _SEES_ROLES, "Show that a role implies another."),
    identity_rule("identity:check_implied_role", _SEES_ROLES, "Ask whether a role implies another."),
    identity_rule("identity:create_implied_role", _IMPLIES, "Let a role imply another."),
    identity_rule("identity:delete_implied_role", _IMPLIES, "End that a role implies another."),
    identity_rule("identity:list_role_inference_rules", CLOUD_ADMIN_OR_SYSTEM_READER, "List what every role implies."),
    identity_rule("identity:list_grants", _SEES, "List the roles given to a user or group on a target."),
    identity_rule("identity:check_grant", _CHECKS, "See whether a role was given."),
    identity_rule("identity:create_grant", _GIVES, "Give a role on a project or domain."),
    identity_rule("identity:revoke_grant", _GIVES, "Take a role on a project or domain away."),
    *_system_grants("user"),
    *_system_grants("group"),
    identity_rule(
        "identity:list_role_assignments",
        SEES_DOMAIN,
        "List who has which role; with a token for a domain: on the domain and its projects.",
    ),
    identity_rule(
        "identity:list_role_assignments_for_tree",
        SEES_DOMAIN,
        "List who has which role on a project and the projects below it.",
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
