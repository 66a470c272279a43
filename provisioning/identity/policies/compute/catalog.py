"""Flavors and key pairs."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_READS_OWN = f"{ADMIN} or ({READER} and user_id:%(user_id)s)"
_OWN = f"{ADMIN} or ({MEMBER} and user_id:%(user_id)s)"

RULES = (
    rule("novella:flavors:index", READER, "List flavors.", "GET /flavors", "GET /flavors/detail"),
    rule(
        "novella:flavors:index:all",
        ADMIN,
        "List the flavors of every project.",
        "GET /flavors?is_public=None",
        "GET /flavors/detail?is_public=None",
    ),
    rule("novella:flavors:show", READER, "Show a flavor.", "GET /flavors/{flavor_id}"),
    rule("os_compute_api:os-flavor-manage:create", ADMIN, "Make a flavor.", "POST /flavors"),
    rule(
        "os_compute_api:os-flavor-manage:update",
        ADMIN,
        "Describe a flavor, show or hide it.",
        "PUT /flavors/{flavor_id}",
        "POST /admin/compute/flavor/{flavor_id}/change/",
    ),
    rule("os_compute_api:os-flavor-manage:delete", ADMIN, "Delete a flavor.", "DELETE /flavors/{flavor_id}"),
    rule(
        "os_compute_api:os-flavor-extra-specs:index",
        READER,
        "List a flavor's extra specs.",
        "GET /flavors/{flavor_id}/os-extra_specs",
    ),
    rule(
        "os_compute_api:os-flavor-extra-specs:show",
        READER,
        "Show one extra spec of a flavor.",
        "GET /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "os_compute_api:os-flavor-extra-specs:create",
        ADMIN,
        "Add extra specs to a flavor.",
        "POST /flavors/{flavor_id}/os-extra_specs",
    ),
    rule(
        "os_compute_api:os-flavor-extra-specs:update",
        ADMIN,
        "Change an extra spec of a flavor.",
        "PUT /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "os_compute_api:os-flavor-extra-specs:delete",
        ADMIN,
        "Remove an extra spec of a flavor.",
        "DELETE /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "os_compute_api:os-flavor-access:add_tenant_access",
        ADMIN,
        "Let a project see a flavor; and the rule of every action of a flavor.",
        "POST /flavors/{flavor_id}/action",
    ),
    rule(
        "os_compute_api:os-flavor-access:remove_tenant_access",
        ADMIN,
        "Hide a flavor from a project.",
        "POST /flavors/{flavor_id}/action (removeTenantAccess)",
    ),
    rule(
        "os_compute_api:os-flavor-access", ADMIN, "List who sees a flavor.", "GET /flavors/{flavor_id}/os-flavor-access"
    ),
    rule("os_compute_api:os-keypairs:index", _READS_OWN, "List a user's key pairs.", "GET /os-keypairs"),
    rule("os_compute_api:os-keypairs:show", _READS_OWN, "Show a key pair.", "GET /os-keypairs/{keypair_name}"),
    rule("os_compute_api:os-keypairs:create", _OWN, "Make or import a key pair.", "POST /os-keypairs"),
    rule("os_compute_api:os-keypairs:delete", _OWN, "Delete a key pair.", "DELETE /os-keypairs/{keypair_name}"),
)
