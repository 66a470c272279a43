"""Roles, what they imply, their assignments, and the catalog.

The administrator of a domain gives no role that is or implies ``admin``, gives them within the domain only, and manages
the roles of the domain.  Checks of grants may name ``domain_id`` (of the project or domain on which a role is given),
``actor_domain_id`` (of the user or group), ``role_domain_id`` (None: a role of the whole cloud) and ``brings_admin``.
"""

from provisioning.identity.policies.base import ADMIN, ADMIN_OR_DOMAIN_ADMIN, ANYBODY, identity_rule

_ROLE_OF_DOMAIN = "(None:%(role_domain_id)s or domain_id:%(role_domain_id)s)"
_SEES = f"{ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s)"
_CHECKS = f"{ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s and {_ROLE_OF_DOMAIN})"
_GIVES = (
    f"{ADMIN} or (rule:domain_admin and domain_id:%(actor_domain_id)s and {_ROLE_OF_DOMAIN} and False:%(brings_admin)s)"
)
_IMPLIES = f"{ADMIN} or (rule:domain_admin and {_ROLE_OF_DOMAIN} and False:%(brings_admin)s)"
_TARGETS = ("projects/{project_id}", "domains/{domain_id}")
_ACTORS = ("users/{user_id}", "groups/{group_id}")
_WHERE = tuple(f"/v3/{target}/{actor}/roles" for target in _TARGETS for actor in _ACTORS)
_BELOW = tuple(f"/v3/OS-INHERIT/{target}/{actor}/roles" for target in _TARGETS for actor in _ACTORS)
_SYSTEM = tuple(f"/v3/system/{actor}/roles" for actor in _ACTORS)


def _lists() -> tuple[str, ...]:
    return tuple(f"GET {path}" for path in _WHERE) + tuple(f"GET {path}/inherited_to_projects" for path in _BELOW)


def _ones(*methods: str) -> tuple[str, ...]:
    paths = [f"{path}/{{role_id}}" for path in _WHERE]
    paths += [f"{path}/{{role_id}}/inherited_to_projects" for path in _BELOW]
    return tuple(f"{method} {path}" for path in paths for method in methods)


def _system_ones(*methods: str) -> tuple[str, ...]:
    return tuple(f"{method} {path}/{{role_id}}" for path in _SYSTEM for method in methods)


_IMPLIED = "/v3/roles/{prior_role_id}/implies"

RULES = (
    identity_rule("identity:roles:list", ADMIN_OR_DOMAIN_ADMIN, "List roles.", "GET /v3/roles"),
    identity_rule("identity:roles:show", ADMIN_OR_DOMAIN_ADMIN, "Show a role.", "GET /v3/roles/{role_id}"),
    identity_rule("identity:roles:create", ADMIN_OR_DOMAIN_ADMIN, "Create a role.", "POST /v3/roles"),
    identity_rule("identity:roles:update", ADMIN_OR_DOMAIN_ADMIN, "Change a role.", "PATCH /v3/roles/{role_id}"),
    identity_rule("identity:roles:delete", ADMIN_OR_DOMAIN_ADMIN, "Delete a role.", "DELETE /v3/roles/{role_id}"),
    identity_rule("identity:implied_roles:list", ADMIN_OR_DOMAIN_ADMIN, "List what a role implies.", f"GET {_IMPLIED}"),
    identity_rule(
        "identity:implied_roles:show",
        ADMIN_OR_DOMAIN_ADMIN,
        "See whether a role implies another.",
        f"GET {_IMPLIED}/{{implied_role_id}}",
        f"HEAD {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:implied_roles:create",
        _IMPLIES,
        "Let a role imply another.",
        f"PUT {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule(
        "identity:implied_roles:delete",
        _IMPLIES,
        "End that a role implies another.",
        f"DELETE {_IMPLIED}/{{implied_role_id}}",
    ),
    identity_rule("identity:role_inferences:list", ADMIN, "List what every role implies.", "GET /v3/role_inferences"),
    identity_rule("identity:grants:list", _SEES, "List the roles given to a user or group on a target.", *_lists()),
    identity_rule("identity:grants:check", _CHECKS, "See whether a role was given.", *_ones("GET", "HEAD")),
    identity_rule("identity:grants:create", _GIVES, "Give a role on a project or domain.", *_ones("PUT")),
    identity_rule("identity:grants:revoke", _GIVES, "Take a role on a project or domain away.", *_ones("DELETE")),
    identity_rule(
        "identity:system_grants:list",
        ADMIN,
        "List the roles given to a user or group on the system.",
        *(f"GET {path}" for path in _SYSTEM),
    ),
    identity_rule(
        "identity:system_grants:check",
        ADMIN,
        "See whether a role was given on the system.",
        *_system_ones("GET", "HEAD"),
    ),
    identity_rule("identity:system_grants:create", ADMIN, "Give a role on the system.", *_system_ones("PUT")),
    identity_rule("identity:system_grants:revoke", ADMIN, "Take a role on the system away.", *_system_ones("DELETE")),
    identity_rule(
        "identity:role_assignments:list",
        ADMIN_OR_DOMAIN_ADMIN,
        "List who has which role; with a token for a domain: on the domain and its projects.",
        "GET /v3/role_assignments",
        "HEAD /v3/role_assignments",
    ),
    identity_rule("identity:services:list", ADMIN, "List the catalog's services.", "GET /v3/services"),
    identity_rule("identity:services:show", ADMIN, "Show a service.", "GET /v3/services/{service_id}"),
    identity_rule("identity:services:create", ADMIN, "Create a service.", "POST /v3/services"),
    identity_rule("identity:services:update", ADMIN, "Change a service.", "PATCH /v3/services/{service_id}"),
    identity_rule("identity:services:delete", ADMIN, "Delete a service.", "DELETE /v3/services/{service_id}"),
    identity_rule("identity:endpoints:list", ADMIN, "List endpoints.", "GET /v3/endpoints"),
    identity_rule("identity:endpoints:show", ADMIN, "Show an endpoint.", "GET /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:endpoints:create", ADMIN, "Create an endpoint.", "POST /v3/endpoints"),
    identity_rule("identity:endpoints:update", ADMIN, "Change an endpoint.", "PATCH /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:endpoints:delete", ADMIN, "Delete an endpoint.", "DELETE /v3/endpoints/{endpoint_id}"),
    identity_rule("identity:regions:list", ANYBODY, "List regions.", "GET /v3/regions"),
    identity_rule("identity:regions:show", ANYBODY, "Show a region.", "GET /v3/regions/{region_id}"),
    identity_rule("identity:regions:create", ADMIN, "Create a region.", "POST /v3/regions"),
    identity_rule("identity:regions:update", ADMIN, "Change a region.", "PATCH /v3/regions/{region_id}"),
    identity_rule("identity:regions:delete", ADMIN, "Delete a region.", "DELETE /v3/regions/{region_id}"),
)
