"""Roles, what they imply, their assignments, and the catalog.

The administrator of a domain gives no role that is or implies ``admin``, gives them within the domain only, and manages
the roles of the domain.  Checks of grants may name ``domain_id`` (of the project or domain on which a role is given),
``actor_domain_id`` (of the user or group), ``role_domain_id`` (None: a role of the whole cloud) and ``brings_admin``.
"""

from provisioning.identity.policies.base import ADMIN_OR_DOMAIN_ADMIN, ANYBODY, CLOUD_ADMIN, Rule, identity_rule

_ROLE_OF_DOMAIN = "(None:%(role_domain_id)s or domain_id:%(role_domain_id)s)"
_SEES = f"{CLOUD_ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s)"
_CHECKS = f"{CLOUD_ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s and {_ROLE_OF_DOMAIN})"
_LESSER = f"{_ROLE_OF_DOMAIN} and False:%(brings_admin)s"
_GIVES = f"{CLOUD_ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s and {_LESSER})"
_IMPLIES = f"{CLOUD_ADMIN} or (rule:domain_admin and {_LESSER})"
_TARGETS = ("projects/{project_id}", "domains/{domain_id}")
_ACTORS = ("users/{user_id}", "groups/{group_id}")
_WHERE = tuple(f"/v3/{target}/{actor}/roles" for target in _TARGETS for actor in _ACTORS)
_BELOW = tuple(f"/v3/OS-INHERIT/{target}/{actor}/roles" for target in _TARGETS for actor in _ACTORS)


def _lists() -> tuple[str, ...]:
    return tuple(f"GET {path}" for path in _WHERE) + tuple(f"GET {path}/inherited_to_projects" for path in _BELOW)


def _ones(*methods: str) -> tuple[str, ...]:
    paths = [f"{path}/{{role_id}}" for path in _WHERE]
    paths += [f"{path}/{{role_id}}/inherited_to_projects" for path in _BELOW]
    return tuple(f"{method} {path}" for path in paths for method in methods)


def _roles(kind: str, of: str) -> tuple[Rule, ...]:
    """Return the rules of roles: of those of the whole cloud, or of those of one domain."""
    one = "/v3/roles/{role_id}"
    return (
        identity_rule(f"identity:list_{kind}s", ADMIN_OR_DOMAIN_ADMIN, f"List roles{of}.", "GET /v3/roles"),
        identity_rule(f"identity:get_{kind}", ADMIN_OR_DOMAIN_ADMIN, f"Show a role{of}.", f"GET {one}"),
        identity_rule(f"identity:create_{kind}", ADMIN_OR_DOMAIN_ADMIN, f"Create a role{of}.", "POST /v3/roles"),
        identity_rule(f"identity:update_{kind}", ADMIN_OR_DOMAIN_ADMIN, f"Change a role{of}.", f"PATCH {one}"),
        identity_rule(f"identity:delete_{kind}", ADMIN_OR_DOMAIN_ADMIN, f"Delete a role{of}.", f"DELETE {one}"),
    )


def _system_grants(actor: str) -> tuple[Rule, ...]:
    """Return the rules of roles that users, or groups, have on the system."""
    many = f"/v3/system/{actor}s/{{{actor}_id}}/roles"
    one = f"{many}/{{role_id}}"
    return (
        identity_rule(
            f"identity:list_system_grants_for_{actor}",
            CLOUD_ADMIN,
            f"List the roles given to a {actor} on the system.",
            f"GET {many}",
        ),
        identity_rule(
            f"identity:check_system_grant_for_{actor}",
            CLOUD_ADMIN,
            f"See whether a {actor} was given a role on the system.",
            f"GET {one}",
            f"HEAD {one}",
        ),
        identity_rule(
            f"identity:create_system_grant_for_{actor}",
            CLOUD_ADMIN,
            f"Give a {actor} a role on the system.",
            f"PUT {one}",
        ),
        identity_rule(
            f"identity:revoke_system_grant_for_{actor}",
            CLOUD_ADMIN,
            f"Take a role on the system away from a {actor}.",
            f"DELETE {one}",
        ),
    )


_IMPLIED = "/v3/roles/{prior_role_id}/implies"

RULES = (
    *_roles("role", ""),
    *_roles("domain_role", " of a domain"),
    identity_rule("identity:list_implied_roles", ADMIN_OR_DOMAIN_ADMIN, "List what a role implies.", f"GET {_IMPLIED}"),
    identity_rule(
        "identity:get_implied_role",
        ADMIN_OR_DOMAIN_ADMIN,
        "Show that a role implies another.",
        f"GET {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:check_implied_role",
        ADMIN_OR_DOMAIN_ADMIN,
        "Ask whether a role implies another.",
        f"HEAD {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:create_implied_role",
        _IMPLIES,
        "Let a role imply another.",
        f"PUT {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:delete_implied_role",
        _IMPLIES,
        "End that a role implies another.",
        f"DELETE {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:list_role_inference_rules", CLOUD_ADMIN, "List what every role implies.", "GET /v3/role_inferences"
    ),
    identity_rule("identity:list_grants", _SEES, "List the roles given to a user or group on a target.", *_lists()),
    identity_rule("identity:check_grant", _CHECKS, "See whether a role was given.", *_ones("GET", "HEAD")),
    identity_rule("identity:create_grant", _GIVES, "Give a role on a project or domain.", *_ones("PUT")),
    identity_rule("identity:revoke_grant", _GIVES, "Take a role on a project or domain away.", *_ones("DELETE")),
    *_system_grants("user"),
    *_system_grants("group"),
    identity_rule(
        "identity:list_role_assignments",
        ADMIN_OR_DOMAIN_ADMIN,
        "List who has which role; with a token for a domain: on the domain and its projects.",
        "GET /v3/role_assignments",
        "HEAD /v3/role_assignments",
    ),
    identity_rule(
        "identity:list_role_assignments_for_tree",
        ADMIN_OR_DOMAIN_ADMIN,
        "List who has which role on a project and the projects below it.",
        "GET /v3/role_assignments?include_subtree=1",
        "HEAD /v3/role_assignments?include_subtree=1",
    ),
    identity_rule("identity:list_services", CLOUD_ADMIN, "List the catalog's services.", "GET /v3/services"),
    identity_rule("identity:get_service", CLOUD_ADMIN, "Show a service.", "GET /v3/services/{service_id}"),
    identity_rule("identity:create_service", CLOUD_ADMIN, "Create a service.", "POST /v3/services"),
    identity_rule("identity:update_service", CLOUD_ADMIN, "Change a service.", "PATCH /v3/services/{service_id}"),
    identity_rule("identity:delete_service", CLOUD_ADMIN, "Delete a service.", "DELETE /v3/services/{service_id}"),
    identity_rule("identity:list_endpoints", CLOUD_ADMIN, "List endpoints.", "GET /v3/endpoints"),
    identity_rule("identity:get_endpoint", CLOUD_ADMIN, "Show an endpoint.", "GET /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:create_endpoint", CLOUD_ADMIN, "Create an endpoint.", "POST /v3/endpoints"),
    identity_rule("identity:update_endpoint", CLOUD_ADMIN, "Change an endpoint.", "PATCH /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:delete_endpoint", CLOUD_ADMIN, "Delete an endpoint.", "DELETE /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:list_regions", ANYBODY, "List regions.", "GET /v3/regions"),
    identity_rule("identity:get_region", ANYBODY, "Show a region.", "GET /v3/regions/{region_id}"),
    identity_rule("identity:create_region", CLOUD_ADMIN, "Create a region.", "POST /v3/regions"),
    identity_rule("identity:update_region", CLOUD_ADMIN, "Change a region.", "PATCH /v3/regions/{region_id}"),
    identity_rule("identity:delete_region", CLOUD_ADMIN, "Delete a region.", "DELETE /v3/regions/{region_id}"),
)
